"""Importing, training and evaluating need no library of tables and pictures; what needs one names its extra."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCK = """
import sys
# Importing them raises, as where they are not installed; datasets, which TRL and verl bring, needs pandas itself.
for name in ("pandas", "matplotlib", "tensorboard", "tensorboardX", "datasets"):
    sys.modules[name] = None
"""


def run(code: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python code, with what the test's process can import, in an interpreter that has none of the libraries."""
    command = [sys.executable, "-c", BLOCK + code, *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)


def test_every_module_of_the_packages_is_imported_without() -> None:
    code = """
import pkgutil
from importlib import import_module
import dllm_rl, llm_rl, sudoku_env
count = 0
for package in (dllm_rl, llm_rl, sudoku_env):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if ".integrations." not in module.name:
            import_module(module.name)
            count += 1
    for name in package.__all__:
        getattr(package, name)
print(count)
"""
    done = run(code)
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout) > 100


def test_training_evaluating_and_puzzle_sets_work_without(tmp_path: Path) -> None:
    code = """
from pathlib import Path
from dllm_rl.decoding import decode
from dllm_rl.evaluation import evaluate
from dllm_rl.order import ladder_order, mean_order
from dllm_rl.strategies import get_strategy
from llm_rl.training.callbacks import MetricsWriter
from sudoku_env.puzzle_sets import Tier, audit_sets, write_sets
from tests.dllm_rl.helpers.tiny_training import puzzles, sudoku_task, trainer
from tests.llm_rl.helpers import tiny_grpo

folder = Path(sys.argv[1])
callbacks = [MetricsWriter(folder / "metrics.jsonl")]
run = trainer(folder / "run", callbacks=callbacks, save_strategy="steps", save_steps=1)
run.train()
print(evaluate(run.model, puzzles(2), sudoku_task()).summary().keys() >= {"solved", "greedy_forced"})
record = decode(run.model, sudoku_task().batch(puzzles(2)), get_strategy("margin"))
print(mean_order(ladder_order(record).cell_steps).shape)
run = tiny_grpo.trainer(folder / "grpo", max_steps=1)
run.train()
print(run.state.global_step)
tiers = {4: (Tier("singles", (2, 1, 1), (8, 8)),)}
write_sets(folder / "sets", tiers, seed=0)
print(audit_sets(folder / "sets", tiers))
print([name for name in ("pandas", "matplotlib", "tensorboard") if sys.modules[name] is not None])
"""
    done = run(code, str(tmp_path))
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [line for line in done.stdout.splitlines() if not line.startswith("{")]
    assert lines == ["True", "(4, 4)", "1", "[]", "[]"]
    assert (tmp_path / "metrics.jsonl").read_text()


CALLS = {
    "from llm_rl.training.logs import read_json_lines; read_json_lines('README.md')": "pandas",
    "from scripts.benchmarks.order_plot import plot_order; plot_order({'a': None}, 'a.png')": "matplotlib",
    "from dllm_rl import UnmaskArguments; UnmaskArguments('a', report_to='tensorboard')": "tensorboard",
}


def test_what_needs_one_names_the_extra() -> None:
    code = f"""
for call in {list(CALLS)}:
    try:
        exec(call)
    except ModuleNotFoundError as error:
        print(error)
"""
    lines = run(code).stdout.splitlines()
    for line, library in zip(lines, CALLS.values(), strict=True):
        assert f"{library}; install it with pip install 'sudoku-dllm[reports]'" in line


@pytest.mark.parametrize("script", ["train_sudoku.py", "raro/game.py"])
def test_scripts_that_need_them_end_before_they_start(script: str, tmp_path: Path) -> None:
    code = f"import runpy; sys.argv[0] = {script!r}; runpy.run_path('scripts/{script}', run_name='__main__')"
    done = run(code, "--output_dir", str(tmp_path / "run"))
    assert done.returncode == 2 and "sudoku-dllm[reports]" in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()
