"""Importing, training and evaluating need no library of tables and pictures; what needs one names its extra."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
CALLS = {
    "from llm_rl.training.callbacks import read_json_lines; read_json_lines('README.md')": "pandas",
    "from scripts.benchmarks.order_plot import plot_order; plot_order({'a': None}, 'a.png')": "matplotlib",
    "from dllm_rl import UnmaskArguments; UnmaskArguments('a', report_to='tensorboard')": "tensorboard",
}
SCRIPTS = ["train_sudoku.py", "benchmarks/environments.py"]
CODE = f"""
import json, pkgutil, runpy, sys
from contextlib import redirect_stderr
from importlib import import_module
from io import StringIO
from pathlib import Path

# Importing them raises, as where they are not installed; datasets, which TRL and verl bring, needs pandas itself.
for name in ("pandas", "matplotlib", "tensorboard", "tensorboardX", "datasets"):
    sys.modules[name] = None
folder, found = Path(sys.argv[1]), {{"modules": 0}}

import dllm_rl, llm_rl, sudoku_env
for package in (dllm_rl, llm_rl, sudoku_env):
    for module in pkgutil.walk_packages(package.__path__, f"{{package.__name__}}."):
        if ".integrations." not in module.name:
            import_module(module.name)
            found["modules"] += 1
    for name in package.__all__:
        getattr(package, name)

from dllm_rl.decoding import Decoding, decode, evaluate
from dllm_rl.sudoku.order import ladder_order, mean_order
from llm_rl.training.callbacks import MetricsWriter
from sudoku_env.puzzle_sets import Tier, audit_sets, write_sets
from tests.dllm_rl.helpers.tiny_training import puzzles, sudoku_task, trainer
from tests.llm_rl.helpers import tiny_grpo
callbacks = [MetricsWriter(folder / "metrics.jsonl")]
run = trainer(folder / "run", callbacks=callbacks, save_strategy="steps", save_steps=1)
run.train()
record = decode(run.model, sudoku_task().batch(puzzles(2)), Decoding("margin"))
other = tiny_grpo.trainer(folder / "grpo", max_steps=1)
other.train()
tiers = {{4: (Tier("singles", (2, 1, 1), (8, 8)),)}}
write_sets(folder / "sets", tiers, seed=0)
found["done"] = {{
    "evaluated": list(evaluate(run.model, puzzles(2), sudoku_task()).summary()),
    "order": mean_order(ladder_order(record).cell_steps).shape,
    "steps": other.state.global_step,
    "faults": audit_sets(folder / "sets", tiers),
}}

found["calls"] = []
for call in {list(CALLS)}:
    try:
        exec(call)
    except ModuleNotFoundError as error:
        found["calls"].append(str(error))

found["scripts"] = []
for script in {SCRIPTS}:
    sys.argv = [script, "--output_dir", str(folder / "refused")]
    with redirect_stderr(StringIO()) as errors:
        try:
            runpy.run_path(f"scripts/{{script}}", run_name="__main__")
        except SystemExit as end:
            found["scripts"].append((end.code, errors.getvalue()))
(folder / "found.json").write_text(json.dumps(found))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a process without the libraries, which has imported torch once for all of it, left what it did."""
    folder = tmp_path_factory.mktemp("without")
    done = subprocess.run([sys.executable, "-c", CODE, folder], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "found.json").read_text(encoding="utf-8"))


def test_every_module_of_the_packages_is_imported_without(found: dict[str, Any]) -> None:
    assert found["modules"] > 100


def test_training_evaluating_and_puzzle_sets_work_without(folder: Path, found: dict[str, Any]) -> None:
    done = found["done"]
    assert {"solved", "greedy_definite"} <= {*done["evaluated"]} and done["order"] == [4, 4]
    assert (done["steps"], done["faults"]) == (1, []) and (folder / "metrics.jsonl").read_text()


def test_what_needs_one_names_the_extra(found: dict[str, Any]) -> None:
    for error, library in zip(found["calls"], CALLS.values(), strict=True):
        assert f"{library}; install it with pip install 'sudoku-dllm[reports]'" in error


def test_scripts_that_need_them_end_before_they_start(folder: Path, found: dict[str, Any]) -> None:
    assert len(found["scripts"]) == len(SCRIPTS) and not (folder / "refused").exists()
    for status, errors in found["scripts"]:
        assert status == 2 and "sudoku-dllm[reports]" in errors and "Traceback" not in errors
