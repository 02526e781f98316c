"""One pass of the objective with its gradient, and comparisons of gradients."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dllm_rl.models.llada import LladaForMaskedLM
from dllm_rl.objective import ObjectiveConfig
from dllm_rl.policy import PolicyConfig
from dllm_rl.rollouts import Rollout
from dllm_rl.update import UpdateResult, objective_pass

POLICY = PolicyConfig(position_temperature=0.5, token_temperature=0.8)


def run(
    model: nn.Module,
    record: Rollout,
    config: ObjectiveConfig,
    max_tokens: int = 65536,
    weights: tuple[float, float] = (1.0, 1.0),
    max_masked: int | None = None,
    **options: Any,
) -> tuple[UpdateResult, list[Tensor]]:
    """The pass and the gradient of weights[0]·J_1 + weights[1]·(J_2 and further terms)."""
    model.zero_grad()

    def backward(rl: Tensor, sft: Tensor) -> None:
        (weights[0] * rl + weights[1] * sft).backward()

    result = objective_pass(
        model, record, backward, config=config, max_tokens=max_tokens, max_masked=max_masked, **options
    )
    return result, [
        torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()
        for parameter in model.parameters()
    ]


def assert_same(got: list[Tensor], expected: list[Tensor], tolerance: float = 1e-5) -> None:
    """Equal within the tolerance, relative to the largest entry where that exceeds 1."""
    scale = max(1.0, max(float(gradient.abs().max()) for gradient in expected))
    assert max(float(gradient.abs().max()) for gradient in expected) > 1e-3
    for left, right in zip(got, expected, strict=True):
        assert float((left - right).abs().max()) < tolerance * scale


def near(expected: Any) -> Any:
    """Equal within 1e-5, or for a larger sum within the error of the log-probabilities that its terms follow."""
    return pytest.approx(expected, rel=5e-6, abs=1e-5)


def moved(model: LladaForMaskedLM, size: float) -> None:
    torch.manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(size * torch.randn_like(parameter))
