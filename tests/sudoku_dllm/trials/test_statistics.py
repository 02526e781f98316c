from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudoku_dllm.trials.statistics import Sweep, estimate, fewest_passes, passes_needed, ratio_contributions
from tests.helpers.refusals import refused


def test_estimate_against_hand_worked_numbers() -> None:
    """Two seeds, four puzzles. Means over seeds 1, 1/2, 0, 1/2: s² = (1/4 + 1/4) / 3, standard error √(s² / 4)."""
    first = np.array([[1.0, 1.0, 0.0, 1.0], [1.0, 0.0, 0.0, 0.0]])
    found = estimate(first)
    assert found.mean == 0.5 and found.per_seed == (0.75, 0.25)
    half = 1.959964 * np.sqrt(0.5 / 3 / 4)
    assert found.puzzles == pytest.approx((0.5 - half, 0.5 + half), rel=1e-6)
    assert found.seeds == pytest.approx((0.5 - 12.7062 * 0.25, 0.5 + 12.7062 * 0.25), rel=1e-5)
    assert not found.excludes_zero
    assert found.bar(0.6) == pytest.approx((half, 0.1)) and sum(estimate(0 * first).bar()) == 0
    assert estimate(np.array([[1, 1, 1, 0]])).bar()[1] == 0.25 and estimate(np.array([[1, 0, 0, 0]])).bar()[0] == 0.25


def test_three_seeds_have_the_t_quantile_of_two_degrees() -> None:
    """Per-seed means 0.2, 0.3, 0.4: s = 0.1, standard error 0.1 / √3, t = 4.302653."""
    values = np.repeat([[0.2], [0.3], [0.4]], 5, axis=1)
    found, half = estimate(values), 4.302653 * 0.1 / np.sqrt(3)
    assert found.seeds == pytest.approx((0.3 - half, 0.3 + half), rel=1e-6)
    assert found.puzzles == pytest.approx((0.3, 0.3)) and found.excludes_zero
    assert not estimate(values - 0.3).excludes_zero and not estimate(values[:1]).excludes_zero
    assert estimate(values[:1]).seeds is None


def test_pairing_removes_what_puzzles_have_in_common() -> None:
    easy = np.random.default_rng(0).random(400) < 0.5
    second = np.stack([easy, easy]).astype(float)
    first = second.copy()
    first[:, np.flatnonzero(~easy)[:40]] = 1.0
    found = estimate(first - second)
    assert found.mean == pytest.approx(0.1)
    half = 1.959964 * np.sqrt(0.1 * 0.9 / 399)
    assert found.puzzles == pytest.approx((0.1 - half, 0.1 + half), rel=1e-6)
    alone = estimate(first).puzzles
    assert found.puzzles[1] - found.puzzles[0] < 0.7 * (alone[1] - alone[0])


def test_interval_over_puzzles_covers_at_its_level() -> None:
    rng = np.random.default_rng(1)
    drawn = [estimate(rng.random((1, 200)) < 0.3).puzzles for _ in range(400)]
    assert 0.91 < np.mean([low <= 0.3 <= high for low, high in drawn]) < 0.98


@pytest.mark.parametrize("shape", [(4,), (0, 4), (2, 1)])
def test_tables_that_have_no_interval_are_refused(shape) -> None:
    refused(r"must be \(seeds, puzzles\)", lambda: estimate(np.zeros(shape)))


def test_curve_against_hand_worked_numbers() -> None:
    """Points (2, 0.2), (4, 0.6), (8, 1.0), written in another order."""
    passes = np.array([[7.0, 9.0], [1.0, 3.0], [4.0, 4.0]])
    solved = np.array([[1.0, 1.0], [0.0, 0.4], [0.2, 1.0]])
    curve = Sweep(passes, solved).points()
    assert [list(side) for side in curve] == [[2.0, 4.0, 8.0], pytest.approx([0.2, 0.6, 1.0])]


def sweeps(count: int, gap: float, seed: int) -> tuple[Sweep, Sweep]:
    """Two models of four settings on the same puzzles; the first solves `gap` more everywhere, in one pass less."""
    rng = np.random.default_rng(seed)
    difficulty = rng.random(count)
    passes = np.array([2.0, 4.0, 6.0, 8.0])[:, None] + rng.integers(-1, 2, (4, count))
    rate = np.array([0.2, 0.4, 0.6, 0.8])[:, None]
    second = Sweep(passes, (difficulty < rate).astype(float))
    return Sweep(passes - 1, (difficulty < rate + gap).astype(float)), second


def test_a_sweep_of_one_setting_is_refused() -> None:
    refused("at least 2 settings", lambda: Sweep(np.zeros((1, 5)), np.zeros((1, 5))))


def test_ratio_contributions_have_the_spread_of_the_bootstrapped_ratio() -> None:
    random = np.random.default_rng(0)
    denominators = random.integers(1, 30, 400)
    numerators = random.binomial(denominators, random.beta(8, 2, 400))
    values = ratio_contributions(numerators, denominators)
    assert values.mean() == pytest.approx(numerators.sum() / denominators.sum())
    drawn = random.integers(0, 400, (4000, 400))
    ratios = numerators[drawn].sum(1) / denominators[drawn].sum(1)
    assert values.std() / 20 == pytest.approx(ratios.std(), rel=0.05)
    assert np.isnan(ratio_contributions(np.zeros(3, int), np.zeros(3, int))).all()


