import math
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from dllm_rl.decoding import STRATEGIES, Decode, Decoding, EntropyBound, Threshold, decode, semi_autoregressive
from dllm_rl.decoding.choosing import best_positions, draw_positions
from dllm_rl.models.adapter import as_policy_model
from dllm_rl.policy import NEG_INF, PolicyConfig
from dllm_rl.sudoku import PuzzleBatch
from sudoku_env.prompts.tokens import detect_definite
from tests.dllm_rl.helpers.policy_reference import Policy, policy_at
from tests.dllm_rl.helpers.weights import beside
from tests.helpers.drawn import first_with


def best_is_large(name: str, policy: Policy, ell: int) -> float:
    if name == "probability":
        return float((policy.token[ell] * PolicyConfig().token_temperature).softmax(0).max())
    return -float(ell) if name == "left_to_right" else float(policy.margin[ell])


def entropy_at(policy: Policy, ell: int) -> float:
    logprobs = (policy.token[ell] * PolicyConfig().token_temperature).double().log_softmax(0)
    return -sum(math.exp(value) * value for value in logprobs.tolist() if value > NEG_INF)


@pytest.mark.parametrize(
    ("name", "count", "limit"),
    [
        *product(("margin", "probability", "left_to_right", "definite_first"), (1, 2, 3), (None,)),
        ("margin", None, Threshold(1.5)),
        ("margin", 2, Threshold(0.5)),
        ("probability", None, Threshold(math.log(0.7))),
        ("probability", None, Threshold(0.0)),
        ("definite_first", None, Threshold(1.5)),
        ("definite_first", None, None),
        ("margin", None, EntropyBound(0.5)),
        ("probability", 3, EntropyBound(1.0)),
        ("definite_first", None, EntropyBound(0.5)),
    ],
)
def test_against_loops(model, puzzles, tokenizer, name, count, limit) -> None:
    """Each puzzle alone, from the definitions, on to the end after errors; with a limit, steps differ in their size."""

    def compared(seed: int) -> set[int]:
        return compare(beside(model, seed), puzzles, tokenizer, name, count, limit)

    if limit in (None, Threshold(0.0)):
        sizes = compared(0)
        assert limit is None or sizes == {1}
    else:
        first_with(lambda sizes: len(sizes) > 1, compared, seed=0)


def compare(model, puzzles, tokenizer, name, count, limit) -> set[int]:
    """Hold decodes to the definitions; the numbers of positions that were filled in a step."""
    batch = PuzzleBatch.collate(puzzles, pad_id=tokenizer.pad_token_id)
    record = decode(model, batch, Decoding(name, tokens_per_step=count, limit=limit))
    sizes = set()
    for row, puzzle in enumerate(puzzles):
        layout, state = puzzle.layout, list(puzzle.token_ids)
        step_of, greedy = [-1] * layout.response_length, []
        while layout.mask_id in state:
            with torch.no_grad():
                policy = policy_at(model, state, puzzle, PolicyConfig())
            allowed = list(policy.position)
            if name == "definite_first":
                digits = [token if token in layout.digit_ids else layout.mask_id for token in state]
                allowed = [ell for ell in detect_definite(digits, layout) if ell in policy.position] or allowed
            rank = {ell: best_is_large(name, policy, ell) for ell in allowed}
            chosen = sorted(allowed, key=rank.__getitem__, reverse=True)[:count]
            if isinstance(limit, Threshold):
                scale = math.log if name == "probability" else float
                chosen = chosen[:1] + [ell for ell in chosen[1:] if scale(rank[ell]) >= limit.score]
            if isinstance(limit, EntropyBound):
                entropies = [entropy_at(policy, ell) for ell in chosen]
                sums = [sum(entropies[: size + 1]) - max(entropies[: size + 1]) for size in range(len(chosen))]
                chosen = [ell for ell, excess in zip(chosen, sums, strict=True) if excess <= limit.nats]
            sizes.add(len(chosen))
            for ell in chosen:
                state[layout.prompt_length + ell] = int(policy.token[ell].argmax())
                step_of[ell] = len(greedy)
            greedy.append(max(policy.margin, key=lambda ell: float(policy.margin[ell])))
        assert record.responses[row].tolist() == state[layout.prompt_length :]
        assert record.step_of[row].tolist() == step_of
        assert [ell for ell in record.greedy[row].tolist() if ell >= 0] == greedy
        assert int(record.forward_passes[row]) == len(greedy)
    return sizes


