"""One pass of the objective with its gradient, comparisons of gradients in float64, and roll-outs that suit them."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dllm_rl.decoding import Decoding
from dllm_rl.decoding.rollouts import Rollout, rollout
from dllm_rl.policy import PolicyConfig
from dllm_rl.terms.objective import ObjectiveConfig
from dllm_rl.training.update import UpdateResult, objective_pass
from sudoku_env.prompts.tokens import PreFilled
from tests.dllm_rl.helpers.policy_reference import gradients, objective
from tests.helpers.drawn import first_with

POLICY = PolicyConfig(position_temperature=0.5, token_temperature=0.8)
DRAWN = Decoding("policy", policy=POLICY, on_error="end")
"""Roll-outs as trained, at these temperatures."""


def run(model, record, config, weights=(1.0, 1.0), **options) -> tuple[UpdateResult, list[Tensor]]:
    """The pass and the gradient of weights[0]·J_1 + weights[1]·(J_2 and further terms)."""
    model.zero_grad()

    def backward(first: Tensor, second: Tensor) -> None:
        (weights[0] * first + weights[1] * second).backward()

    result = objective_pass(model, record, backward, config=config, **options)
    found = ((parameter, parameter.grad) for parameter in model.parameters())
    return result, [torch.zeros_like(one) if gradient is None else gradient.clone() for one, gradient in found]


def assert_same(got: list[Tensor], expected: list[Tensor], tolerance: float = 1e-9) -> None:
    """Equal within the tolerance, relative to the largest entry where that exceeds 1."""
    largest = max(float(gradient.abs().max()) for gradient in expected)
    assert largest > 1e-3
    for left, right in zip(got, expected, strict=True):
        assert float((left - right).abs().max()) < tolerance * max(1.0, largest)


def check_both_terms(model: nn.Module, puzzles: list[PreFilled], record: Rollout, config: ObjectiveConfig) -> int:
    """Hold both terms, their gradients and what is clipped to the loops; how many decisions are clipped."""
    rl, sft, clipped = objective(model, puzzles[:3], record, config)
    for term, weights in ((rl, (1.0, 0.0)), (sft, (0.0, 1.0))):
        expected = gradients(term, model)
        result, got = run(model, record, config, weights=weights)
        assert_same(got, expected)
        assert (result.terms["policy"], result.terms["f"]) == near((float(rl.detach()), float(sft.detach())))
        assert result.shares["clip_frac"][0] == clipped
    return clipped


def near(expected: Any) -> Any:
    """Equal within 1e-9: a million times the error of a float64 number near 1, for sums of a thousand such terms."""
    return pytest.approx(expected, rel=1e-9, abs=1e-9)


def spread(record: Rollout) -> Tensor:
    """By how much what its trajectories earn differs within each group, `(Q,)`."""
    earned = record.visited_rewards.sum(1).reshape(-1, record.num_generations)
    return earned.amax(1) - earned.amin(1)


def uneven(record: Rollout) -> bool:
    """Whether some trajectories solve and some end with an error, and those of some group earn different amounts."""
    return bool(record.solved.any() and record.errors.any() and (spread(record) > 0.01).any())


def uneven_rollout(model, problems, how: Decoding = DRAWN, *, seed: int, has=uneven, **options) -> Rollout:
    """The first roll-out with a property, of those drawn from a seed and the seeds after it."""

    def draw(number: int) -> Rollout:
        return rollout(model, problems, how, generator=torch.Generator().manual_seed(number), **options)

    return first_with(has, draw, seed=seed)
