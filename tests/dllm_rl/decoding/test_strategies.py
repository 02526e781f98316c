import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from dllm_rl.decoding import STRATEGIES, Decoding, EntropyBound, Threshold, get_strategy, semi_autoregressive
from dllm_rl.decoding.choosing import choose, draw_positions, within_entropy_bound
from dllm_rl.decoding.rollouts import rollout
from dllm_rl.policy import NEG_INF, StateScores, log_margins, two_best

# One state of five positions; 0 and 4 are filled. Position 1 has the largest probability of a token (0.5), position 2
# the largest margin (0.45 to 0.2), position 3 the smallest probability and the second margin (0.3 to 0.25).
PROBABILITIES = torch.tensor([[0.5, 0.45, 0.05, 0.0, 0.0], [0.45, 0.05, 0.2, 0.2, 0.1], [0.3, 0.25, 0.25, 0.1, 0.1]])


def scores_of(logits: Tensor, masked: Tensor) -> StateScores:
    """The policy at states `(N, R)` with logits `(M, V)` at their masked positions."""
    row_of = torch.full(masked.shape, -1).masked_scatter(masked, torch.arange(len(logits)))
    logprobs = two_best(logits)
    margins = torch.full(masked.shape, NEG_INF).masked_scatter(masked, log_margins(logprobs, 1e-9))
    return StateScores(logits, row_of, margins, (margins / 0.5).log_softmax(1), logprobs[:, 0])


def scores() -> StateScores:
    return scores_of(PROBABILITIES.log() + 3.0, torch.tensor([[False, True, True, True, False]]))


def entropy_of(probabilities: list[float]) -> float:
    return -sum(p * math.log(p) for p in probabilities if p)


def scored(strategy: Any, definite: list[int]) -> Tensor:
    """The score of each position."""
    flags = torch.zeros(1, 5, dtype=torch.bool)
    flags[0, definite] = True
    return get_strategy(strategy).score(scores(), flags)[0]


def order(name: str, definite: list[int]) -> list[int]:
    """Positions by falling score, those that cannot be chosen left out."""
    score = scored(name, definite)
    return [int(ell) for ell in score.argsort(descending=True) if score[ell] > NEG_INF]


ORDERS = [
    *((name, [3], [2, 3, 1]) for name in ("margin", "policy", "policy_greedy")),
    *((name, [3], [1, 2, 3]) for name in ("probability", "entropy", "left_to_right")),
    # Definite cells first, and by margin among them.
    ("definite_first", [1], [1]),
    ("definite_first", [1, 3], [3, 1]),
    ("definite_first", [], [2, 3, 1]),
]


@pytest.mark.parametrize(("name", "definite", "expected"), ORDERS)
def test_positions_are_ordered_by_the_score(name, definite, expected) -> None:
    assert order(name, definite) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("margin", [math.log(0.5 / 0.45), math.log(0.45 / 0.2), math.log(0.3 / 0.25)]),
        ("probability", [math.log(0.5), math.log(0.45), math.log(0.3)]),
        ("margin_difference", [0.05, 0.25, 0.05]),
        ("entropy", [-entropy_of(row) for row in PROBABILITIES.tolist()]),
    ],
)
def test_scores_by_hand(name, expected) -> None:
    assert scored(name, []).tolist() == pytest.approx([NEG_INF, *expected, NEG_INF], rel=1e-5)


@pytest.mark.parametrize(("length", "expected"), [(1, [1]), (2, [1]), (3, [1, 2]), (4, [1, 2, 3]), (5, [1, 2, 3])])
def test_blocks_are_absolute_and_the_first_with_a_mask_counts(length, expected) -> None:
    score = scored(semi_autoregressive(length), [])
    assert (score > NEG_INF).nonzero()[:, 0].tolist() == expected
    assert torch.equal(score[expected], scored("probability", [])[expected])