@pytest.mark.parametrize("count", [1, 3, 50])
@pytest.mark.parametrize("name", list(STRATEGIES))
def test_every_strategy_fills_everything_once(model, batch, name, count) -> None:
    generator = torch.Generator().manual_seed(0)
    record = decode(model, batch, Decoding(name, tokens_per_step=count), generator=generator)
    masked = batch.responses == batch.layout.mask_id
    assert torch.equal(record.step_of >= 0, masked)
    assert torch.equal(record.responses[~masked], batch.responses[~masked])
    assert not bool((record.responses == batch.layout.mask_id).any())
    for row, blanks in enumerate(masked.sum(1).tolist()):
        sizes = record.step_of[row][masked[row]].bincount()
        assert int(sizes.max()) <= count and int(sizes.min()) >= 1
        if name not in ("definite_first", "semi_autoregressive"):
            assert len(sizes) == -(-blanks // count)


def test_chunks_of_the_batch_change_nothing(model, batch) -> None:
    whole = decode(model, batch, Decoding("entropy", tokens_per_step=2))
    parts = decode(model.train(), batch, Decoding("entropy", tokens_per_step=2), max_tokens=2 * batch.length + 1)
    assert torch.equal(whole.responses, parts.responses) and torch.equal(whole.step_of, parts.step_of)
    assert model.training


def test_blocks_are_filled_one_after_the_other(model, batch) -> None:
    for row in decode(model, batch, Decoding(semi_autoregressive(5), tokens_per_step=3)).step_of:
        blocks = [part[part >= 0] for part in row.split(5) if bool((part >= 0).any())]
        assert all(int(a.max()) < int(b.min()) for a, b in pairwise(blocks))
        assert all(len(part.unique()) == -(-len(part) // 3) for part in blocks)


def test_boards_of_a_decode(model, batch) -> None:
    record = decode(model, batch, Decoding("random", tokens_per_step=2), generator=torch.Generator().manual_seed(3))
    for row in range(3):
        boards = batch.read_states(record.states_of(row))
        assert boards.shape == (int(record.forward_passes[row]) + 1, 16)
        np.testing.assert_array_equal(boards[0], batch.boards(batch.responses)[row])
        final = record.responses[row].numpy()[batch.layout.cell_positions]
        digits = {int(token): digit for digit, token in enumerate(batch.layout.digit_ids, start=1)}
        assert boards[-1].tolist() == [digits.get(int(token), -1) for token in final]
        steps = record.step_of[row].numpy()[batch.layout.cell_positions]
        for number, board in enumerate(boards):
            assert board.tolist() == [last if at < number else 0 for last, at in zip(boards[-1], steps, strict=True)]


def test_ties_go_to_the_left() -> None:
    score = torch.tensor([[1.0, 3.0, 2.0, 3.0, NEG_INF, 3.0], [NEG_INF, 0.0, NEG_INF, NEG_INF, NEG_INF, NEG_INF]])
    rows, _, columns = best_positions(score, 2)
    assert (rows.tolist(), columns.tolist()) == ([0, 0, 1], [1, 3, 1])


def test_threshold_keeps_the_best_and_what_reaches_it() -> None:
    score = torch.tensor([[1.0, 3.0, 2.0, NEG_INF], [NEG_INF, 0.5, 0.0, NEG_INF], [2.0, 2.5, 4.0, 3.0]])
    rows, _, columns = best_positions(score, None, Threshold(2.0))
    assert (rows.tolist(), columns.tolist()) == ([0, 0, 1, 2, 2, 2, 2], [1, 2, 1, 2, 3, 1, 0])
    rows, _, columns = best_positions(score, 2, Threshold(2.0))
    assert (rows.tolist(), columns.tolist()) == ([0, 0, 1, 2, 2], [1, 2, 1, 2, 3])
    rows, _, columns = best_positions(score, None)
    assert rows.tolist() == [0, 0, 0, 1, 1, 2, 2, 2, 2]


def test_draws_are_without_replacement_and_in_proportion() -> None:
    """Ordered pairs from weights 0.5, 0.3, 0.2: the second in proportion to what is left."""
    weights = torch.tensor([0.5, 0.0, 0.3, 0.2])
    uniforms = torch.rand(20000, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    rows, ranks, columns = draw_positions(weights.log().repeat(20000, 1), 2, uniforms)
    assert torch.equal(rows, torch.arange(20000).repeat_interleave(2)) and ranks.tolist() == [0, 1] * 20000
    pairs = columns.reshape(-1, 2)
    for first in (0, 2, 3):
        for second in {0, 2, 3} - {first}:
            expected = weights[first] * weights[second] / (1 - weights[first])
            share = ((pairs[:, 0] == first) & (pairs[:, 1] == second)).double().mean()
            assert abs(float(share - expected)) < 0.012
    assert 1 not in pairs


def test_rows_with_fewer_columns_draw_those() -> None:
    score = torch.tensor([[0.0, NEG_INF, NEG_INF], [0.0, 1.0, NEG_INF]])
    for count in (3, None):
        rows, ranks, columns = draw_positions(score, count, torch.zeros(2, 3, dtype=torch.float64))
        assert (rows.tolist(), ranks.tolist(), columns.tolist()) == ([0, 1, 1], [0, 0, 1], [0, 0, 1])
    assert all(not len(found) for found in draw_positions(score[:, 2:], 2, torch.zeros(2, 2, dtype=torch.float64)))


def test_an_error_ends_a_decode_after_its_step(model, batch) -> None:
    """Up to there it is the decode that goes on, draws included; what was not filled stays masked."""

    how = Decoding("policy", tokens_per_step=2, policy=PolicyConfig(1.0, 5.0))

    def play(seed: int) -> list[Decode]:
        hows = (how, replace(how, on_error="end"))
        return [decode(model, batch, each, generator=torch.Generator().manual_seed(seed)) for each in hows]

    def errs_early(pair: list[Decode]) -> bool:
        return bool((pair[0].error_step + 1 < pair[0].forward_passes).any())

    whole, ended = first_with(errs_early, play, seed=0)
    assert torch.equal(whole.error_step, ended.error_step)
    last = torch.minimum(whole.error_step + 1, whole.forward_passes)
    assert torch.equal(ended.forward_passes, last)
    filled = (whole.step_of < last[:, None]) & (whole.step_of >= 0)
    assert torch.equal(ended.step_of, whole.step_of.masked_fill(~filled, -1))
    opened = (batch.responses == batch.mask_id) & ~filled
    assert torch.equal(ended.responses, whole.responses.masked_fill(opened, batch.mask_id))


class Eos(nn.Module):
    """Writes the end token (1) wherever it is asked."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return functional.one_hot(torch.ones_like(input_ids), 105).float()


@pytest.mark.parametrize("count", [1, 2])
def test_cells_without_a_digit_are_not_filled_again(batch, count) -> None:
    """Such cells read as blanks, so logic may decide them; the oracle must look at the masked ones only."""
    record = decode(as_policy_model(Eos()), batch, Decoding("definite_first", tokens_per_step=count))
    masked = batch.responses == batch.layout.mask_id
    assert bool((record.responses[masked] == 1).all())
    boards = batch.read_states(record.states_of(0))
    assert (boards[-1] == -1).sum() == (boards[0] == 0).sum()
