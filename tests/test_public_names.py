"""What the three packages offer, and what importing them costs."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import gymnasium
import pytest

import dllm_rl
import llm_rl
import sudoku_dllm
import sudoku_env
from tests.helpers.refusals import refused

ROOT = Path(__file__).parents[1]
PACKAGES = [sudoku_env, dllm_rl, llm_rl]
WITH_NAMES = [
    ".".join(path.relative_to(ROOT).parent.parts)
    for package in (*PACKAGES, sudoku_dllm)
    for path in sorted((ROOT / package.__name__).rglob("__init__.py"))
    if "__all__" in path.read_text(encoding="utf-8")
]
"""The packages that list their names, `llm_rl.core` among them."""
packages = pytest.mark.parametrize("package", PACKAGES, ids=[package.__name__ for package in PACKAGES])


def printed_by(code: str) -> list[str]:
    """The words that a new interpreter prints."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


@packages
def test_every_public_name_is_there_once(package: ModuleType) -> None:
    assert len(set(package.__all__)) == len(package.__all__)
    assert all(getattr(package, name) is not None and name in dir(package) for name in package.__all__)


@packages
def test_type_checkers_are_told_the_names_that_are_loaded_when_asked_for(package: ModuleType) -> None:
    stub = ast.parse((ROOT / package.__name__ / "__init__.pyi").read_text())
    told = {each.asname: f"{package.__name__}.{node.module}" for node in stub.body for each in node.names}
    assert {*told} == {*package.__all__}
    assert all(getattr(importlib.import_module(home), name) is getattr(package, name) for name, home in told.items())


@packages
def test_no_public_name_is_that_of_a_module(package: ModuleType) -> None:
    folder = ROOT / package.__name__
    assert not [name for name in package.__all__ if (folder / name).is_dir() or (folder / f"{name}.py").exists()]


@pytest.mark.parametrize("name", WITH_NAMES)
def test_a_public_name_is_no_module_once_all_modules_are_imported(name: str) -> None:
    """An import of `package.name` puts the module into the package under its name, in the place of a function."""
    try:
        package = importlib.import_module(name)
    except ImportError as error:
        pytest.skip(str(error))
    for path in Path(package.__path__[0]).glob("[!_]*.py"):
        importlib.import_module(f"{name}.{path.stem}")
    assert not [each for each in package.__all__ if isinstance(getattr(package, each), ModuleType)]


@packages
def test_an_unknown_name_raises(package: ModuleType) -> None:
    refused("attribute nothing", lambda: package.nothing, AttributeError)


@pytest.mark.parametrize(
    ("package", "heavy"),
    [
        ("sudoku_env", ["numba", "scipy", "PIL", "torch", "transformers", "matplotlib", "pandas"]),
        ("llm_rl", ["torch", "transformers", "numpy"]),
    ],
)
def test_importing_a_package_loads_nothing_heavy(package: str, heavy: list[str]) -> None:
    assert not printed_by(f"import sys, {package}; print(*[name for name in {heavy} if name in sys.modules])")


def test_importing_dllm_rl_registers_llada_and_loads_no_trainer() -> None:
    code = "import dllm_rl, sys; from transformers import AutoConfig; print('dllm_rl.training.trainer' in sys.modules, "
    assert printed_by(f"{code}type(AutoConfig.for_model('llada')).__name__)") == ["False", "LladaConfig"]


def test_importing_sudoku_env_registers_the_environments() -> None:
    assert gymnasium.spec("SudokuUnmask-v0").entry_point == "sudoku_env.envs.unmask_env:UnmaskEnv"
    assert gymnasium.spec("Sudoku-v0").entry_point == "sudoku_env.envs.board_env:SudokuEnv"
    assert gymnasium.spec("SudokuText-v0").entry_point == "sudoku_env.chat.text_env:SudokuText"
