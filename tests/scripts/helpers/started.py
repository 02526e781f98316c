"""Scripts started as processes, and waited for."""

import os
from pathlib import Path

from tests.helpers.warm_process import FRESH, start_script

ROOT = Path(__file__).parents[3]
SPLITS = {"train": 6, "validation": 3, "test": 4}


def start(script, output, *, fresh=FRESH, **options):
    """Start a script of the repository with `--name value` options, writing to a folder."""
    words = [
        word
        for name, value in options.items()
        for word in (f"--{name}", *(value if isinstance(value, list) else [value]))
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = ROOT / "scripts" / script, ["--output_dir", output, *words]
    return start_script(*command, env=environment, cwd=ROOT, fresh=fresh)


def finish(*processes):
    """Wait for scripts that must succeed; their standard outputs."""
    outputs = []
    for process in processes:
        output, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors[-3000:]
        outputs.append(output)
    return outputs
