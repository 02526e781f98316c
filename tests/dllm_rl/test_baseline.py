import math

import pytest
import torch

from dllm_rl.baseline import EmaBaseline, decisions_left, totals_by_decisions_left

NAN = math.nan


def test_decisions_left_by_hand() -> None:
    assert decisions_left(torch.tensor([3, 1]), 3).tolist() == [[2, 1, 0], [0, -1, -2]]


def test_totals_by_hand() -> None:
    """K = 3 and K = 2: returns after which 1 decision is left are 5 and 7; what lies beyond the last is not counted."""
    returns = torch.tensor([[4.0, 5.0, 0.0], [7.0, 0.0, 100.0]])
    totals = totals_by_decisions_left(returns, torch.tensor([3, 2]), 4)
    assert totals.tolist() == [[0.0, 12.0, 4.0, 0.0], [2.0, 2.0, 1.0, 0.0]]


def test_averages_start_at_the_first_mean_and_keep_what_is_not_seen() -> None:
    state = EmaBaseline(decay=0.75, size=3)
    assert state.values.isnan().all()
    state.update(torch.tensor([[8.0, 6.0, 0.0], [2.0, 3.0, 0.0]], dtype=torch.float64))
    torch.testing.assert_close(state.values, torch.tensor([4.0, 2.0, NAN]).double(), equal_nan=True)
    state.update(torch.tensor([[0.0, 6.0, 9.0], [0.0, 1.0, 1.0]], dtype=torch.float64))
    torch.testing.assert_close(state.values, torch.tensor([4.0, 3.0, 9.0]).double())


def test_values_are_read_by_the_decisions_left() -> None:
    state = EmaBaseline(decay=0.5, size=3)
    state.load_state_dict({"values": torch.tensor([1.0, 2.0, NAN])})
    got = state.at(torch.tensor([3, 2]), 3)
    assert got.dtype == torch.float32
    torch.testing.assert_close(got, torch.tensor([[NAN, 2.0, 1.0], [2.0, 1.0, NAN]]), equal_nan=True)


def test_state_goes_round_and_does_not_share_memory() -> None:
    state = EmaBaseline(decay=0.5, size=2)
    state.update(torch.ones(2, 2, dtype=torch.float64))
    other = EmaBaseline(decay=0.5, size=2)
    saved = state.state_dict()
    other.load_state_dict(saved)
    saved["values"].zero_()
    assert other.values.tolist() == state.values.tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="there are 2 averages, not 3"):
        EmaBaseline(decay=0.5, size=3).load_state_dict(state.state_dict())
