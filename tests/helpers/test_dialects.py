"""Which tests run in which dialect, and that it reaches them."""

import sys

import pytest

from tests.helpers import dialects
from tests.helpers.dialects import DIALECTS, IN_TURN, PARTS, Dialect, instructions, main, modules, turn


def started(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["dialects", *words])
    main()


def test_in_as_many_turns_as_there_are_parts_everything_runs_once():
    turns = [turn(number) for number in range(700, 700 + PARTS * len(IN_TURN))]

    ran = [(name, module) for name, part in turns for module in modules(DIALECTS[name].folders)[part - 1 :: PARTS]]

    assert sorted(ran) == sorted((name, module) for name in IN_TURN for module in modules(DIALECTS[name].folders))
    assert "tests/dllm_rl/models/test_llada.py" in modules(DIALECTS["avx2"].folders)


@pytest.mark.slow
def test_a_dialect_reaches_the_tests_and_says_how_to_repeat_it(monkeypatch, capfd):
    """One that computes otherwise and has other seeds, of the one module that looks at it."""
    both = Dialect(instructions("default", "SSE4_2", "SSE41"), shift=1, folders=["tests/dllm_rl/test_dialect.py"])
    monkeypatch.setitem(dialects.DIALECTS, "both", both)
    started(monkeypatch, "both", "--", "-q", "-k", "as_it_was_asked_to")

    said = capfd.readouterr().out
    assert "dialect both (ATEN_CPU_CAPABILITY='default' " in said and "seeds shifted by 1)" in said
    assert "again: python -m tests.helpers.dialects both -- -q -k as_it_was_asked_to" in said
    assert "1 passed" in said and "dialect both: passed" in said


def test_a_dialect_that_fails_is_named(monkeypatch):
    with pytest.raises(SystemExit, match="1 of 1 dialects failed: generic_kernels"):
        started(monkeypatch, "generic_kernels", "--", "-q", "--no-such-option")


def test_unknown_names_are_refused(monkeypatch, capsys):
    with pytest.raises(SystemExit, match="2"):
        started(monkeypatch, "sse")
    assert "there is no dialect 'sse'; choose from avx2, no_vectors" in capsys.readouterr().err