def test_random_is_uniform_over_the_masked_positions() -> None:
    score = scored("random", [])
    assert score.tolist() == [NEG_INF, 0.0, 0.0, 0.0, NEG_INF]
    uniforms = torch.rand(3000, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    _, _, drawn = draw_positions(score.repeat(3000, 1), 1, uniforms)
    counts = torch.bincount(drawn, minlength=5).tolist()
    assert counts[0] == counts[4] == 0
    assert all(abs(count - 1000) < 120 for count in counts[1:4])


def test_entropy_bound_by_hand() -> None:
    """Sums without the largest of 0.3, 0.1, 0.5, 0.2: 0, 0.1, 0.3 + 0.1, 0.3 + 0.1 + 0.2."""
    entropies = torch.tensor([[0.3, 0.1, 0.5, 0.2]])
    for bound, count in ((0.0, 1), (0.09, 1), (0.11, 2), (0.39, 2), (0.41, 3), (0.59, 3), (0.61, 4)):
        assert within_entropy_bound(entropies, bound).tolist() == [[rank < count for rank in range(4)]]
    sure = torch.tensor([[0.0, 0.0, 2.0, 0.0, 0.1, 0.0]])
    assert within_entropy_bound(sure, 0.0).tolist() == [[True] * 4 + [False] * 2]


@st.composite
def states(draw: st.DrawFn) -> StateScores:
    """Three states of seven positions, each with a masked one, from nearly sure to nearly uniform."""
    seed, masks = draw(st.integers(0, 10**6)), draw(st.lists(st.integers(1, 127), min_size=3, max_size=3))
    masked = torch.tensor([[bool(mask >> ell & 1) for ell in range(7)] for mask in masks])
    generator = torch.Generator().manual_seed(seed)
    sharpness = torch.rand(int(masked.sum()), 1, generator=generator) * draw(st.sampled_from([1.0, 10.0, 40.0]))
    return scores_of(torch.randn(int(masked.sum()), 5, generator=generator) * sharpness, masked)


def filled(found: StateScores, name: str, bound: float, count: int | None = None) -> list[list[int]]:
    """The positions that each state fills, in the order of choice."""
    nothing = torch.zeros_like(found.margins, dtype=torch.bool)
    everyone = torch.arange(len(nothing))
    how = Decoding(name, tokens_per_step=count, limit=EntropyBound(bound))
    rows, ranks, positions, _ = choose(how, found, nothing, everyone)
    each = [positions[rows == row].tolist() for row in everyone]
    assert ranks.tolist() == [rank for chosen in each for rank in range(len(chosen))]
    return each


BY_RANK = sorted(name for name, strategy in STRATEGIES.items() if not strategy.sample_position)


@given(states(), st.sampled_from(BY_RANK), st.floats(0.01, 3), st.sampled_from([None, 2, 4]))
def test_entropy_bound_against_a_loop(found, name, bound, count) -> None:
    score = get_strategy(name).score(found, torch.zeros_like(found.margins, dtype=torch.bool))
    for row, chosen in enumerate(filled(found, name, bound, count)):
        open_ = [ell for ell in range(7) if score[row, ell] > NEG_INF]
        ordered = sorted(open_, key=lambda ell, row=row: -float(score[row, ell]))
        expected: list[int] = []
        for ell in ordered[:count]:
            logits = found.logits[found.row_of[row, [*expected, ell]]]
            inside = [entropy_of(each) for each in logits.double().softmax(1).tolist()]
            if sum(inside) - max(inside) > bound:
                break
            expected.append(ell)
        assert chosen == expected


@given(states(), st.sampled_from(BY_RANK), st.floats(0, 3), st.floats(0, 3))
def test_a_larger_entropy_bound_never_fills_fewer(found, name, one, other) -> None:
    small, large = (filled(found, name, bound) for bound in sorted((one, other)))
    for few, many in zip(small, large, strict=True):
        assert few and few == many[: len(few)]
    blanks = [int((score > NEG_INF).sum()) for score in get_strategy(name).score(found, found.row_of < -1)]
    assert [len(all_) for all_ in filled(found, name, 1e9)] == blanks


@given(states(), st.floats(0.05, 0.999))
def test_threshold_on_the_probability_is_that_of_fast_dllm(found, confidence) -> None:
    """All positions whose most probable token has at least the confidence, or the most confident one alone."""
    how = Decoding("probability", tokens_per_step=None, limit=Threshold(math.log(confidence)))
    rows, _, positions, tokens = choose(how, found, found.row_of < -1, torch.arange(3))
    for row in range(3):
        masked = (found.row_of[row] >= 0).nonzero()[:, 0].tolist()
        best = {ell: found.logits[found.row_of[row, ell]].double().softmax(0).max(0) for ell in masked}
        sure = {ell for ell, top in best.items() if top.values >= confidence}
        expected = sure or {max(best, key=lambda ell, best=best: float(best[ell].values))}
        chosen = dict(zip(positions[rows == row].tolist(), tokens[rows == row].tolist(), strict=True))
        assert chosen == {ell: int(best[ell].indices) for ell in expected}


def test_a_decoding_takes_a_strategy_or_its_name() -> None:
    blocks = semi_autoregressive(5)
    assert get_strategy(Decoding(blocks).strategy) is blocks
    assert get_strategy(Decoding("entropy").strategy) is STRATEGIES["entropy"]


def test_which_strategies_draw() -> None:
    assert {name for name, strategy in STRATEGIES.items() if strategy.sample_position} == {"random", "policy"}
    assert {name for name, strategy in STRATEGIES.items() if strategy.sample_token} == {"policy"}
    assert all(name == strategy.name for name, strategy in STRATEGIES.items())


@pytest.mark.parametrize("name", list(STRATEGIES))
def test_every_strategy_decodes(model, batch, puzzles, name) -> None:
    generator = torch.Generator().manual_seed(0)
    record = rollout(model, batch, Decoding(name, on_error="end"), num_generations=3, generator=generator)
    live = record.live
    assert not bool((record.tokens[live] == batch.layout.mask_id).any())
    state, chosen = record.state_of[live], record.positions[live][:, 0]
    if name in ("margin", "policy_greedy"):
        assert torch.equal(chosen, record.greedy[state])
    if name == "definite_first":
        available = record.definite[state].any(1)
        assert bool(available.any()) and torch.equal(record.definite[state, chosen], available)
    if name not in ("policy", "random"):
        assert torch.equal(record.positions[0], record.positions[1])
