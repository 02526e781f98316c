"""The copy of the tests with other seeds."""

import ast
import subprocess
import sys

import pytest

from tests.helpers.shift_seeds import ROOT, copy_shifted, shifted

SOURCE = """
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("count, seed", [(5, 2), pytest.param(6, 3, id="6")])
@pytest.mark.parametrize(["seed", "count"], [(18, 5)])
def test_anything(seed, count, base_seed: int = 4, *, other: int = 7):
    torch.manual_seed(5)
    np.random.default_rng([6, index, 7 + index]).integers(8)
    generate(9, size=9, clues=(8, 11), seed=10, run_seeds=[11, 12])
    make({"seed": 13, "count": 14}, seed=len(range(15)))
    refused(seed=-1, seeds=None)
    kept(seed=16)  # golden: a figure of README
    play(5, 19, seeds=20)


async def play(count, seed, seeds=()):
    numbers.play(5, 6)


class TestGolden:  # golden
    seed = dict(seed=17)


def test_golden():  # golden
    assert generate(1, seed=17) == "12"
"""


def test_every_way_to_write_a_seed_is_shifted_and_nothing_else():
    numbers = [node.value for node in ast.walk(ast.parse(shifted(SOURCE, by=100))) if isinstance(node, ast.Constant)]

    seeds = [*range(100, 108), *range(110, 114), 118, 119, 120]
    others = [5, 6, 7, 8, 9, 9, 8, 11, 14, 15, 1, 16, 5, 5, 5, 6, 17, 1, 17]
    assert sorted(number for number in numbers if type(number) is int) == sorted([*seeds, *others])


def test_a_shift_of_nothing_is_the_same_text_and_shifts_add_up():
    assert shifted(SOURCE, by=0) == SOURCE
    assert shifted(shifted(SOURCE, by=1), by=2) == shifted(SOURCE, by=3)


def test_a_copy_replaces_nothing_but_a_copy(tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("mine")
    for folder in (ROOT, ROOT.parent, ROOT / "tests", tmp_path / "notes"):
        with pytest.raises(ValueError, match=r"lie one in the other|holds something that is no copy"):
            copy_shifted(folder, by=1)
    assert (tmp_path / "notes" / "a.txt").read_text() == "mine" and (ROOT / "README.md").is_file()
    copy_shifted(tmp_path / "copy", by=1)
    (tmp_path / "copy" / "left_over").write_text("")
    copy_shifted(tmp_path / "copy", by=2)
    assert not (tmp_path / "copy" / "left_over").exists()


def test_the_copy_is_a_tree_whose_tests_can_be_collected(tmp_path):
    changed = copy_shifted(tmp_path, by=1)

    assert changed > 50
    assert (tmp_path / "README.md").read_bytes() == (ROOT / "README.md").read_bytes()
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "tests/llm_rl/core", "tests/helpers"]
    collected = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert collected.returncode == 0, collected.stdout
    conftest = "tests/dllm_rl/conftest.py"
    assert (tmp_path / conftest).read_text(encoding="utf-8") != (ROOT / conftest).read_text(encoding="utf-8")
