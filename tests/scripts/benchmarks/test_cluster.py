"""The simulated step against closed forms."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.benchmarks import cluster
from scripts.benchmarks.cluster import ClusterArguments, passes_of, simulate, states_of, table, traffic, ways

PLAIN, DEALT, ALL = ways(ClusterArguments())
EVEN = ClusterArguments(cards=[8], puzzles=64, survival=1.0, distinct=1.0, host_pass=0.0, meeting=0.0)


@given(st.floats(0.1, 1), st.integers(10, 60))
def test_the_error_rate_gives_the_mean_length(survival, decisions) -> None:
    rate = cluster.error_rate(survival, decisions)
    # Σ_k (1 − q)^k over the decisions, in closed form.
    mean = decisions if rate < 1e-12 else (1 - (1 - rate) ** decisions) / rate
    assert mean / decisions == pytest.approx(survival, abs=1e-3)


@given(st.lists(st.integers(0, 500), min_size=1, max_size=30), st.integers(1, 60))
def test_passes_hold_all_states_and_no_more_than_fit(numbers, most) -> None:
    sizes = passes_of(np.array(numbers), most)
    assert sum(sizes) == sum(numbers) and all(0 < size <= most for size in sizes)
    assert len(sizes) == sum(-(-number // most) for number in numbers)


def test_what_cards_take_in() -> None:
    args = ClusterArguments(link=400.0, network=40.0)
    assert traffic(800.0, 1, args) == 0
    assert traffic(800.0, 8, args) == pytest.approx(800 * 7 / 8 / 400)
    # Of two nodes each fetches half through its eight cards: slower than the links inside.
    assert traffic(800.0, 16, replace(args, network=10.0)) == pytest.approx(400 / 80)
    assert traffic(800.0, 16, args) == pytest.approx(800 * 15 / 16 / 400)


@pytest.mark.parametrize("cards", [1, 8, 64])
def test_where_no_trajectory_ends_early_cards_wait_for_nothing_and_arithmetic_is_all(cards) -> None:
    states = states_of(EVEN, cards, np.random.default_rng(0))
    assert states.tolist() == [[64 // cards] + [64 // cards * 8] * 29] * cards
    step = simulate(EVEN, PLAIN, states, 0.0)
    operations = 2 * EVEN.parameters * EVEN.length / (EVEN.peak_flops * EVEN.utilization) * states[0].sum()
    assert step.rollout == pytest.approx(operations) and step.update == pytest.approx(3 * operations)
    assert step.busy == pytest.approx(step.rollout + step.update)
    assert step.even == pytest.approx(step.seconds)
    assert step.traffic == pytest.approx(2 * traffic(PLAIN.reduced, cards, EVEN))


def test_a_small_pass_takes_as_long_as_reading_the_weights() -> None:
    slow = replace(EVEN, memory=1e9)
    step = simulate(slow, PLAIN, np.ones((1, 1), dtype=np.int64), 0.0)
    assert step.rollout == pytest.approx(2 * slow.parameters / 1e9)


def test_a_step_by_hand_on_two_cards() -> None:
    """One has passes of 2, 1 states, the other of 1; a state takes a second, an update three, two fit in a pass."""
    args = replace(
        EVEN, parameters=1.0, length=1, max_tokens_per_pass=2, peak_flops=2.0, utilization=1.0, memory=1e9,
        host_pass=0.5,
    )  # fmt: skip
    states = np.array([[2, 1], [1, 0]])
    plain = simulate(args, PLAIN._replace(reduced=0.0), states, 0.1)
    assert (plain.rollout, plain.update) == pytest.approx((3 + 2 * 0.5 + 0.3, 9 + 2 * 1.0))
    other = 1 + 0.5 + 0.1 + 3 + 1.0
    assert plain.busy == pytest.approx((plain.rollout + plain.update + other) / 2)
    assert plain.even == pytest.approx(4.3 + (11 + 4) / 2)

    # Dealt out, weights arrive in 4 s: longer than any pass but the update's first.
    dealt = simulate(replace(args, link=1.0), DEALT._replace(gathered=8.0, reduced=0.0), states, 0.1)
    assert (dealt.rollout, dealt.update) == pytest.approx((plain.rollout, plain.update))
    assert dealt.traffic == pytest.approx((4 - 2.7) + (4 - 1.6) + (8 - 7) + (8 - 4))


def test_errors_make_cards_wait_and_states_dealt_evenly_less() -> None:
    args = ClusterArguments(cards=[8, 64], puzzles=64)
    for way in (PLAIN, DEALT, ALL):
        steps = [simulate(args, way, states_of(args, cards, np.random.default_rng(1)), 1e-4) for cards in (8, 64)]
        for step in steps:
            assert step.busy < step.even < step.seconds
        assert steps[1].seconds < steps[0].seconds
        assert steps[1].busy / steps[1].seconds < steps[0].busy / steps[0].seconds


def test_the_table_has_a_row_for_each_number_of_cards_that_can_hold_the_model() -> None:
    rows = table(ClusterArguments(puzzles=16, cards=[1, 16], draws=1), 1e-4).splitlines()
    assert [line.split(" | ")[0].strip("| ") for line in rows[2:]] == [PLAIN.title] * 2 + [DEALT.title, ALL.title]
