import ast
import subprocess
import sys
from pathlib import Path

import pytest

import dllm_rl

TREE = ast.parse(Path(dllm_rl.__file__).read_text())


@pytest.mark.parametrize("name", dllm_rl.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(dllm_rl, name) is not None and name in dir(dllm_rl)


def test_type_checkers_are_told_the_names_that_are_loaded_when_asked_for() -> None:
    (block,) = [node for node in TREE.body if isinstance(node, ast.If)]
    told = {alias.asname: node.module for node in block.body for alias in node.names}
    assert told == dllm_rl._HOMES


def test_no_public_name_is_that_of_a_module() -> None:
    folder = Path(dllm_rl.__file__).parent
    assert not [name for name in dllm_rl.__all__ if (folder / name).is_dir() or (folder / f"{name}.py").exists()]


def test_an_unknown_name_raises() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        dllm_rl.__getattr__("nothing")


def test_importing_the_package_registers_llada_and_loads_no_trainer() -> None:
    code = (
        "import sys, dllm_rl\n"
        "from transformers import AutoConfig\n"
        "print(AutoConfig.for_model('llada').__class__.__name__, 'dllm_rl.trainer' in sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.split() == ["LladaConfig", "False"]
