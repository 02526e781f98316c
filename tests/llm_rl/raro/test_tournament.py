"""Tournaments: who wins by hand and by property, how many matches are played, and what they depend on."""

from collections.abc import Sequence
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_rl.raro.tournament import Judge, Match, majority_vote, single_elimination, swiss
from tests.helpers.refusals import refused


def perfect(qualities: Sequence[Sequence[float]], seen: list[list[Match]] | None = None) -> Judge:
    """A judge that is never wrong, and ties equal ones."""

    def judge(matches: Sequence[Match]) -> list[float]:
        if seen is not None:
            seen.append(list(matches))
        found = []
        for question, left, right in matches:
            one, other = qualities[question][left], qualities[question][right]
            found.append(0.5 if one == other else float(one > other))
        return found

    return judge


QUALITIES = st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=17), min_size=1, max_size=4)


@given(QUALITIES, st.integers(0, 1000))
def test_a_judge_that_is_never_wrong_finds_a_best_answer(qualities: list[list[int]], seed: int) -> None:
    counts, seen = [*map(len, qualities)], list[list[Match]]()
    chosen = single_elimination(counts, perfect(qualities, seen), seed)
    assert all(each[number] == max(each) for each, number in zip(qualities, chosen, strict=True))
    # n - 1 matches a question in as few rounds as there can be, nobody twice in a round.
    played = [match.question for matches in seen for match in matches]
    assert [played.count(question) for question in range(len(counts))] == [count - 1 for count in counts]
    assert len(seen) == (max(counts) - 1).bit_length()
    for matches in seen:
        names = [(match.question, answer) for match in matches for answer in match[1:]]
        assert len(set(names)) == len(names)


@given(st.integers(1, 4), st.randoms(use_true_random=False), st.integers(0, 1000))
def test_swiss_finds_the_one_best_of_a_power_of_two(exponent: int, random, seed: int) -> None:  # type: ignore[no-untyped-def]
    """After log2 n rounds one answer alone is unbeaten, and it is the best one."""
    qualities = list(range(2**exponent))
    random.shuffle(qualities)
    seen: list[list[Match]] = []
    (chosen,) = swiss([len(qualities)], perfect([qualities], seen), seed=seed)
    assert qualities[chosen] == len(qualities) - 1
    assert [len(matches) for matches in seen] == [len(qualities) // 2] * exponent


@given(st.permutations(range(4)), st.integers(0, 1000))
def test_three_rounds_of_four_are_a_league(qualities: list[int], seed: int) -> None:
    seen: list[list[Match]] = []
    (chosen,) = swiss([4], perfect([qualities], seen), 3, seed)
    assert qualities[chosen] == 3
    assert len({frozenset(match[1:]) for matches in seen for match in matches}) == 6  # everybody has met everybody


def test_swiss_by_hand() -> None:
    """Three answers, two rounds: each is left over at most once, and the two that tie are told by their opponents."""
    seen: list[list[Match]] = []
    (chosen,) = swiss([3], perfect([[2, 1, 0]], seen), 3, seed=5)
    assert [len(matches) for matches in seen] == [1, 1, 1]
    assert {frozenset(match[1:]) for matches in seen for match in matches} == {
        *map(frozenset, combinations(range(3), 2))
    }
    assert chosen == 0  # two wins and half a point


@given(st.integers(2, 9), st.integers(0, 50))
def test_a_judge_that_cannot_tell_chooses_by_the_draw_alone(count: int, seed: int) -> None:
    for tournament in (single_elimination, swiss):
        chosen = tournament([count], lambda matches: [0.5] * len(matches), seed=seed)
        assert chosen == tournament([count], lambda matches: [0.5] * len(matches), seed=seed)
    drawn = {single_elimination([count], lambda matches: [0.5] * len(matches), seed=each)[0] for each in range(200)}
    assert drawn == set(range(count))  # a place missed by 200 draws of nine has a chance below 1e-9


def test_a_question_does_not_depend_on_the_others_but_on_its_number() -> None:
    def left(matches: Sequence[Match]) -> list[float]:
        return [1.0] * len(matches)

    assert single_elimination([5, 4, 3], left, seed=3)[:2] == single_elimination([5, 4], left, seed=3)
    assert swiss([5, 4, 3], left, seed=3)[:2] == swiss([5, 4], left, seed=3)


def test_the_first_of_the_most_frequent_answers_wins_the_vote() -> None:
    assert majority_vote(["4", "5", " 5 ", "4\n", "6"]) == 0
    assert majority_vote(["6", "5", "4", "5"]) == 1
    assert majority_vote([""]) == 0
    refused("no answer to vote for", lambda: majority_vote([]))


def test_what_cannot_be_played_is_named() -> None:
    tie = perfect([[1, 1]])
    refused(r"questions \[1\] have no answer", lambda: single_elimination([2, 0], tie))
    refused("rounds=0 must be 1 or greater", lambda: swiss([2], tie, 0))

    def judge_by(points: list[float]) -> Judge:
        return lambda matches: points

    for wrong in ([], [1.5], [float("nan")]):
        with pytest.raises(ValueError, match="for 1 matches; give each a number"):
            single_elimination([2], judge_by(wrong))
