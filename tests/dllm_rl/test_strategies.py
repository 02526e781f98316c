import math

import pytest
import torch
from torch import Tensor

from dllm_rl.models.llada import LladaForMaskedLM
from dllm_rl.policy import NEG_INF, StateScores, log_margins
from dllm_rl.rollout import rollout
from dllm_rl.strategies import STRATEGIES, draw_positions, get_strategy, semi_autoregressive
from dllm_rl.sudoku import PuzzleBatch
from sudoku_env.prompts.tokens import PreFilled

# One state of five positions; 0 and 4 are filled. Position 1 has the largest probability of a token (0.5), position 2
# the largest margin (0.45 to 0.2), position 3 the smallest probability and the second margin (0.3 to 0.25).
PROBABILITIES = torch.tensor([[0.5, 0.45, 0.05, 0.0, 0.0], [0.45, 0.05, 0.2, 0.2, 0.1], [0.3, 0.25, 0.25, 0.1, 0.1]])


def scores() -> StateScores:
    logits = PROBABILITIES.log() + 3.0
    row_of = torch.tensor([[-1, 0, 1, 2, -1]])
    packed = log_margins(logits, 1e-9)
    margins = torch.full((1, 5), NEG_INF)
    margins[0, 1:4] = packed
    return StateScores(logits, row_of, margins, (margins / 0.5).log_softmax(1))


def order(name: str, definite: list[int]) -> list[int]:
    """Positions by falling score, those that cannot be chosen left out."""
    flags = torch.zeros(1, 5, dtype=torch.bool)
    flags[0, definite] = True
    score = get_strategy(name).score(scores(), flags)[0]
    return [int(ell) for ell in score.argsort(descending=True) if score[ell] > NEG_INF]


@pytest.mark.parametrize("name", ["margin", "policy", "policy_greedy"])
def test_by_margin(name: str) -> None:
    margins = {1: math.log(0.5 / 0.45), 2: math.log(0.45 / 0.2), 3: math.log(0.3 / 0.25)}
    assert order(name, definite=[3]) == sorted(margins, key=margins.__getitem__, reverse=True) == [2, 3, 1]


def test_by_probability() -> None:
    assert order("probability", definite=[3]) == [1, 2, 3]
    found = get_strategy("probability").score(scores(), torch.zeros(1, 5, dtype=torch.bool))
    torch.testing.assert_close(found[0, 1:4].exp(), torch.tensor([0.5, 0.45, 0.3]))


def test_definite_cells_first_and_by_margin_among_them() -> None:
    assert order("definite_first", definite=[1]) == [1]
    assert order("definite_first", definite=[1, 3]) == [3, 1]
    assert order("definite_first", definite=[]) == [2, 3, 1]


def values(name: str) -> list[float]:
    return get_strategy(name).score(scores(), torch.zeros(1, 5, dtype=torch.bool))[0].tolist()


def test_by_difference_of_the_two_largest_probabilities() -> None:
    assert order("margin_difference", definite=[3])[0] == 2
    assert values("margin_difference") == pytest.approx([NEG_INF, 0.05, 0.25, 0.05, NEG_INF])


def test_by_entropy() -> None:
    assert order("entropy", definite=[3]) == [1, 2, 3]
    entropies = [-sum(p * math.log(p) for p in row if p) for row in PROBABILITIES.tolist()]
    assert values("entropy") == pytest.approx([NEG_INF, *(-entropy for entropy in entropies), NEG_INF])


def test_left_to_right() -> None:
    assert order("left_to_right", definite=[3]) == [1, 2, 3]


@pytest.mark.parametrize(("length", "expected"), [(1, [1]), (2, [1]), (3, [1, 2]), (4, [1, 2, 3]), (5, [1, 2, 3])])
def test_blocks_are_absolute_and_the_first_with_a_mask_counts(length: int, expected: list[int]) -> None:
    score = semi_autoregressive(length).score(scores(), torch.zeros(1, 5, dtype=torch.bool))[0]
    probability = get_strategy("probability").score(scores(), torch.zeros(1, 5, dtype=torch.bool))[0]
    assert (score > NEG_INF).nonzero()[:, 0].tolist() == expected
    assert torch.equal(score[expected], probability[expected])


def test_blocks_need_a_length() -> None:
    with pytest.raises(ValueError, match="block_length=0"):
        semi_autoregressive(0)


def test_random_is_uniform_over_the_masked_positions() -> None:
    strategy = get_strategy("random")
    assert strategy.sample_position and not strategy.sample_token
    score = strategy.score(scores(), torch.zeros(1, 5, dtype=torch.bool))
    assert score.tolist() == [[NEG_INF, 0.0, 0.0, 0.0, NEG_INF]]
    uniforms = torch.rand(3000, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    _, _, drawn = draw_positions(score.repeat(3000, 1), 1, uniforms)
    counts = torch.bincount(drawn, minlength=5).tolist()
    assert counts[0] == counts[4] == 0
    assert all(abs(count - 1000) < 120 for count in counts[1:4])


def test_which_strategies_draw() -> None:
    assert {name for name, strategy in STRATEGIES.items() if strategy.sample_position} == {"random", "policy"}
    assert {name for name, strategy in STRATEGIES.items() if strategy.sample_token} == {"policy"}
    assert all(name == strategy.name for name, strategy in STRATEGIES.items())


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match="'entropie' is unknown; choose one of random, probability, margin"):
        get_strategy("entropie")


@pytest.mark.parametrize("name", list(STRATEGIES))
def test_every_strategy_decodes(
    model: LladaForMaskedLM, batch: PuzzleBatch, puzzles: list[PreFilled], name: str
) -> None:
    generator = torch.Generator().manual_seed(0)
    record = rollout(model, batch, num_generations=3, strategy=get_strategy(name), generator=generator)
    live: Tensor = record.live
    assert not bool((record.tokens[live] == batch.layout.mask_id).any())
    state = record.state_of[live]
    chosen = record.positions[live][:, 0]
    if name in ("margin", "policy_greedy"):
        assert torch.equal(chosen, record.greedy[state])
    if name == "definite_first":
        available = record.definite[state].any(1)
        assert bool(available.any())
        assert torch.equal(record.definite[state, chosen], available)
    if name not in ("policy", "random"):
        assert torch.equal(record.positions[0], record.positions[1])
