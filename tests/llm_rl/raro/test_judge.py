"""The critic as a judge: what each label is worth, in both orders, and what is never asked."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from llm_rl.raro.judge import CriticJudge
from llm_rl.raro.tournament import Match, single_elimination, swiss
from tests.llm_rl.helpers.tiny_raro import Critic, ScriptedEngine, arguments, raro_model
from tests.llm_rl.helpers.tiny_vapor import tag_tokenizer


def no_policy(question: str, n: int) -> str:
    raise AssertionError("a judge asks the critic alone")


def make_judge(
    folder: Path, critic: Critic, answers: Sequence[Sequence[str]], **options: Any
) -> tuple[CriticJudge, ScriptedEngine]:
    engine = ScriptedEngine(no_policy, critic)
    questions = [f"red {number}" for number in range(len(answers))]
    given = {"engine": engine, **options}
    return CriticJudge(raro_model(), tag_tokenizer(), arguments(folder), questions, answers, **given), engine


def longer(question: str, first: str, second: str, n: int) -> str:
    """Takes the longer answer for the expert's."""
    if len(first) == len(second):
        return "one [Tie]"
    return "one [Answer 1]" if len(first) > len(second) else "one [Answer 2]"


def test_points_by_hand(tmp_path: Path) -> None:
    """Of both orders: agreeing labels, a place that is preferred, a tie, a critique without a label, none with one."""
    said = {
        ("blue", "red"): ("[Answer 1]", "[Answer 2]"),
        ("blue", "sky"): ("[Answer 1]", "[Answer 1]"),
        ("blue", "sun"): ("[Tie]", "[Answer 1]"),
        ("blue", "one"): ("one", "[Answer 1]"),
        ("blue", "two"): ("one", "one"),
    }

    def critic(question: str, first: str, second: str, n: int) -> str:
        order = (first, second) in said
        return said[(first, second) if order else (second, first)][not order]

    judge, engine = make_judge(tmp_path, critic, [["blue", "red", "sky", "sun", "one", "two"]])
    matches = [Match(0, 0, other) for other in range(1, 6)]
    assert judge(matches) == [1.0, 0.5, 0.25, 0.0, 0.5]
    assert len(engine.asked) == 10 and judge.tokens > 0
    assert judge(matches[::-1]) == [0.5, 0.0, 0.25, 0.5, 1.0] and len(engine.asked) == 10  # judged once


def test_what_cannot_be_better_is_not_asked(tmp_path: Path) -> None:
    """Equal answers tie, and one that is hidden reasoning alone loses; the reasoning is never shown."""
    judge, engine = make_judge(tmp_path, longer, [["red", "<R>one</R>red", "<R>one</R>", "<R>two", "<R>sky</R>blue"]])
    assert judge([Match(0, 0, 1), Match(0, 0, 2), Match(0, 2, 0), Match(0, 2, 3)]) == [0.5, 1.0, 0.0, 0.5]
    assert not engine.asked and judge.tokens == 0
    assert judge([Match(0, 4, 1)]) == [1.0]
    assert [(asked["first"], asked["second"]) for asked in engine.asked] == [("blue", "red"), ("red", "blue")]


@pytest.mark.parametrize("tournament", [single_elimination, swiss])
def test_a_critic_that_knows_what_is_better_finds_it_among_many(tmp_path: Path, tournament: Any) -> None:
    answers = [["one", "one two", "one two three", "<R>one"], ["red blue sky sun"], ["sky", "sky sun"]]
    judge, _ = make_judge(tmp_path, longer, answers)
    assert tournament([4, 1, 2], judge, seed=3) == [2, 0, 1]
    found = judge.metrics.compute()
    assert found["critic/unparsable_rate"] == found["critic/tie_rate"] == 0


def test_critiques_are_counted(tmp_path: Path) -> None:
    judge, engine = make_judge(tmp_path, longer, [["one", "one two"]], critiques=3)
    assert judge([Match(0, 1, 0)]) == [1.0] and len(engine.asked) == 6


def test_what_does_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="critiques=2 must be 1 or greater, and 1 where greedy=True"):
        make_judge(tmp_path, longer, [["one"]], critiques=2, greedy=True)
    with pytest.raises(ValueError, match="1 questions and 2 lists"):
        CriticJudge(raro_model(), tag_tokenizer(), arguments(tmp_path), ["red"], [["one"], ["two"]])
