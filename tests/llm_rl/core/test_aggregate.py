import math
from typing import Any, get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from llm_rl.core import Reduction, aggregate, aggregate_loss, loss_weights, masked_mean, masked_sum
from tests.llm_rl.helpers.loss_type_steps import LOSS_TYPES

REDUCTIONS = get_args(Reduction)
VALUES = torch.tensor([[1.0, 2.0, 3.0], [10.0, math.nan, math.inf], [math.nan, 7.0, 7.0]])
MASK = torch.tensor([[True, True, True], [True, False, False], [False, False, False]])


def test_masked_sum_and_mean_by_hand() -> None:
    assert masked_sum(VALUES, MASK).item() == 16
    assert masked_mean(VALUES, MASK).item() == 4
    assert masked_sum(VALUES, MASK, dim=-1).tolist() == [6, 10, 0]
    assert masked_mean(VALUES, MASK, dim=-1).tolist() == [2, 10, 0]
    assert masked_mean(VALUES, MASK, dim=(0, 1)).item() == 4
    assert masked_sum(MASK, MASK).item() == 4


@pytest.mark.parametrize(
    ("reduction", "expected"),
    [
        ("sum", 16.0),
        ("mean", 4.0),
        ("seq_mean_token_sum", 16 / 3),  # (6 + 10 + 0) / 3: the fully masked row counts as a row
        ("seq_mean_token_mean", 12 / 3),  # (2 + 10 + 0) / 3
    ],
)
def test_normalizers_by_hand(reduction: Reduction, expected: float) -> None:
    assert aggregate(VALUES, MASK, reduction).item() == pytest.approx(expected)
    grouped = aggregate(VALUES.view(1, 3, 3), MASK.view(1, 3, 3), reduction)
    assert grouped.item() == pytest.approx(expected)


def test_weights_by_hand() -> None:
    weights = loss_weights(MASK, "seq_mean_token_mean")
    assert weights.flatten().tolist() == pytest.approx([1 / 9, 1 / 9, 1 / 9, 1 / 3, 0, 0, 0, 0, 0])
    assert loss_weights(MASK, "seq_mean_token_sum")[0, 0].item() == pytest.approx(1 / 3)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_gradient_is_the_weight_and_zero_outside_the_mask(reduction: Reduction) -> None:
    values = VALUES.clone().requires_grad_()
    aggregate(values, MASK, reduction).backward()
    assert torch.equal(values.grad, loss_weights(MASK, reduction))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [*REDUCTIONS, *LOSS_TYPES])
def test_nothing_counts(name: Any) -> None:
    values, nothing = torch.full((2, 3), math.nan, requires_grad=True), torch.zeros(2, 3, dtype=torch.bool)
    length = 4 if name == "dr_grpo" else None
    total = (
        aggregate(values, nothing, name)
        if name in REDUCTIONS
        else aggregate_loss(values, nothing, name, max_length=length)
    )
    total.backward()
    assert total.item() == 0 and not values.grad.any()


@given(st.integers(0, 2**31), st.sampled_from(REDUCTIONS), st.lists(st.integers(0, 20), max_size=4))
def test_micro_batches_add_up_to_the_whole(seed: int, reduction: Reduction, cuts: list[int]) -> None:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(4, 5, generator=generator, dtype=torch.float64)
    mask = torch.rand(4, 5, generator=generator) < 0.6
    whole = aggregate(values, mask, reduction)
    order = torch.randperm(20, generator=generator)
    weighted = (values * loss_weights(mask, reduction, torch.float64)).flatten()[order]
    parts = torch.tensor_split(weighted, sorted(cuts))
    assert sum(part.sum().item() for part in parts) == pytest.approx(whole.item(), abs=1e-12)


@given(st.integers(0, 2**31), st.integers(1, 4), st.integers(1, 5))
def test_normalizers_against_loops(seed: int, rows: int, length: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(rows, length, generator=generator, dtype=torch.float64)
    mask = torch.rand(rows, length, generator=generator) < 0.5
    kept = [
        [v for v, m in zip(vs, ms, strict=True) if m] for vs, ms in zip(values.tolist(), mask.tolist(), strict=True)
    ]
    count = sum(map(len, kept))
    expected = {
        "sum": sum(map(sum, kept)),
        "mean": sum(map(sum, kept)) / max(count, 1),
        "seq_mean_token_sum": sum(map(sum, kept)) / rows,
        "seq_mean_token_mean": sum(sum(row) / max(len(row), 1) for row in kept) / rows,
    }
    for reduction, value in expected.items():
        assert aggregate(values, mask, reduction).item() == pytest.approx(value, abs=1e-12)  # type: ignore[arg-type]


def test_precision() -> None:
    ones = torch.ones(1, 1000, dtype=torch.bfloat16)
    mask = torch.ones(1, 1000, dtype=torch.bool)
    assert masked_sum(ones, mask).item() == 1000
    assert aggregate(ones, mask, "sum").dtype == torch.float32
    assert aggregate(ones.double(), mask, "mean").dtype == torch.float64
