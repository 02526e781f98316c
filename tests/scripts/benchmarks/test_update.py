"""The naive update and the versions in between give the lean update's gradient; the benchmark runs at a tiny size."""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from dllm_rl.decoding.rollouts import Rollout, rollout
from dllm_rl.terms.objective import ObjectiveConfig
from dllm_rl.training.update import Backward, UpdateResult, objective_pass
from scripts.benchmarks.naive_update import in_float64, naive_pass, unshared
from sudoku_env.generator import generate
from tests.dllm_rl.helpers.tiny_training import prefilled, sudoku_task, warm_model
from tests.dllm_rl.helpers.update_checks import DRAWN, POLICY
from tests.helpers.drawn import first_seed
from tests.helpers.warm_process import ROOT, finished

torch.set_num_threads(1)
OTHER = {"advantage_baseline": "leave_one_out", "advantage_scale": "none", "reduction": "mean", "lam": 0.2}
CONFIGS = [ObjectiveConfig(), ObjectiveConfig(**OTHER, policy_weight=0.3, f_weight=2.0)]
BOTH = (1.0, 1.0)


def played(num_generations: int, tokens_per_step: int = 1) -> tuple[PreTrainedModel, Rollout]:
    """A roll-out of puzzles of different K and prompts of different length, and the model, in float64.

    It is of the first seed with which some trajectory ends before others and a group has rewards that differ.
    """
    model, puzzles = warm_model(), []
    for clues, template in ((8, "compact"), (9, "short"), (10, "compact")):
        puzzles += prefilled(generate(1, size=4, clues=clues, rule="singles", seed=1).boards, template)
    batch, how = sudoku_task().batch(puzzles), replace(DRAWN, tokens_per_step=tokens_per_step)

    def drawn(seed: int) -> Rollout:
        torch.manual_seed(seed)
        return rollout(model, batch, how, num_generations=num_generations)

    def suits(seed: int) -> bool:
        record = drawn(seed)
        spread = record.rewards.sum(1).reshape(len(puzzles), num_generations).std(1)
        return bool(record.errors.any() and (spread > 0).any()) and len(set(record.live.sum(1).tolist())) > 1

    record = in_float64(drawn(first_seed(suits, seed=3)))
    assert batch.prompt_mask is not None and len(record.decisions.unique()) > 1
    scored = objective_pass(model.double(), record, nothing, config=ObjectiveConfig())
    return model, replace(record, old_logprobs=scored.logprobs)


def nothing(first: Tensor, second: Tensor) -> None:
    """A backward pass that is not taken."""


def gradient(model: nn.Module, work: Callable[[Backward], Any], weights: tuple[float, float] = BOTH) -> Tensor:
    """Gradient of weights[0]·J_1 + weights[1]·J_2 as one vector."""
    model.zero_grad()

    def backward(first: Tensor, second: Tensor) -> None:
        (weights[0] * first + weights[1] * second).backward()

    work(backward)
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters() if parameter.grad is not None])


def assert_same(got: Tensor, expected: Tensor) -> None:
    assert float((got - expected).abs().max()) < 1e-9 * float(expected.abs().max())


def largest_change(result: UpdateResult, record: Rollout) -> float:
    """Of the log-probability of a decision since it was drawn."""
    return float((result.logprobs - record.old_logprobs)[record.live].abs().max())


@pytest.mark.parametrize(("num_generations", "tokens_per_step"), [(2, 1), (8, 1), (8, 4)])
@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("update", [0, 1])
def test_the_naive_gradient_is_the_lean_one(num_generations, config, update, tokens_per_step) -> None:
    """Each term on its own and both; at the second update on a roll-out the ratios differ from 1 and some are cut."""
    model, record = played(num_generations, tokens_per_step)
    assert bool((~record.live).any()) and bool(record.errors.any())
    lean, naive = (partial(work, model, record, config=config) for work in (objective_pass, naive_pass))
    result = lean(nothing)
    while update and largest_change(result, record) < 0.25:  # ratios beyond 1.2 or below 0.8
        ascent = gradient(model, lean)
        vector = nn.utils.parameters_to_vector(model.parameters())
        nn.utils.vector_to_parameters(vector + 0.05 * ascent / ascent.norm(), model.parameters())
        result = lean(nothing)
    for weights in ((1.0, 0.0), (0.0, 1.0), BOTH):
        expected = gradient(model, partial(lean, max_masked=50), weights)
        assert_same(gradient(model, naive, weights), expected)
    assert naive(nothing) == pytest.approx((result.terms["policy"], result.terms["f"]), rel=1e-9, abs=1e-9)
    assert float(expected.abs().max()) > 1e-3


def test_the_update_without_sharing_gives_the_same_gradient_from_more_states() -> None:
    model, record = played(8)
    alone = unshared(record)
    assert len(alone.responses) == int(record.live.sum()) > len(record.responses)
    lean = partial(objective_pass, model, config=ObjectiveConfig(), max_tokens=2000)
    assert_same(gradient(model, partial(lean, alone)), gradient(model, partial(lean, record)))


def test_the_reference_does_not_go_through_the_lean_policy() -> None:
    """Guards the comparison: a change of temperature in one of the two is seen."""
    model, record = played(8)
    other = replace(record, policy=replace(POLICY, token_temperature=1.0))
    expected = gradient(model, partial(objective_pass, model, record, config=ObjectiveConfig()))
    got = gradient(model, partial(naive_pass, model, other, config=ObjectiveConfig()))
    assert float((got - expected).abs().max()) > 1e-2 * float(expected.abs().max())


@pytest.mark.slow
def test_the_benchmark_writes_its_tables_and_figure(tmp_path) -> None:
    words = (
        "--cases shipped wide --puzzles 1 --num_generations 2 --rounds 1 --vocabulary 500 --memory 1 "
        "--position_temperatures 0.4 --tokens_per_step 1 4"
    ).split()
    script = ROOT / "scripts" / "benchmarks" / "update.py"
    finished(script, [*words, "--output_dir", tmp_path], env={**os.environ, "OMP_NUM_THREADS": "1"})
    times = pd.read_csv(tmp_path / "update_time.csv").set_index("task")
    assert list(times.index) == [f"{case}, T_pos 0.4, {k} a step" for case in ("shipped", "wide") for k in (1, 4)]
    assert (times["distinct"] <= times["visited"]).all() and (times["gradient error"] < 1e-10).all()
    memory = pd.read_csv(tmp_path / "update_memory.csv")
    assert memory[["curve", "Q", "G"]].values.tolist() == [["G", 1, 2], ["K", 1, 2], ["Q", 1, 2]]
    assert (memory[["naive", "lean"]] > 0).all(axis=None)
    assert (tmp_path / "update.png").stat().st_size > 1000
