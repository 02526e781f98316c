import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from llm_rl.core import clipped_surrogate, leveled_log_ratio, span_log_ratio, token_log_ratio

NAN = math.nan
NEW = torch.tensor([[0.1, 0.3, 0.2, NAN], [NAN, NAN, NAN, NAN]])
OLD = torch.tensor([[0.0, 0.0, 0.0, -math.inf], [0.0, 0.0, 0.0, 0.0]])
MASK = torch.tensor([[True, True, True, False], [False] * 4])


def test_by_hand() -> None:
    new = NEW.clone().requires_grad_()
    tokens = token_log_ratio(new, OLD, MASK)
    assert tokens[0].tolist() == pytest.approx([0.1, 0.3, 0.2, 0]) and tokens[1].tolist() == [0, 0, 0, 0]
    for reduction, expected in (("mean", 0.2), ("sum", 0.6)):
        assert span_log_ratio(new, OLD, MASK, reduction).tolist() == pytest.approx([expected, 0])  # type: ignore[arg-type]
    (tokens.exp().sum() + span_log_ratio(new, OLD, MASK).exp().sum()).backward()
    assert torch.isfinite(new.grad).all() and (new.grad[~MASK] == 0).all() and (new.grad[MASK] > 0).all()


def test_levels_by_hand() -> None:
    """A row's ratio is e^0.2 at each of its three tokens; with one advantage both have the gradient e^0.2 / 3 · 3."""
    gradients = {}
    for level in ("sequence", "sequence_token"):
        new = NEW.clone().requires_grad_()
        ratios = leveled_log_ratio(new, OLD, MASK, level)  # type: ignore[arg-type]
        assert ratios[0].tolist() == pytest.approx([0.2, 0.2, 0.2, 0]) and ratios[1].tolist() == [0, 0, 0, 0]
        (gradients[level],) = torch.autograd.grad(ratios.exp()[MASK].sum(), new, retain_graph=True)
        assert gradients[level][0].tolist() == pytest.approx([math.exp(0.2)] * 3 + [0])
        (of_first,) = torch.autograd.grad(ratios[0, 0].exp(), new)
        shares = [1 / 3] * 3 if level == "sequence" else [1, 0, 0]
        assert of_first[0].tolist() == pytest.approx([math.exp(0.2) * share for share in shares] + [0])
    assert torch.equal(leveled_log_ratio(NEW, OLD, MASK, "token"), token_log_ratio(NEW, OLD, MASK))


@given(st.integers(0, 2**31), st.sampled_from(["mean", "sum"]))
def test_spans_against_a_loop(seed: int, reduction: str) -> None:
    generator = torch.Generator().manual_seed(seed)
    new, old = torch.randn(2, 3, 6, generator=generator, dtype=torch.float64)
    mask = torch.rand(3, 6, generator=generator) < 0.7
    found = span_log_ratio(new, old, mask, reduction)  # type: ignore[arg-type]
    for i in range(3):
        counted = [(new[i, t] - old[i, t]).item() for t in range(6) if mask[i, t]]
        value = sum(counted) / (max(1, len(counted)) if reduction == "mean" else 1)
        assert found[i].item() == pytest.approx(value, abs=1e-12)


def test_finite_for_any_finite_input() -> None:
    new, old = torch.tensor([[3e38, -3e38, 3e38]]), torch.tensor([[-3e38, 3e38, -3e38]])
    mask = torch.ones(1, 3, dtype=torch.bool)
    for reduction in ("sum", "mean"):
        assert torch.isfinite(span_log_ratio(new, old, mask, reduction)).all()  # type: ignore[arg-type]
    tokens = token_log_ratio(new, old, mask)
    assert torch.isfinite(clipped_surrogate(tokens, torch.zeros(1, 3), torch.ones(1, 1), 0.2, 0.2).ratio).all()
