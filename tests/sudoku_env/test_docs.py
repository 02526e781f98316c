"""The examples in docs/environments.md run as they stand."""

import re

import pytest

from tests.helpers.pages import ROOT, blocks

ADAPTED = {"reasoning_gym": "reasoning_gym", "trl": "datasets", "verifiers": "verifiers.v1", "openenv": "openenv.core"}
ALL_BLOCKS = blocks(ROOT / "docs" / "environments.md")
BLOCKS = [block for block in ALL_BLOCKS if "sudoku_env.integrations" not in block]


def test_examples_run_one_after_the_other(capsys):
    assert len(BLOCKS) >= 5
    names = {"__name__": "example"}
    for block in BLOCKS:
        exec(compile(block, "docs/environments.md", "exec"), names)
        printed = capsys.readouterr().out.splitlines()
        if claimed := re.search(r"print\(.*\)  # ([-\d. ]+(False|True)?)$", block, re.MULTILINE):
            assert printed[-1] == claimed[1]
    puzzle, answer = "1..4|..12|21..|.3..", "1234341221434321"
    assert names["reward"]([answer, "no idea"], puzzle=[puzzle, puzzle]) == [1.0, 0.0]


@pytest.mark.parametrize("name", ADAPTED)
def test_examples_of_adapters_run_where_their_packages_are(name, capsys):
    (block,) = [block for block in ALL_BLOCKS if f"sudoku_env.integrations.{name}" in block]
    pytest.importorskip(ADAPTED[name], reason=f"needs {name}: make test-integrations")
    names = {"__name__": "example"}
    exec(compile(block, "docs/environments.md", "exec"), names)
    assert capsys.readouterr().out.strip()
    if name == "verifiers":
        assert len(names["answers"]) == 10 and names["answers"][0].data.puzzle.count(".") == 49
