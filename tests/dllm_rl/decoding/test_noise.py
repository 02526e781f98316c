import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dllm_rl.decoding import noise
from dllm_rl.decoding.noise import inverse_cdf, inverse_cdf_at, puzzle_noise

BELOW_ONE = float(np.nextafter(1.0, 0.0))
UNIFORMS = st.floats(0, BELOW_ONE) | st.sampled_from([0.0, 5e-324, 2.0**-53, 0.5, BELOW_ONE])
WEIGHTS = st.floats(-1000, 1000, width=32) | st.just(-torch.inf)


@given(st.lists(WEIGHTS, min_size=1, max_size=40), UNIFORMS)
def test_a_draw_is_possible_and_inverts_the_distribution(log_weights, uniform) -> None:
    row, u = torch.tensor([log_weights]), torch.tensor([uniform], dtype=torch.float64)
    if not bool(row.isfinite().any()):
        with pytest.raises(ValueError, match="nothing can be drawn"):
            inverse_cdf(row, u)
        return
    index = int(inverse_cdf(row, u))
    probability = torch.softmax(row.double(), -1)[0]
    assert probability[index] > 0 and log_weights[index] > -torch.inf
    below, upto = float(probability[:index].sum()), float(probability[: index + 1].sum())
    assert below <= uniform + 1e-12 and uniform <= upto + 1e-12


@pytest.mark.parametrize(
    ("uniform", "expected"), [(0.0, 1), (0.2499, 1), (0.2501, 3), (0.7499, 3), (0.7501, 4), (BELOW_ONE, 4)]
)
def test_by_hand(uniform, expected) -> None:
    """Probabilities 0, 1/4, 0, 1/2, 1/4, 0."""
    log_weights = torch.tensor([[0.0, 1.0, 0.0, 2.0, 1.0, 0.0]]).log()
    assert inverse_cdf(log_weights, torch.tensor([uniform], dtype=torch.float64)).tolist() == [expected]


def test_a_large_vocabulary_is_drawn_exactly() -> None:
    """126,464 equal weights: a float32 sum would stop telling neighbours apart."""
    count = 126464
    wanted = torch.tensor([0, 1, count // 3, count - 2, count - 1])
    uniforms = (wanted.double() + 0.5) / count
    assert torch.equal(inverse_cdf(torch.zeros(len(wanted), count), uniforms), wanted)


@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 10**6))
def test_many_draws_from_few_rows_are_those_of_each_row(rows, columns, seed) -> None:
    """Where a uniform is not within rounding of a sum; an index of probability 0 is drawn by neither."""
    generator = torch.Generator().manual_seed(seed)
    weights = torch.randn((rows, columns), generator=generator)
    weights[torch.rand((rows, columns), generator=generator) < 0.3] = -torch.inf
    weights[:, 0] = weights[:, 0].clamp_min(-5.0)
    at = torch.randint(rows, (50,), generator=generator)
    uniforms = torch.rand(50, dtype=torch.float64, generator=generator)
    found, expected = inverse_cdf_at(weights, at, uniforms), inverse_cdf(weights[at], uniforms)
    sums = weights.double().softmax(1).cumsum(1)[at]
    near = ((sums - uniforms[:, None]).abs() < 1e-9).any(1)
    assert torch.equal(found[~near], expected[~near])
    assert bool((weights[at, found] > -torch.inf).all())


def test_few_rows_of_a_large_vocabulary_are_drawn_from_at_once(monkeypatch) -> None:
    logits, rows, seen = torch.randn(5, 7), torch.arange(40) % 5, []
    uniforms = torch.rand(40, dtype=torch.float64)
    whole, own = noise.inverse_cdf_of(logits, rows, uniforms, 0.6), noise.inverse_cdf
    assert torch.equal(whole, own(logits[rows] / 0.6, uniforms))
    monkeypatch.setattr(noise, "MOST_AT_ONCE", 3 * 7 + 1)
    monkeypatch.setattr(noise, "inverse_cdf", lambda table, given: seen.append(len(table)) or own(table, given))
    assert torch.equal(noise.inverse_cdf_of(logits, rows, uniforms, 0.6), whole)
    assert max(seen) == 3 and sum(seen) == 40


def test_noise_of_a_puzzle_depends_on_seed_step_and_number_alone() -> None:
    noise = puzzle_noise(3, 7, [4, 0, 5], num_generations=2, decisions=6)
    assert noise.shape == (6, 6, 2) and noise.dtype == torch.float64
    assert bool((noise >= 0).all() and (noise < 1).all())
    assert torch.equal(puzzle_noise(3, 7, [5], 2, 6), noise[4:])
    assert torch.equal(puzzle_noise(3, 7, [0], 2, 4), noise[2:4, :4])
    everything = [noise, puzzle_noise(4, 7, [4, 0, 5], 2, 6), puzzle_noise(3, 8, [4, 0, 5], 2, 6)]
    assert len(torch.cat(everything).unique()) == 3 * noise.numel()


def test_noise_is_the_same_on_every_machine() -> None:
    source = np.random.Generator(np.random.Philox(np.random.SeedSequence((1, 2, 3))))  # golden
    flat = source.random(8).tolist()  # decision by decision, trajectory by trajectory, position and token
    assert puzzle_noise(1, 2, [3], 2, 2).tolist() == [[flat[0:2], flat[4:6]], [flat[2:4], flat[6:8]]]
