"""Decodes that never fill two peers in one pass, against a slow loop."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dllm_rl import Decoding, EntropyBound, Threshold, decode, rollout
from dllm_rl.decoding.choosing import best_positions, draw_positions
from dllm_rl.policy import PolicyConfig
from dllm_rl.task import UnmaskBatch
from tests.dllm_rl.helpers.tiny_training import puzzles, sudoku_task, warm_model

COLUMNS = 7


def slowly(score: list[float], count: int | None, peers: Tensor, least: float = -math.inf) -> list[int]:
    """The best column, then the best of those that are no peers of it and score enough, and so on."""
    taken: list[int] = []
    for column in sorted(range(len(score)), key=lambda column: (-score[column], column)):
        free = not any(bool(peers[column, other]) for other in taken)
        if score[column] > -math.inf and free and (count is None or len(taken) < count):
            taken.append(column)
    return [column for at, column in enumerate(taken) if at == 0 or score[column] >= least]


def columns_of(found: tuple[Tensor, Tensor, Tensor], count: int) -> list[list[int]]:
    rows, ranks, columns = found
    each = [columns[rows == row].tolist() for row in range(count)]
    assert [ranks[rows == row].tolist() for row in range(count)] == [list(range(len(part))) for part in each]
    return each


def drawn_peers(bits: int) -> Tensor:
    upper = torch.triu(
        torch.tensor([[bits >> (COLUMNS * i + j) & 1 for j in range(COLUMNS)] for i in range(COLUMNS)]), 1
    )
    return (upper + upper.T).bool()


scores = st.lists(st.sampled_from([-math.inf, -2.0, -1.0, 0.0, 0.5, 2.0]), min_size=COLUMNS, max_size=COLUMNS)


@given(scores, scores, st.integers(0, 2 ** (COLUMNS**2) - 1), st.sampled_from([None, 1, 2, 4]))
@settings(deadline=None)
def test_the_best_positions_without_peers_are_those_of_a_slow_loop(
    first: list[float], second: list[float], bits: int, count: int | None
) -> None:
    peers, score = drawn_peers(bits), torch.tensor([first, second])
    found = columns_of(best_positions(score, count, peers=peers), 2)
    assert found == [slowly(row, count, peers) for row in (first, second)]
    limited = columns_of(best_positions(score, count, Threshold(0.0), peers=peers), 2)
    assert limited == [slowly(row, count, peers, least=0.0) for row in (first, second)]


@given(scores, st.integers(0, 2 ** (COLUMNS**2) - 1), st.lists(st.floats(0, 3), min_size=COLUMNS, max_size=COLUMNS))
@settings(deadline=None)
def test_an_entropy_bound_counts_what_is_left(first: list[float], bits: int, entropies: list[float]) -> None:
    peers = drawn_peers(bits)
    (found,) = columns_of(
        best_positions(torch.tensor([first]), None, EntropyBound(1.0), torch.tensor([entropies]), peers), 1
    )
    whole = slowly(first, None, peers)
    assert found == whole[: len(found)]
    ends = [torch.tensor([entropies[column] for column in whole[:end]]).double() for end in range(1, len(whole) + 1)]
    allowed = [bool(part.sum() - part.max() <= 1.0) for part in ends]
    assert len(found) == (allowed.index(False) if False in allowed else len(whole))


@given(scores, st.integers(0, 2 ** (COLUMNS**2) - 1), st.integers(0, 10**6))
@settings(deadline=None)
def test_draws_take_no_peers_and_leave_nothing_that_could_be_taken(first: list[float], bits: int, seed: int) -> None:
    peers = drawn_peers(bits)
    uniforms = torch.rand((1, COLUMNS), dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    (found,) = columns_of(draw_positions(torch.tensor([first]), None, uniforms, peers), 1)
    assert not any(bool(peers[one, other]) for one in found for other in found if one != other)
    possible = [column for column in range(COLUMNS) if first[column] > -math.inf and column not in found]
    assert all(any(bool(peers[column, taken]) for taken in found) for column in possible)


def test_draws_are_in_proportion_among_those_that_may() -> None:
    """Of three columns the first and the second are peers: behind the first only the third is left."""
    peers = torch.zeros(3, 3, dtype=torch.bool)
    peers[0, 1] = peers[1, 0] = True
    score = torch.tensor([[0.2, 0.5, 0.3]]).log()
    assert columns_of(draw_positions(score, 2, torch.tensor([[0.1, 0.9]]).double(), peers), 1) == [[0, 2]]
    assert columns_of(draw_positions(score, 2, torch.tensor([[0.3, 0.1]]).double(), peers), 1) == [[1, 2]]
    assert columns_of(draw_positions(score, 2, torch.tensor([[0.9, 0.1]]).double(), peers), 1) == [[2, 0]]
    assert columns_of(draw_positions(score, 2, torch.tensor([[0.9, 0.5]]).double(), peers), 1) == [[2, 1]]


@pytest.mark.parametrize("strategy", ["margin", "policy"])
def test_no_pass_of_a_decode_fills_two_peers(strategy: str) -> None:
    problems = sudoku_task().batch(puzzles(8))
    how = Decoding(strategy, tokens_per_step=5, exclude_peers=True, policy=PolicyConfig(1.0, 1.0))
    found = decode(warm_model(), problems, how, generator=torch.Generator().manual_seed(0))
    peers, places = problems.peers(), torch.tensor(problems.layout.cell_positions)
    together = found.step_of[:, places, None] == found.step_of[:, None, places]  # (N, n², n²)
    open_ = problems.responses[:, places] == problems.mask_id
    both = open_[:, :, None] & open_[:, None, :] & together
    assert not bool((both & peers[places[:, None], places]).any()) and bool((both.sum((1, 2)) > open_.sum(1)).any())
    assert not bool((found.responses == problems.mask_id).any())


def test_a_task_that_knows_no_peers_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    problems = sudoku_task().batch(puzzles(1))
    monkeypatch.setattr(type(problems), "peers", UnmaskBatch.peers)
    with pytest.raises(ValueError, match="peers"):
        decode(warm_model(), problems, Decoding("margin", tokens_per_step=2, exclude_peers=True))


def test_a_roll_out_refuses_it() -> None:
    how = Decoding("policy", tokens_per_step=2, exclude_peers=True)
    with pytest.raises(ValueError, match="is for decodes"):
        rollout(warm_model(), sudoku_task().batch(puzzles(1)), how)
