"""Scripts started as processes, and waited for."""

import json
import os
from pathlib import Path
from typing import Any

from tests.helpers.warm_process import FRESH, ROOT, finished, start_script

ON_ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
SPLITS = {"train": 6, "validation": 3, "test": 4}
TINY_BASE = {"eval_puzzles": 2, "d_model": 16, "n_layers": 1, "mlp_hidden_size": 16, "warmup_steps": 1,
             "anneal_steps": 2, "batch_size": 4, "eval_steps": 2}  # fmt: skip
"""Sizes of a base that is trained within a test."""


def lines(path):
    """The objects of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def words_of(options: dict[str, Any]) -> list[Any]:
    """`--name value` of options, all values of a list."""
    given = {name: value if isinstance(value, (list, tuple)) else [value] for name, value in options.items()}
    return [word for name, values in given.items() for word in (f"--{name}", *values)]


def start(script, output, *, fresh=FRESH, **options):
    """Start a script of the repository with `--name value` options, writing to a folder."""
    command = ROOT / "scripts" / script, ["--output_dir", output, *words_of(options)]
    return start_script(*command, env=ON_ONE_THREAD, cwd=ROOT, fresh=fresh)


def in_small(script, output: Path, *words: str, **options: Any) -> str:
    """The table of a comparison that ran in one process, which printed it too."""
    told = {**options, "seeds": 0, "jobs": 0, "output_dir": output}
    done = finished(ROOT / "scripts" / script, [*words, *words_of(told)])
    table = (output / "table.md").read_text("utf-8")
    assert table in done.stdout
    return table


def finish(*processes):
    """Wait for scripts that must succeed; their standard outputs."""
    outputs = []
    for process in processes:
        output, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors[-3000:]
        outputs.append(output)
    return outputs