def test_fewest_passes_against_hand_worked_numbers() -> None:
    """The front of four settings is (2, 0.2), (4, 0.6), (9, 1.0): (6, 0.5) solves less in more passes than (4, 0.6)."""
    curve = np.array([2.0, 4.0, 6.0, 9.0]), np.array([0.2, 0.6, 0.5, 1.0])
    expected = {0.1: 2.0, 0.2: 2.0, 0.3: 2.5, 0.6: 4.0, 0.7: 5.25, 0.9: 7.75, 1.0: 9.0}
    assert {rate: fewest_passes(curve, rate) for rate in expected} == pytest.approx(expected)
    assert fewest_passes(curve, 1.001) == np.inf
    # A setting as good in more passes changes nothing, and a rate reached but for rounding is reached.
    assert fewest_passes((np.array([2.0, 3.0]), np.array([0.5, 0.5])), 0.5 + 1e-12) == 2.0
    falling = np.array([3.0, 8.0]), np.array([0.9, 0.4])
    assert fewest_passes(falling, 0.5) == 3.0 and fewest_passes(falling, 0.95) == np.inf


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 20)), min_size=2, max_size=8), st.integers(0, 20))
def test_fewest_passes_are_the_first_at_which_the_best_so_far_has_the_rate(points, rate) -> None:
    """Against the definition: walk the settings by passes, keep those better than all before."""
    points = sorted(points, key=lambda point: point[0])
    curve = np.array([float(at) for at, _ in points]), np.array([share / 20 for _, share in points])
    found = fewest_passes(curve, rate / 20)
    front: list[tuple[int, int]] = []
    for at, share in points:
        if not front or share > front[-1][1]:
            front.append((at, share))
    if rate > front[-1][1]:
        assert found == np.inf
    elif rate <= front[0][1]:
        assert found == front[0][0]
    else:
        (x0, y0), (x1, y1) = next((a, b) for a, b in pairwise(front) if a[1] < rate <= b[1])
        assert found == pytest.approx(x0 + (x1 - x0) * (rate - y0) / (y1 - y0))


def test_passes_needed_against_hand_worked_numbers() -> None:
    """Two seeds that solve 2 and 6, 4 and 8 of ten puzzles in 2 and 4, 2 and 8 passes; the references solve 5 and 7.

    The means are (2, 0.3), (6, 0.7) and 0.6: 2 + 4 · 3/4 = 5 passes. With the first seed alone 2 + 2 · 3/4 = 3.5, with
    the second 2 + 6 · 3/4 = 6.5, and their standard error is 1.5.
    """

    def solved(*counts: int) -> np.ndarray:
        return (np.arange(10) < np.array(counts)[:, None]).astype(float)

    passes = [np.repeat([[low], [high]], 10, axis=1).astype(float) for low, high in ((2, 4), (2, 8))]
    sweeps = [Sweep(passes[0], solved(2, 6)), Sweep(passes[1], solved(4, 8))]
    found = passes_needed(sweeps, solved(5, 7))
    assert found.passes == pytest.approx(5.0) and found.cheapest == 2.0
    assert found.seeds == pytest.approx((5 - 12.7062 * 1.5, 5 + 12.7062 * 1.5), rel=1e-5)
    assert found.puzzles[0] < 5.0 < found.puzzles[1]
    assert passes_needed(sweeps, np.full((2, 10), 0.4)).passes == pytest.approx(3.0)
    alone = passes_needed(sweeps[:1], solved(5))
    assert alone.passes == pytest.approx(3.5) and alone.seeds is None
    never = passes_needed(sweeps, np.full((2, 10), 0.9))
    assert never.passes == np.inf and never.puzzles[1] == np.inf and never.seeds is None
    # Reached on average, but not by the first seed alone.
    assert passes_needed(sweeps, np.full((2, 10), 0.65)).seeds is None
    refused(r"2 sweeps of shapes .* and a reference of shape", lambda: passes_needed(sweeps, solved(5)))
    refused("0 sweeps", lambda: passes_needed([], solved()))


def test_passes_needed_resamples_the_reference_with_the_sweep() -> None:
    """A model needs for its own rate at a setting that setting's passes, on every resample; so they have no spread."""
    first, _ = sweeps(400, 0.0, 3)
    constant = Sweep(np.repeat([[2.0], [4.0], [6.0], [8.0]], 400, axis=1), first.solved)
    found = passes_needed([constant], constant.solved[2:3])
    assert found.passes == 6.0 and found.puzzles == pytest.approx((6.0, 6.0))
    low, high = passes_needed([constant], np.full((1, 400), float(constant.solved[2].mean()))).puzzles
    assert low < 5.9 and high > 6.1


def test_interval_of_passes_needed_against_an_independent_bootstrap() -> None:
    model, other = sweeps(80, 0.05, 4)
    reference = other.solved[2:3]
    found = passes_needed([model], reference)
    drawn = []
    for rows in np.random.default_rng(7).integers(0, 80, (2000, 80)):
        curve = Sweep(model.passes[:, rows], model.solved[:, rows]).points()
        drawn.append(fewest_passes(curve, float(reference[:, rows].mean())))
    np.testing.assert_allclose(found.puzzles, np.quantile(drawn, [0.025, 0.975]), atol=0.15)
    assert found == passes_needed([model], reference)
