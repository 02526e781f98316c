import math
from dataclasses import fields, replace

import pytest
import torch

from dllm_rl.decoding import Decoding, Evaluation, evaluate, get_strategy, paired_difference
from dllm_rl.models.adapter import as_policy_model
from dllm_rl.policy import PolicyConfig
from dllm_rl.sudoku import SudokuTask
from sudoku_dllm.trials.statistics import estimate
from sudoku_env.prompts.tokens import detect_definite, judge_error
from tests.dllm_rl.decoding.test_inference import Eos
from tests.dllm_rl.helpers.evaluations import FIRST, SECOND, evaluation
from tests.dllm_rl.helpers.policy_reference import after, is_over, policy_at
from tests.dllm_rl.helpers.update_checks import DRAWN, uneven_rollout


def test_summary_by_hand() -> None:
    """The interval of 3 of 4 is that of a sample whose deviation is 1/2."""
    summary = FIRST.summary()
    assert summary == pytest.approx(
        {
            "solved": 0.75, "solved_ci95": 1.959964 * 0.5 / 2, "cells": 30 / 36, "steps_before_error": 7.5,
            "cells_before_error": 7.0, "greedy_definite": 16 / 20, "chosen_definite": 21 / 30, "forward_passes": 8.0,
            "checks": 0.0, "rejected": 0.0, "dead_ends": 0.0,
        },
        rel=1e-6,
    )  # fmt: skip
    assert all(type(value) is float for value in summary.values())


def test_the_interval_is_that_of_the_study() -> None:
    found = estimate(FIRST.solved[None])
    assert FIRST.summary()["solved_ci95"] == pytest.approx(found.puzzles[1] - found.mean)


def test_parts_are_joined_in_order() -> None:
    joined = Evaluation.joined([FIRST, SECOND])
    for item in fields(Evaluation):
        assert getattr(joined, item.name).tolist() == [*getattr(FIRST, item.name), *getattr(SECOND, item.name)]


def test_greedy_definite_has_no_value_where_no_greedy_position_lies_in_the_map() -> None:
    assert math.isnan(evaluation([1], [2], [0], [0]).greedy_definite)


def test_paired_difference_by_hand() -> None:
    """Differences 0, 1, 1, 0: mean 1/2, squared deviations sum to 1, of four problems."""
    difference, half_width = paired_difference(FIRST, SECOND)
    assert (difference, half_width) == pytest.approx((0.5, 1.959964 * (1 / 3) ** 0.5 / 2))
    assert paired_difference(SECOND, FIRST)[0] == pytest.approx(-0.5)
    assert paired_difference(FIRST, FIRST) == (0.0, 0.0)


def test_margin_decoding_against_loops(model, puzzles, tokenizer) -> None:
    """Each puzzle is decoded alone, by the definition of the margin; batches of any size give the same."""
    expected = []
    for puzzle in puzzles:
        state, steps, forced, in_map = list(puzzle.token_ids), 0, 0, 0
        while not is_over(state, puzzle):
            with torch.no_grad():
                policy = policy_at(model, state, puzzle, PolicyConfig())
            ell = max(policy.margin, key=lambda position: float(policy.margin[position]))
            in_map += ell in puzzle.layout.cell_positions
            forced += ell in detect_definite(state, puzzle.layout)
            state = after(state, (ell, int(policy.token[ell].argmax())), puzzle)
            steps += 1
        wrong = judge_error(state, puzzle.layout)
        expected.append((not wrong, steps - wrong, forced, in_map))
    for batch_size in (2, 512):
        result = evaluate(model, puzzles, SudokuTask(tokenizer.pad_token_id), batch_size=batch_size)
        columns = (result.solved, result.steps_before_error, result.greedy_definite_count, result.greedy_judged)
        assert list(zip(*(column.tolist() for column in columns), strict=True)) == expected
    assert sum(row[2] for row in expected) > 0  # the last cell of a solved puzzle, at least


def test_a_model_without_digits_solves_nothing_and_fails_at_once(puzzles, tokenizer) -> None:
    model, first = as_policy_model(Eos()), get_strategy("definite_first")
    result = evaluate(model, puzzles, SudokuTask(tokenizer.pad_token_id), Decoding(first, on_error="end"))
    assert not result.solved.any() and not result.steps_before_error.any()


def test_a_seed_decides_the_strategies_that_draw(model, puzzles, tokenizer) -> None:
    task, how = SudokuTask(tokenizer.pad_token_id), replace(DRAWN, policy=PolicyConfig(1.0, 1.0))
    results = [evaluate(model, puzzles * 4, task, how, seed=seed) for seed in (0, 0, 1)]
    steps = [result.steps_before_error.tolist() for result in results]
    assert steps[0] == steps[1] != steps[2]


def test_definite_greedy_positions_are_counted_in_live_states_only(model, batch) -> None:
    how = replace(DRAWN, policy=PolicyConfig(1.0, 1.0))
    record = uneven_rollout(model, batch, how, seed=0, num_generations=6)
    definite, judged = record.greedy_definite, record.greedy_judged
    for row in range(len(record.state_of)):
        for k, state in enumerate(record.state_of[row].tolist()):
            ell = int(record.greedy[state])
            assert bool(definite[row, k]) == (state >= 0 and bool(record.definite[state, ell]))
            assert bool(judged[row, k]) == (state >= 0 and bool(batch.judged[0][ell]))
    assert bool((definite <= judged).all())
