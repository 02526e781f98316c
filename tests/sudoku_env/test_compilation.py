import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sudoku_env.kernels.cache_folder import NAME

ROOT = Path(__file__).parents[2]
UNUSED = """
import sys
from importlib import import_module
from pathlib import Path
from numba.core.dispatcher import Dispatcher
import sudoku_env
from sudoku_env.compilation import compile_kernels

compile_kernels(lambda part: None)
for path in Path(sudoku_env.__file__).parent.rglob("*.py"):
    name = ".".join(path.relative_to(Path(sudoku_env.__file__).parents[1]).with_suffix("").parts)
    if not {"kernels", "integrations", "testing"} & set(name.split(".")):
        for value in vars(import_module(name.removesuffix(".__init__"))).values():
            if isinstance(value, Dispatcher) and not value.overloads:
                print(value.py_func.__name__)
"""


def run(*words: str, **environment: str) -> str:
    env = {**os.environ, **environment}
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, cwd=ROOT, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
def test_every_kernel_that_python_calls_is_compiled_in_advance():
    assert run("-c", UNUSED) == ""


@pytest.mark.long
def test_the_command_compiles_once_and_leaves_nothing_to_later_calls(tmp_path):
    """From an empty folder, which takes a minute."""
    first = run("-m", "sudoku_dllm", "compile", NUMBA_CACHE_DIR=str(tmp_path))
    assert re.search(r"\d+ kernels compiled in \d+ s", first) and str(tmp_path) in first
    assert "compiling kernels" not in first  # the command says it itself
    kept = set((tmp_path / NAME).rglob("*"))
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "tour.md").read_text(encoding="utf-8"), re.DOTALL)
    engine = [block for block in blocks if "from sudoku_env import" in block and "transformers" not in block]
    assert len(engine) == 2
    for block in engine:
        assert "compiling kernels" not in run("-c", block, NUMBA_CACHE_DIR=str(tmp_path))
    assert "nothing to compile" in run("-m", "sudoku_dllm", "compile", NUMBA_CACHE_DIR=str(tmp_path))
    assert set((tmp_path / NAME).rglob("*")) == kept
