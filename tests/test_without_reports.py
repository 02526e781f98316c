"""Importing, training and evaluating need no library of tables and pictures; what needs one names its extra."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
SERVER = """
import json, os, sys, traceback
# Importing them raises, as where they are not installed; datasets, which TRL and verl bring, needs pandas itself.
for name in ("pandas", "matplotlib", "tensorboard", "tensorboardX", "datasets"):
    sys.modules[name] = None
import torch, transformers.trainer
# Each piece of code that is asked for runs in a fork of its own.
for line in sys.stdin:
    code, sys.argv[1:], output, errors = json.loads(line)
    child = os.fork()
    if child:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(status, flush=True)
        continue
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, path in enumerate((output, errors), start=1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
    status = 0
    try:
        exec(code, {"__name__": "__main__", "sys": sys})
    except SystemExit as end:
        status = end.code
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status or 0)
"""
Run = Callable[..., tuple[str, str]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Run Python code, with what the test's process can import, where there are none of the libraries: both outputs."""
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    server = subprocess.Popen([sys.executable, "-c", SERVER], cwd=ROOT, text=True, **pipes)
    assert server.stdin and server.stdout

    def ask(code: str, *words: str, status: int = 0) -> tuple[str, str]:
        folder = tmp_path_factory.mktemp("outputs")
        outputs = [folder / "output", folder / "errors"]
        print(json.dumps([code, words, *map(str, outputs)]), file=server.stdin, flush=True)
        ended = int(server.stdout.readline())  # type: ignore[union-attr]
        output, errors = (path.read_text() for path in outputs)
        assert ended == status, errors[-3000:]
        return output, errors

    yield ask
    server.stdin.close()
    assert server.wait(60) == 0


def test_every_module_of_the_packages_is_imported_without(run: Run) -> None:
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
    assert int(run(code)[0]) > 100


def test_training_evaluating_and_puzzle_sets_work_without(run: Run, tmp_path: Path) -> None:
    code = """
from pathlib import Path
from dllm_rl.decoding import Decoding, decode, evaluate
from dllm_rl.sudoku.order import ladder_order, mean_order
from llm_rl.training.callbacks import MetricsWriter
from sudoku_env.puzzle_sets import Tier, audit_sets, write_sets
from tests.dllm_rl.helpers.tiny_training import puzzles, sudoku_task, trainer
from tests.llm_rl.helpers import tiny_grpo

folder = Path(sys.argv[1])
callbacks = [MetricsWriter(folder / "metrics.jsonl")]
run = trainer(folder / "run", callbacks=callbacks, save_strategy="steps", save_steps=1)
run.train()
print(evaluate(run.model, puzzles(2), sudoku_task()).summary().keys() >= {"solved", "greedy_definite"})
record = decode(run.model, sudoku_task().batch(puzzles(2)), Decoding("margin"))
print(mean_order(ladder_order(record).cell_steps).shape)
run = tiny_grpo.trainer(folder / "grpo", max_steps=1)
run.train()
print(run.state.global_step)
tiers = {4: (Tier("singles", (2, 1, 1), (8, 8)),)}
write_sets(folder / "sets", tiers, seed=0)
print(audit_sets(folder / "sets", tiers))
print([name for name in ("pandas", "matplotlib", "tensorboard") if sys.modules[name] is not None])
"""
    output, _ = run(code, str(tmp_path))
    lines = [line for line in output.splitlines() if not line.startswith("{")]
    assert lines == ["True", "(4, 4)", "1", "[]", "[]"]
    assert (tmp_path / "metrics.jsonl").read_text()


CALLS = {
    "from llm_rl.training.logs import read_json_lines; read_json_lines('README.md')": "pandas",
    "from scripts.benchmarks.order_plot import plot_order; plot_order({'a': None}, 'a.png')": "matplotlib",
    "from dllm_rl import UnmaskArguments; UnmaskArguments('a', report_to='tensorboard')": "tensorboard",
}


def test_what_needs_one_names_the_extra(run: Run) -> None:
    code = f"""
for call in {list(CALLS)}:
    try:
        exec(call)
    except ModuleNotFoundError as error:
        print(error)
"""
    output, _ = run(code)
    for line, library in zip(output.splitlines(), CALLS.values(), strict=True):
        assert f"{library}; install it with pip install 'sudoku-dllm[reports]'" in line


@pytest.mark.parametrize("script", ["train_sudoku.py", "benchmarks/environments.py"])
def test_scripts_that_need_them_end_before_they_start(run: Run, script: str, tmp_path: Path) -> None:
    code = f"import runpy; sys.argv[0] = {script!r}; runpy.run_path('scripts/{script}', run_name='__main__')"
    _, errors = run(code, "--output_dir", str(tmp_path / "run"), status=2)
    assert "sudoku-dllm[reports]" in errors and "Traceback" not in errors
    assert not (tmp_path / "run").exists()
