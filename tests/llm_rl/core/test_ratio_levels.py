import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from llm_rl.core import aggregate_loss, clipped_surrogate, leveled_log_ratio, span_log_ratio

NAN = math.nan
NEW = torch.tensor([[0.1, 0.3, 0.2, NAN], [NAN, NAN, NAN, NAN]])
OLD = torch.tensor([[0.0, 0.0, 0.0, -math.inf], [0.0, 0.0, 0.0, 0.0]])
MASK = torch.tensor([[True, True, True, False], [False] * 4])
SPANS = torch.tensor([[1, 1, 0, -1], [-1] * 4])


@pytest.mark.parametrize(
    ("level", "reduction", "expected"),
    [
        ("token", "mean", [0.1, 0.3, 0.2, 0]),
        ("sequence", "mean", [0.2, 0.2, 0.2, 0]),
        ("sequence", "sum", [0.6, 0.6, 0.6, 0]),
        ("span", "mean", [0.2, 0.2, 0.2, 0]),
        ("span", "sum", [0.4, 0.4, 0.2, 0]),
    ],
)
def test_levels_by_hand(level: str, reduction: str, expected: list[float]) -> None:
    new = NEW.clone().requires_grad_()
    spans = SPANS if level == "span" else None
    leveled = leveled_log_ratio(new, OLD, MASK, level=level, span_ids=spans, reduction=reduction)  # type: ignore[arg-type]
    assert leveled[0].tolist() == pytest.approx(expected)
    assert leveled[1].tolist() == [0, 0, 0, 0]
    leveled.exp().sum().backward()
    assert new.grad is not None
    assert torch.isfinite(new.grad).all() and (new.grad[~MASK] == 0).all() and (new.grad[MASK] > 0).all()


def test_the_sequence_level_is_gspo() -> None:
    """s_i A_i (1/|y_i|) Σ_t ∇ log π: equation 10 of the paper, against the layout a token."""
    new, old = torch.tensor([[-0.9, -2.0, -0.1]], requires_grad=True), torch.tensor([[-1.0, -2.3, -0.2]])
    mask = torch.ones(1, 3, dtype=torch.bool)
    leveled = leveled_log_ratio(new, old, mask, level="sequence")
    output = clipped_surrogate(leveled, torch.zeros_like(leveled), torch.tensor([[2.0]]), 0.5, 0.5)
    aggregate_loss(output.objective, mask, "grpo").backward()
    ratio = math.exp((0.1 + 0.3 + 0.1) / 3)
    assert output.ratio.detach()[0].tolist() == pytest.approx([ratio] * 3)
    assert new.grad is not None
    assert new.grad[0].tolist() == pytest.approx([2 * ratio / 3] * 3)


@given(st.integers(0, 2**31), st.sampled_from(["mean", "sum"]))
def test_spans_against_a_loop(seed: int, reduction: str) -> None:
    generator = torch.Generator().manual_seed(seed)
    new, old = torch.randn(2, 3, 6, generator=generator, dtype=torch.float64)
    mask = torch.rand(3, 6, generator=generator) < 0.7
    spans = torch.randint(3, (3, 6), generator=generator)
    leveled = leveled_log_ratio(new, old, mask, level="span", span_ids=spans, reduction=reduction)  # type: ignore[arg-type]
    for i in range(3):
        for t in range(6):
            mates = [(new[i, u] - old[i, u]).item() for u in range(6) if mask[i, u] and spans[i, u] == spans[i, t]]
            value = sum(mates) / (len(mates) if reduction == "mean" else 1) if mask[i, t] else 0.0
            assert leveled[i, t].item() == pytest.approx(value, abs=1e-12)


def test_one_span_a_row_is_the_sequence() -> None:
    new, old = torch.randn(2, 4, 5).unbind(0)
    mask = torch.rand(4, 5) < 0.7
    whole = leveled_log_ratio(new, old, mask, level="sequence")
    spans = leveled_log_ratio(new, old, mask, level="span", span_ids=torch.zeros(4, 5, dtype=torch.int64))
    assert torch.allclose(whole, spans)


def test_finite_for_any_finite_input() -> None:
    new, old = torch.tensor([[3e38, -3e38, 3e38]]), torch.tensor([[-3e38, 3e38, -3e38]])
    mask = torch.ones(1, 3, dtype=torch.bool)
    for reduction in ("sum", "mean"):
        assert torch.isfinite(span_log_ratio(new, old, mask, reduction)).all()  # type: ignore[arg-type]
    leveled = leveled_log_ratio(new, old, mask, level="sequence")
    assert torch.isfinite(clipped_surrogate(leveled, torch.zeros(1, 3), torch.ones(1, 1), 0.2, 0.2).ratio).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"level": "word"}, "level is 'word'"),
        ({"reduction": "max"}, "reduction is 'max'"),
        ({"level": "span"}, "needs span_ids"),
        ({"span_ids": SPANS}, "takes no span_ids"),
        ({"level": "span", "span_ids": SPANS - 1}, "0 or greater"),
        ({"level": "span", "span_ids": SPANS.int()}, "int64"),
        ({"level": "span", "span_ids": SPANS[:1]}, "span_ids has shape"),
        ({"old_logprobs": OLD[:1]}, "old_logprobs has shape"),
        ({"mask": MASK.float()}, "torch.bool"),
    ],
)
def test_bad_arguments(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        leveled_log_ratio(**{"logprobs": NEW, "old_logprobs": OLD, "mask": MASK, **changes})
