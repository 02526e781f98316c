import math

import numpy as np
import pytest
import torch
from transformers import PreTrainedTokenizerFast

from dllm_rl.sudoku import PuzzleBatch
from dllm_rl.decode_loop import Decode, decode
from dllm_rl.decoding import get_strategy
from dllm_rl.evaluate import evaluate
from dllm_rl.llada import LladaForMaskedLM
from dllm_rl.order import (
    TIERS,
    easiest_tier,
    judge,
    ladder_rounds,
    ladder_steps,
    mean_order,
    random_order_tiers,
    rank_correlation,
    tier_shares,
)
from sudoku_env.explanation import explain
from sudoku_env.generator import generate
from sudoku_env.logic import RULE_GROUPS, definite_cells, forced_digits
from sudoku_env.order import random_order_floor
from sudoku_env.solver import solve, solve_batch
from sudoku_env.tokens import PreFilled, detect_definite

HARD = np.stack([generate(1, size=6, clues=(8, 10), seed=seed).boards[0] for seed in range(6)])
EASY = generate(5, size=6, clues=(14, 18), rule="singles", seed=2).boards


@pytest.mark.parametrize("name", ["margin", "probability"])
def test_one_token_a_step_is_judged_like_a_roll_out(
    model: LladaForMaskedLM, puzzles: list[PreFilled], tokenizer: PreTrainedTokenizerFast, name: str
) -> None:
    expected = evaluate(model, puzzles, pad_id=tokenizer.pad_token_id, strategy=name)
    batch = PuzzleBatch.collate(puzzles, pad_id=tokenizer.pad_token_id)
    metrics = judge(decode(model, batch, get_strategy(name)))
    assert metrics.solved.tolist() == expected.solved.tolist()
    assert metrics.steps_before_error.tolist() == expected.steps_before_error.tolist()
    assert len(metrics.greedy_tiers) == expected.judged[0].sum()
    assert (metrics.greedy_tiers == 0).sum() == expected.forced.sum()
    np.testing.assert_array_equal(metrics.greedy_cells, expected.judged[0])
    np.testing.assert_array_equal(metrics.greedy_forced, expected.forced)
    if name == "margin":
        assert sorted(metrics.greedy_tiers) == sorted(metrics.chosen_tiers)
    assert 0 < metrics.solved.sum() < len(puzzles)


@pytest.mark.parametrize(("name", "count"), [("random", 1), ("margin", 2), ("forced_first", 3)])
def test_against_loops(
    model: LladaForMaskedLM, batch: PuzzleBatch, puzzles: list[PreFilled], name: str, count: int
) -> None:
    generator = torch.Generator().manual_seed(1)
    record = decode(model, batch, get_strategy(name), tokens_per_step=count, generator=generator)
    metrics = judge(record)
    chosen: list[bool] = []
    greedy: list[bool] = []
    for row in range(3):
        layout, state = puzzles[row].layout, list(puzzles[row].token_ids)
        cell_of = {int(ell): cell for cell, ell in enumerate(layout.cell_positions)}
        right = before = live = undisputed = 0
        wrong = False
        for step in range(int(record.forward_passes[row])):
            filled = (record.step_of[row] == step).nonzero()[:, 0].tolist()
            cells = [ell for ell in filled if ell in cell_of]
            forced = detect_definite(state, layout) if not wrong else []
            good = [bool(record.responses[row, ell] == layout.solution_ids[cell_of[ell]]) for ell in cells]
            if not wrong:
                chosen += [ell in forced for ell in cells]
                largest = int(record.greedy[row, step])
                greedy += [largest in forced] if largest in cell_of else []
                before += all(good)
                undisputed += len(cells) if all(good) else 0
                live += len(cells)
            wrong |= not all(good)
            right += sum(good)
            for ell in filled:
                state[layout.prompt_length + ell] = int(record.responses[row, ell])
        blanks = int((layout.puzzle == 0).sum())
        assert metrics.right_cells[row] == right and metrics.blank_cells[row] == blanks
        assert metrics.solved[row] == (right == blanks) == (not wrong)
        assert metrics.cells_before_error[row] == undisputed
        assert metrics.steps_before_error[row] == before and metrics.live_cells[row] == live
        steps = [float(at) if at >= 0 else math.nan for at in record.step_of[row].numpy()[layout.cell_positions]]
        np.testing.assert_array_equal(metrics.cell_steps[row], steps)
    assert sorted(metrics.chosen_tiers == 0) == sorted(chosen)
    assert sorted(metrics.greedy_tiers == 0) == sorted(greedy)
    summary = metrics.summary()
    assert summary["cells"] == pytest.approx(metrics.right_cells.sum() / metrics.blank_cells.sum())
    assert summary["chosen_forced"] == pytest.approx(np.mean(chosen))
    assert summary["greedy_forced"] == pytest.approx(np.mean(greedy or [math.nan]), nan_ok=True)
    assert summary["forward_passes"] == pytest.approx(float(record.forward_passes.double().mean()))


