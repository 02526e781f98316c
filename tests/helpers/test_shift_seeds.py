"""The copy of the tests with other seeds."""

import ast
import subprocess
import sys

from tests.helpers.shift_seeds import ROOT, copy_shifted, shifted

SOURCE = """
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("count, seed", [(5, 2), (6, 3)])
def test_anything(seed, count, base_seed: int = 4, *, other: int = 7):
    torch.manual_seed(5)
    np.random.default_rng([6, index, 7 + index]).integers(8)
    generate(9, size=9, clues=(8, 11), seed=10, run_seeds=[11, 12])
    make({"seed": 13, "count": 14}, seed=len(range(15)))
    refused(seed=-1, seeds=None)
    kept(seed=16)  # golden: a figure of README


def test_golden():  # golden
    assert generate(1, seed=17) == "12"
"""


def test_every_way_to_write_a_seed_is_shifted_and_nothing_else():
    numbers = [node.value for node in ast.walk(ast.parse(shifted(SOURCE, by=100))) if isinstance(node, ast.Constant)]

    assert sorted(number for number in numbers if type(number) is int) == sorted(
        [100, 101, 5, 102, 6, 103, 104, 7, 105, 106, 107, 8, 9, 9, 8, 11, 110, 111, 112, 113, 14, 15, 1, 16, 1, 17]
    )


def test_a_shift_of_nothing_is_the_same_text_and_shifts_add_up():
    assert shifted(SOURCE, by=0) == SOURCE
    assert shifted(shifted(SOURCE, by=1), by=2) == shifted(SOURCE, by=3)


def test_the_copy_is_a_tree_whose_tests_can_be_collected(tmp_path):
    changed = copy_shifted(tmp_path, by=1)

    assert changed > 50
    assert (tmp_path / "README.md").read_bytes() == (ROOT / "README.md").read_bytes()
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "tests/llm_rl/core", "tests/helpers"]
    collected = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert collected.returncode == 0, collected.stdout
    conftest = "tests/dllm_rl/conftest.py"
    assert (tmp_path / conftest).read_text(encoding="utf-8") != (ROOT / conftest).read_text(encoding="utf-8")
