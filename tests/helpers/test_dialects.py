"""Which tests run in which dialect, and that it reaches them."""

import subprocess
import sys

import pytest

from tests.helpers.dialects import DIALECTS, IN_TURN, PARTS, ROOT, modules, turn


def start(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.helpers.dialects", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def test_in_as_many_turns_as_there_are_parts_everything_runs_once():
    turns = [turn(number) for number in range(700, 700 + PARTS * len(IN_TURN))]

    ran = [(name, module) for name, part in turns for module in modules(DIALECTS[name].folders)[part - 1 :: PARTS]]

    assert sorted(ran) == sorted((name, module) for name in IN_TURN for module in modules(DIALECTS[name].folders))
    assert "tests/dllm_rl/models/test_llada.py" in modules(DIALECTS["avx2"].folders)


@pytest.mark.slow
def test_a_dialect_reaches_the_tests_and_says_how_to_repeat_it():
    chosen = ["--ignore-glob=*/tests/*/test_[!d]*", "--ignore-glob=*/tests/llm_rl/*"]  # all modules but one
    done = start("no_vectors", "other_seeds", "--", "-q", "-k", "as_it_was_asked_to", *chosen)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "dialect no_vectors (ATEN_CPU_CAPABILITY='default' " in done.stdout
    assert "again: python -m tests.helpers.dialects other_seeds -- -q -k as_it_was_asked_to" in done.stdout
    assert "1 passed" in done.stdout and "1 skipped" in done.stdout


def test_a_dialect_that_fails_is_named():
    done = start("generic_kernels", "--", "-q", "--no-such-option")

    assert done.returncode == 1
    assert "1 of 1 dialects failed: generic_kernels" in done.stderr


def test_unknown_names_are_refused():
    done = start("sse")

    assert done.returncode == 2 and "there is no dialect 'sse'; choose from avx2, no_vectors" in done.stderr
