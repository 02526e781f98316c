"""Countdown as a task with several right answers: its judge against brute force, and the comparison in small."""

from itertools import permutations, product
from operator import add, mul, sub

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dllm_rl.batch_check import check_batch
from scripts.referee import countdown
from scripts.referee.compare import METHODS, OURS
from scripts.referee.countdown import LENGTH, MASK, MINUS, PLUS, TIMES, CountdownTask, Puzzle, answers, draw_puzzles
from scripts.shared.signs import is_held_out
from tests.scripts.helpers.started import in_small

SIGNS = {PLUS: add, MINUS: sub, TIMES: mul}


def from_left_to_right(tokens: tuple[int, ...]) -> int:
    """The value of an expression."""
    total = tokens[0]
    for sign, number in zip(tokens[1::2], tokens[2::2], strict=True):
        total = SIGNS[sign](total, number)
    return total


def brute_force(numbers: tuple[int, ...], target: int) -> set[tuple[int, ...]]:
    """All right answers."""
    every = product(permutations(numbers), product(SIGNS, repeat=3))
    expressions = ((w, a, x, b, y, c, z) for (w, x, y, z), (a, b, c) in every)
    return {tokens for tokens in expressions if from_left_to_right(tokens) == target}


@st.composite
def states(draw: st.DrawFn) -> tuple[Puzzle, tuple[int, ...]]:
    """A puzzle, and some tokens of one of its answers, of which one may be another token."""
    puzzle = draw_puzzles(1, draw(st.integers(0, 999)), held_out=draw(st.booleans()))[0]
    state = [token if draw(st.booleans()) else MASK for token in puzzle.answer]
    if draw(st.booleans()):
        state[draw(st.integers(0, LENGTH - 1))] = draw(st.integers(1, TIMES))
    return puzzle, tuple(state)


def test_an_expression_is_worked_out_without_precedence() -> None:
    (one,) = [found for found in answers(Puzzle((2, 3, 4, 5), 45, ())).tolist() if found[::2] == [2, 3, 4, 5]]
    assert one == [2, PLUS, 3, PLUS, 4, TIMES, 5] and (2 + 3 + 4) * 5 == 45


@settings(max_examples=60)
@given(states())
def test_the_judge_says_what_brute_force_says(drawn) -> None:
    puzzle, state = drawn
    right = brute_force(puzzle.numbers, puzzle.target)
    assert puzzle.answer in right and {tuple(found) for found in answers(puzzle).tolist()} == right
    left = [found for found in right if all(token in (MASK, other) for token, other in zip(state, found, strict=True))]
    batch = CountdownTask().batch([puzzle, *draw_puzzles(2, 0, held_out=True)])
    asked, of = torch.tensor([state]), torch.tensor([0])
    assert bool(batch.completable(asked, of)) == bool(left)
    certain = [len({found[place] for found in left}) == 1 and state[place] == MASK for place in range(LENGTH)]
    assert batch.definite(asked, of)[0].tolist() == certain
    told = tuple(batch.answers_to(asked, of)[0].tolist())
    assert told in left if left else set(told) == {MASK}


def test_puzzles_have_an_answer_or_pay_no_heed_and_no_set_of_numbers_is_in_both_halves() -> None:
    train, test = (draw_puzzles(300, 0, held_out=held_out) for held_out in (False, True))
    assert all(from_left_to_right(puzzle.answer) == puzzle.target for puzzle in [*train, *test])
    assert not any(is_held_out(puzzle.numbers) for puzzle in train) and all(is_held_out(one.numbers) for one in test)
    blind = draw_puzzles(300, 0, held_out=False, heed=False)
    assert all(sorted(one.answer[::2]) == sorted(one.numbers) and one.target in countdown.TARGETS for one in blind)
    hit = sum(from_left_to_right(one.answer) == one.target for one in blind)
    # A blind expression is right where it happens to be: as often as the answers' share of all expressions, on average.
    chances = [len(brute_force(one.numbers, one.target)) for one in blind[:40]]
    assert hit < 60 and sum(chances) / 40 / 648 < 0.2


def test_the_batch_is_one_that_trainers_take() -> None:
    task = CountdownTask()
    check_batch(task.batch(draw_puzzles(5, 0, held_out=False)), task=task)


def test_all_methods_in_small(tmp_path) -> None:
    words = "--start_steps 3 --width 16 --depth 1 --puzzles 40 --test_puzzles 10 --max_steps 2 --prompts 2"
    words += " --num_generations 4 --reward passes"
    table = in_small("referee/countdown.py", tmp_path / "run", *METHODS, *OURS, *words.split())
    assert all(title in table for title in countdown.Countdown.ARMS.values()) and "right at 2 tokens" in table
