from itertools import pairwise

import numpy as np
import pytest

from dllm_rl.statistics import Sweep, estimate, ratio_contributions, solve_rate_at, sweep_difference


def test_estimate_against_hand_worked_numbers() -> None:
    """Two seeds, four puzzles. Means over seeds 1, 1/2, 0, 1/2: s² = (1/4 + 1/4) / 3, standard error √(s² / 4)."""
    first = np.array([[1.0, 1.0, 0.0, 1.0], [1.0, 0.0, 0.0, 0.0]])
    found = estimate(first)
    assert found.mean == 0.5 and found.per_seed == (0.75, 0.25)
    half = 1.959964 * np.sqrt(0.5 / 3 / 4)
    assert found.puzzles == pytest.approx((0.5 - half, 0.5 + half), rel=1e-6)
    assert found.seeds == pytest.approx((0.5 - 12.7062 * 0.25, 0.5 + 12.7062 * 0.25), rel=1e-5)
    assert not found.excludes_zero


def test_three_seeds_have_the_t_quantile_of_two_degrees() -> None:
    """Per-seed means 0.2, 0.3, 0.4: s = 0.1, standard error 0.1 / √3, t = 4.302653."""
    values = np.repeat([[0.2], [0.3], [0.4]], 5, axis=1)
    found = estimate(values)
    half = 4.302653 * 0.1 / np.sqrt(3)
    assert found.seeds == pytest.approx((0.3 - half, 0.3 + half), rel=1e-6)
    assert found.puzzles == pytest.approx((0.3, 0.3)) and found.excludes_zero
    assert not estimate(values - 0.3).excludes_zero and not estimate(values[:1]).excludes_zero
    assert estimate(values[:1]).seeds is None


def test_pairing_removes_what_puzzles_have_in_common() -> None:
    rng = np.random.default_rng(0)
    easy = rng.random(400) < 0.5
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
    covered = np.mean([low <= 0.3 <= high for low, high in drawn])
    assert 0.91 < covered < 0.98


@pytest.mark.parametrize("shape", [(4,), (0, 4), (2, 1)])
def test_tables_that_have_no_interval_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"must be \(seeds, puzzles\)"):
        estimate(np.zeros(shape))


def test_curve_against_hand_worked_numbers() -> None:
    """Points (2, 0.2), (4, 0.6), (8, 1.0), written in another order."""
    passes = np.array([[7.0, 9.0], [1.0, 3.0], [4.0, 4.0]])
    solved = np.array([[1.0, 1.0], [0.0, 0.4], [0.2, 1.0]])
    curve = Sweep(passes, solved).points()
    assert [list(side) for side in curve] == [[2.0, 4.0, 8.0], pytest.approx([0.2, 0.6, 1.0])]
    assert solve_rate_at(curve, 3.0) == pytest.approx(0.4)
    assert solve_rate_at(curve, 5.0) == pytest.approx(0.7)
    assert solve_rate_at(curve, 1.0) == pytest.approx(0.2)
    # Trapezoids of the range 3 to 5: heights 0.4, 0.6, 0.7.
    assert solve_rate_at(curve, (3.0, 5.0)) == pytest.approx((0.5 + 0.65) / 2)
    assert solve_rate_at(curve, (2.0, 8.0)) == pytest.approx((2 * 0.4 + 4 * 0.8) / 6)


def sweeps(count: int, gap: float, seed: int) -> tuple[Sweep, Sweep]:
    """Two models of four settings on the same puzzles; the first solves `gap` more everywhere, in one pass less."""
    rng = np.random.default_rng(seed)
    difficulty = rng.random(count)
    passes = np.array([2.0, 4.0, 6.0, 8.0])[:, None] + rng.integers(-1, 2, (4, count))
    rate = np.array([0.2, 0.4, 0.6, 0.8])[:, None]
    second = Sweep(passes, (difficulty < rate).astype(float))
    return Sweep(passes - 1, (difficulty < rate + gap).astype(float)), second


def test_difference_at_equal_passes_counts_the_passes_too() -> None:
    """One pass less is half a setting, worth 0.1; so the difference is gap + 0.1 at any number of passes in common."""
    first, second = sweeps(2000, 0.05, 0)
    assert first.common_range(second) == (second.points()[0][0], first.points()[0][-1])
    for passes in (4.5, (3.0, 6.0)):
        mean, (lowest, highest) = sweep_difference(first, second, passes)
        assert mean == pytest.approx(0.15, abs=0.03)
        assert lowest < mean < highest and 0.005 < highest - lowest < 0.06
    same, interval = sweep_difference(second, second, (3.0, 6.0))
    assert same == 0.0 and interval == (0.0, 0.0)


def test_bootstrap_against_an_independent_one() -> None:
    first, second = sweeps(60, 0.05, 1)
    found = sweep_difference(first, second, 4.5)[1]
    rng = np.random.default_rng(9)
    drawn = []
    for _ in range(2000):
        rows = rng.integers(0, 60, 60)
        heights = []
        for sweep in (first, second):
            pairs = sorted(zip(sweep.passes[:, rows].mean(1), sweep.solved[:, rows].mean(1), strict=True))
            (x0, y0), (x1, y1) = next((a, b) for a, b in pairwise(pairs) if a[0] <= 4.5 <= b[0])
            heights.append(y0 + (y1 - y0) * (4.5 - x0) / (x1 - x0))
        drawn.append(heights[0] - heights[1])
    np.testing.assert_allclose(found, np.quantile(drawn, [0.025, 0.975]), atol=0.02)
    assert found == sweep_difference(first, second, 4.5)[1]


def test_comparisons_that_cannot_be_made_are_refused() -> None:
    first, second = sweeps(50, 0.0, 2)
    with pytest.raises(ValueError, match="outside the range"):
        sweep_difference(first, second, 30.0)
    with pytest.raises(ValueError, match="outside the range"):
        sweep_difference(first, second, (3.0, 30.0))
    far = Sweep(second.passes + 100, second.solved)
    assert first.common_range(far) is None
    with pytest.raises(ValueError, match="outside the range None"):
        sweep_difference(first, far, 4.0)
    with pytest.raises(ValueError, match="50 and 49 puzzles"):
        sweep_difference(first, Sweep(second.passes[:, 1:], second.solved[:, 1:]), 4.0)
    with pytest.raises(ValueError, match="at least 2 settings"):
        Sweep(second.passes[:1], second.solved[:1])


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
