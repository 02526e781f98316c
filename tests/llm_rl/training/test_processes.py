from pathlib import Path

import pytest

from tests.helpers.warm_process import run_in_two_processes

HANGS = Path(__file__).parents[1] / "helpers" / "hangs.py"


@pytest.mark.slow
def test_a_process_that_hangs_holds_the_others_for_ddp_timeout_alone(tmp_path: Path) -> None:
    done = run_in_two_processes(HANGS, [tmp_path], timeout=240)
    assert done.returncode > 0, done.stderr[-4000:]
    assert "process 0 of 2" in done.stdout and "Timed out waiting 15000ms" in done.stderr
