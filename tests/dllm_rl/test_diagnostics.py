from pathlib import Path

import pytest
import torch
from torch import Tensor

from dllm_rl.diagnostics import gradient_shares, half_batch_cosines, objective_gradient, term_gradients
from dllm_rl.models.llada import LladaForMaskedLM
from dllm_rl.objective import ObjectiveConfig
from dllm_rl.rollouts import Rollout
from dllm_rl.sudoku import PuzzleBatch
from dllm_rl.update import objective_pass
from tests.dllm_rl.helpers.tiny_training import logged, trainer
from tests.dllm_rl.helpers.update_checks import spread, uneven_rollout

CONFIG = ObjectiveConfig(rl_weight=0.3, sft_weight=0.7, advantage_baseline="leave_one_out", advantage_scale="none")


@pytest.fixture
def record(model: LladaForMaskedLM, batch: PuzzleBatch) -> Rollout:
    """Each group has spread, so that each half of the puzzles has a gradient of the first term."""
    return uneven_rollout(
        model, batch, seed=5, has=lambda record: bool((spread(record) > 0.01).all()), num_generations=6
    )


def test_weighted_gradients_add_up_to_that_of_the_objective(model: LladaForMaskedLM, record: Rollout) -> None:
    def backward(rl: Tensor, sft: Tensor) -> None:
        (rl + sft).backward()

    apart = term_gradients(model, record, config=CONFIG, max_tokens=500)
    assert all(parameter.grad is None for parameter in model.parameters())
    objective_pass(model, record, backward, config=CONFIG)
    whole = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
    torch.testing.assert_close(0.3 * apart["rl"] + 0.7 * apart["sft"], whole, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(
        objective_gradient(model, record, config=CONFIG, max_tokens=500), whole, rtol=1e-9, atol=1e-9
    )
    assert apart["rl"].norm() > 0 and apart["sft"].norm() > 0


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


def test_cosines_are_those_of_the_two_halves(model: LladaForMaskedLM, record: Rollout) -> None:
    even = term_gradients(model, record.select(torch.tensor([0, 2])), config=CONFIG)
    odd = term_gradients(model, record.select(torch.tensor([1])), config=CONFIG)
    for name, value in half_batch_cosines(model, record, config=CONFIG).items():
        expected = (even[name] @ odd[name]) / (even[name].norm() * odd[name].norm())
        assert value == pytest.approx(float(expected), abs=1e-9)


def test_a_roll_out_that_cannot_be_halved_is_refused(model: LladaForMaskedLM, record: Rollout) -> None:
    with pytest.raises(ValueError, match="two problems or more"):
        half_batch_cosines(model, record.select(torch.tensor([0])), config=CONFIG)


def test_trainer_logs_cosines_of_fresh_roll_outs(tmp_path: Path) -> None:
    run = trainer(tmp_path, max_steps=4, cosine_steps=2)
    run.train()
    for name in ("rl", "sft"):
        values = logged(run, f"half_batch_cosine_{name}")
        assert len(values) == 2 and all(-1 <= value <= 1 for value in values)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cosine_steps": 3, "num_iterations": 2}, "multiple of the 2"),
        ({"cosine_steps": 1, "per_device_train_batch_size": 1}, "two puzzles"),
    ],
)
def test_arguments_that_measure_nothing_are_refused(tmp_path: Path, changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        trainer(tmp_path, **changes)
