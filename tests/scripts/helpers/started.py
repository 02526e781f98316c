"""Scripts started as processes, and waited for."""

import json
import os
from pathlib import Path

from tests.helpers.warm_process import FRESH, start_script

ROOT = Path(__file__).parents[3]
SPLITS = {"train": 6, "validation": 3, "test": 4}
TINY_BASE = {"eval_puzzles": 2, "d_model": 16, "n_layers": 1, "mlp_hidden_size": 16, "warmup_steps": 1,
             "anneal_steps": 2, "batch_size": 4, "eval_steps": 2}  # fmt: skip
"""Sizes of a base that is trained within a test."""


def lines(path):
    """The objects of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


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
