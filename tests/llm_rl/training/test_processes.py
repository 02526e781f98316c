import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

HELPERS = Path(__file__).parents[1] / "helpers"


@pytest.mark.slow
def test_a_process_that_hangs_holds_the_others_for_ddp_timeout_alone(tmp_path: Path) -> None:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    began = time.monotonic()
    done = subprocess.run(
        [*launcher, str(HELPERS / "hangs.py"), str(tmp_path)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode != 0 and time.monotonic() - began < 240
    assert "process 0 of 2" in done.stdout and "Timed out waiting 15000ms" in done.stderr