def test_forced_cells_of_an_oracle_that_knows_the_digits(batch: PuzzleBatch, puzzles: list[PreFilled]) -> None:
    """A record written by hand: rounds of singles with the right digits, then the tail."""
    responses = torch.where(batch.judged[0], batch.answers, 1)
    responses = torch.where(batch.responses == batch.layout.mask_id, responses, batch.responses)
    step_of = torch.full_like(responses, -1)
    rounds = ladder_rounds(np.stack([puzzle.layout.puzzle for puzzle in puzzles[:3]]))
    step_of[:, batch.judged[0]] = torch.from_numpy(np.nan_to_num(rounds, nan=-1.0)).long()
    tail = batch.tail_of(batch.responses)
    step_of[tail] = int(rounds[~np.isnan(rounds)].max()) + 1
    greedy = torch.full((3, int(step_of.max()) + 1), int(tail[0].nonzero()[0]))
    metrics = judge(Decode(batch, responses, step_of, greedy))
    assert metrics.solved.all() and (metrics.chosen_tiers == 0).all() and len(metrics.greedy_tiers) == 0
    assert metrics.steps_before_error.tolist() == metrics.forward_passes.tolist()
    assert metrics.summary()["chosen_forced"] == 1.0 and math.isnan(metrics.summary()["greedy_forced"])


def test_easiest_tier_is_the_first_group_that_makes_the_cell_definite() -> None:
    rows, cells = np.nonzero(HARD == 0)
    found = easiest_tier(HARD[rows], cells)
    for tier, row, cell in zip(found, rows, cells, strict=True):
        definite = [bool(definite_cells(HARD[row], rule)[cell]) for rule in RULE_GROUPS]
        assert tier == (definite.index(True) if any(definite) else len(RULE_GROUPS))
    assert len(np.unique(found)) >= 3
    assert TIERS[0] == "singles" and TIERS[-1] == "beyond" and len(TIERS) == len(RULE_GROUPS) + 1


def test_tier_shares_by_hand() -> None:
    shares = tier_shares(np.array([0, 0, 1, len(TIERS) - 1]))
    assert shares["singles"] == 0.5 and shares["locked"] == shares["beyond"] == 0.25
    assert sum(shares.values()) == 1.0
    assert all(math.isnan(share) for share in tier_shares(np.zeros(0, np.int64)).values())


def test_floor_of_singles_is_the_one_of_sudoku_env() -> None:
    for boards in (EASY, HARD):
        solutions = solve_batch(boards)[0]
        assert tier_shares(random_order_tiers(boards, solutions, seed=4))["singles"] == pytest.approx(
            random_order_floor(boards, solutions, seed=4)
        )


def test_floor_of_all_cells_at_once_is_that_of_the_puzzle() -> None:
    at_once = np.where(HARD == 0, 3.0, np.nan)
    tiers = random_order_tiers(HARD, solve_batch(HARD)[0], cell_steps=at_once)
    rows, cells = np.nonzero(HARD == 0)
    np.testing.assert_array_equal(tiers, easiest_tier(HARD[rows], cells))


def test_floor_of_the_first_cells_against_enumeration() -> None:
    """The first cell of a board is any blank; over many seeds each is as likely."""
    solutions = solve_batch(HARD)[0]
    one, none = np.ones(len(HARD), np.int64), np.zeros(len(HARD), np.int64)
    drawn = [random_order_tiers(HARD, solutions, live_cells=one, seed=seed) for seed in range(400)]
    expected = [(forced_digits(board)[board == 0] > 0).mean() for board in HARD]
    np.testing.assert_allclose((np.array(drawn) == 0).mean(0), expected, atol=0.1)
    assert len(np.unique(expected)) > 1 and len(random_order_tiers(HARD, solutions, live_cells=none)) == 0
    full = random_order_tiers(HARD, solutions, live_cells=(HARD == 0).sum(1), seed=1)
    np.testing.assert_array_equal(full, random_order_tiers(HARD, solutions, seed=1))


