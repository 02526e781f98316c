import pytest
import torch
from torch import Tensor

from dllm_rl.decoding.rollouts import rollout
from dllm_rl.terms.objective import ObjectiveConfig
from dllm_rl.training.update import objective_pass
from scripts.sudoku.gradient_shares import gradient_shares, objective_gradient
from tests.dllm_rl.helpers.tiny_training import puzzles, sudoku_task, warm_model


def test_the_gradient_is_what_the_passes_add_up_to() -> None:
    def backward(rl: Tensor, sft: Tensor) -> None:
        (rl + sft).backward()

    model, config = warm_model().double(), ObjectiveConfig(policy_weight=0.3)
    record = rollout(model, sudoku_task().batch(puzzles(3)), num_generations=6)
    found = objective_gradient(model, record, config=config, max_tokens=500)
    assert all(parameter.grad is None for parameter in model.parameters())
    objective_pass(model, record, backward, config=config)
    whole = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
    torch.testing.assert_close(found, whole, rtol=1e-9, atol=1e-9)
    assert found.norm() > 0


def test_shares_by_hand() -> None:
    """Three puzzles: (|a|² + |b|²) / 2 is 5, 2, 1, |a − b|² / 2 is 2, 0, 2, the means are (2, 0), (1, 1), (0, 0)."""
    first = torch.tensor([[3.0, 0.0], [1.0, 1.0], [1.0, 0.0]])
    second = torch.tensor([[1.0, 0.0], [1.0, 1.0], [-1.0, 0.0]])
    shares = gradient_shares(first, second)
    assert shares[:3] == pytest.approx((4 / 8, 2 / 8, 2 / 8))
    # Without each: noise 2 of 3, 4 of 6, 2 of 7; in common the product of the two that are left, 0, 0, 2 of 3.5.
    noise, common = torch.tensor([2 / 3, 4 / 6, 2 / 7]), torch.tensor([0.0, 0.0, 4 / 7])
    for got, without in ((shares.errors[0], noise), (shares.errors[2], common)):
        assert got == pytest.approx(float(((2 / 3) * (without - without.mean()).square().sum()).sqrt()), rel=1e-5)


def test_shares_of_gradients_whose_variances_are_known() -> None:
    """Expectation of squared length 4, variance 3 over puzzles and 2 over roll-outs, within four standard errors."""
    generator = torch.Generator().manual_seed(3)
    wanted = 2.0 * torch.eye(1, 40) + (3 / 40) ** 0.5 * torch.randn(400, 40, generator=generator)
    first, second = (wanted + (2 / 40) ** 0.5 * torch.randn(400, 40, generator=generator) for _ in range(2))
    shares = gradient_shares(first, second)
    for got, error, expected in zip(shares[:3], shares.errors, (2 / 9, 3 / 9, 4 / 9), strict=True):
        assert 0 < error < 0.02 and abs(got - expected) < 4 * error


def test_shares_need_puzzles_and_gradients() -> None:
    with pytest.raises(ValueError, match="the shares of 2 puzzles"):
        gradient_shares(torch.ones(2, 3), torch.ones(2, 3))
    with pytest.raises(ValueError, match="all gradients are 0"):
        gradient_shares(torch.zeros(3, 3), torch.zeros(3, 3))