def test_floor_with_the_steps_of_a_decode_against_loops() -> None:
    """One cell, then three, one, three …: the same random order as one at a time, judged at the start of its step."""
    solutions = solve_batch(HARD)[0]
    steps = np.full(HARD.shape, np.nan)
    for row, board in enumerate(HARD):
        blanks = np.random.default_rng(row).permutation(np.flatnonzero(board == 0))
        steps[row, blanks] = [10 + index // 4 * 2 + (index % 4 > 0) for index in range(len(blanks))]
    found = random_order_tiers(HARD, solutions, cell_steps=steps, seed=5)
    priority = np.random.default_rng(5).random(HARD.shape)
    expected = []
    for row, board in enumerate(HARD):
        order = sorted(np.flatnonzero(board == 0), key=lambda cell: -priority[row, cell])
        tier = {}
        for index, cell in enumerate(order):
            first = index // 4 * 4 + (index % 4 > 0)
            state = np.where(np.isin(np.arange(36), order[:first]), solutions[row], board)
            tier[cell] = int(easiest_tier(state[None].astype(np.uint8), np.array([cell]))[0])
        expected += [tier[cell] for cell in np.flatnonzero(board == 0)]
    assert found.tolist() == expected


def test_steps_of_the_ladder_are_those_of_explain() -> None:
    steps = ladder_steps(HARD)
    for board, row in zip(HARD, steps, strict=True):
        np.testing.assert_array_equal(np.isnan(row), board > 0)
        told = [(step.cell, index) for index, step in enumerate(explain(board, "backbone")) if step.cell is not None]
        assert [(int(cell), int(row[cell])) for cell in np.argsort(row)[: len(told)]] == told
    assert np.nanmax(steps) > (HARD == 0).sum(1).max()


def test_rounds_of_the_ladder_against_loops() -> None:
    boards = np.concatenate([EASY, HARD])
    rounds = ladder_rounds(boards)
    for board, row in zip(boards, rounds, strict=True):
        current, number = board.copy(), 0
        while (current == 0).any():
            for rule in (*RULE_GROUPS, "backbone"):
                definite = definite_cells(current, rule)
                if definite.any():
                    break
            assert (row[definite > 0] == number).all()
            current, number = current + definite, number + 1
        np.testing.assert_array_equal(current, solve(board))
        np.testing.assert_array_equal(np.isnan(row), board > 0)


def test_several_solutions_leave_cells_out() -> None:
    board = solve_batch(EASY[:1])[0]
    board[0, :12] = 0
    rounds, steps = ladder_rounds(board), ladder_steps(board)
    assert np.isnan(rounds).sum() > 24
    np.testing.assert_array_equal(np.isnan(rounds), np.isnan(steps))


def slow_spearman(first: list[float], second: list[float]) -> float:
    pairs = [(a, b) for a, b in zip(first, second, strict=True) if not (math.isnan(a) or math.isnan(b))]
    columns = list(zip(*pairs, strict=True))
    ranks = [[sum(b < a for b in column) + (column.count(a) + 1) / 2 for a in column] for column in columns]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def test_rank_correlation() -> None:
    generator = np.random.default_rng(0)
    first, second = generator.integers(0, 6, (2, 20, 12)).astype(float)
    first[generator.random(first.shape) < 0.2] = np.nan
    second[generator.random(second.shape) < 0.2] = np.nan
    expected = [slow_spearman(list(a), list(b)) for a, b in zip(first, second, strict=True)]
    np.testing.assert_allclose(rank_correlation(first, second), expected, atol=1e-12)
    steps = np.array([[0.0, 1.0, 2.0, np.nan]])
    assert rank_correlation(steps, steps**3).tolist() == pytest.approx([1.0])
    assert rank_correlation(steps, -steps).tolist() == pytest.approx([-1.0])
    assert np.isnan(rank_correlation(steps, np.zeros((1, 4)))).all()


def test_mean_order_by_hand() -> None:
    """Places among the blanks: 0, 1/2, 1 in the first puzzle; a tie shares 1/4 in the second."""
    steps = np.full((2, 4), np.nan)
    steps[0, [0, 1, 2]] = 5, 7, 30
    steps[1, [0, 1, 2]] = 3, 1, 1
    np.testing.assert_allclose(mean_order(steps), [[0.5, 0.375], [0.625, np.nan]])
    lone = np.array([[np.nan, 4.0, np.nan, np.nan]])
    np.testing.assert_array_equal(mean_order(lone), [[np.nan, 0.0], [np.nan, np.nan]])
