import math

import numpy as np
import pytest
import torch

from dllm_rl.decoding import Decode, Decoding, Evaluation, decode, evaluate
from dllm_rl.sudoku import PuzzleBatch, SudokuTask
from dllm_rl.sudoku.order import assess, known_mean, ladder_order, mean_order, rank_correlation
from sudoku_env.order import ladder_rounds, random_order_tiers, tier_shares
from sudoku_env.prompts.tokens import detect_definite


@pytest.mark.parametrize("name", ["margin", "probability"])
def test_decodes_that_go_on_after_an_error_are_judged_like_those_that_end(model, puzzles, tokenizer, name) -> None:
    expected = evaluate(model, puzzles, SudokuTask(tokenizer.pad_token_id), Decoding(name, on_error="end"))
    record = decode(model, PuzzleBatch.collate(puzzles, pad_id=tokenizer.pad_token_id), Decoding(name))
    metrics, order = Evaluation.of(record), ladder_order(record)
    for column in ("solved", "steps_before_error", "greedy_judged", "greedy_definite_count", "chosen_judged"):
        np.testing.assert_array_equal(getattr(metrics, column), getattr(expected, column))
    assert len(order.greedy_tiers) == expected.greedy_judged.sum()
    assert (order.greedy_tiers == 0).sum() == expected.greedy_definite_count.sum()
    assert (order.chosen_tiers == 0).sum() == expected.chosen_definite_count.sum()
    if name == "margin":
        assert sorted(order.greedy_tiers) == sorted(order.chosen_tiers)
    # The model decodes some of the puzzles, and errs before the last pass in others.
    assert 0 < metrics.solved.sum() < len(puzzles)
    assert metrics.right.sum() >= expected.right.sum() and metrics.forward_passes.sum() > expected.forward_passes.sum()


@pytest.mark.parametrize(("name", "count"), [("random", 1), ("margin", 2), ("definite_first", 3)])
def test_against_loops(model, batch, puzzles, name, count) -> None:
    generator = torch.Generator().manual_seed(1)
    record = decode(model, batch, Decoding(name, tokens_per_step=count), generator=generator)
    metrics, order = Evaluation.of(record), ladder_order(record)
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
            definite = detect_definite(state, layout) if not wrong else []
            good = [bool(record.responses[row, ell] == layout.solution_ids[cell_of[ell]]) for ell in cells]
            if not wrong:
                chosen += [ell in definite for ell in cells]
                largest = int(record.greedy[row, step])
                greedy += [largest in definite] if largest in cell_of else []
                before += all(good)
                undisputed += len(cells) if all(good) else 0
                live += len(cells)
            wrong |= not all(good)
            right += sum(good)
            for ell in filled:
                state[layout.prompt_length + ell] = int(record.responses[row, ell])
        blanks = int((layout.puzzle == 0).sum())
        assert metrics.right[row] == right and metrics.blanks[row] == blanks
        assert metrics.solved[row] == (right == blanks) == (not wrong)
        assert metrics.cells_before_error[row] == undisputed
        assert metrics.steps_before_error[row] == before and metrics.chosen_judged[row] == live
        steps = [float(at) if at >= 0 else math.nan for at in record.step_of[row].numpy()[layout.cell_positions]]
        np.testing.assert_array_equal(order.cell_steps[row], steps)
    assert sorted(order.chosen_tiers == 0) == sorted(chosen)
    assert sorted(order.greedy_tiers == 0) == sorted(greedy)
    summary = metrics.summary()
    assert summary["cells"] == pytest.approx(metrics.right.sum() / metrics.blanks.sum())
    assert summary["chosen_definite"] == pytest.approx(np.mean(chosen))
    assert summary["greedy_definite"] == pytest.approx(np.mean(greedy or [math.nan]), nan_ok=True)
    assert summary["forward_passes"] == pytest.approx(float(record.forward_passes.double().mean()))


def test_definite_cells_of_an_oracle_that_knows_the_digits(batch, puzzles) -> None:
    """A record written by hand: rounds of singles with the right digits, then the tail."""
    responses = torch.where(batch.judged[0], batch.answers, 1)
    responses = torch.where(batch.responses == batch.layout.mask_id, responses, batch.responses)
    step_of = torch.full_like(responses, -1)
    rounds = ladder_rounds(np.stack([puzzle.layout.puzzle for puzzle in puzzles[:3]]))
    step_of[:, batch.judged[0]] = torch.from_numpy(np.nan_to_num(rounds, nan=-1.0)).long()
    tail = batch.open_tail(batch.responses, torch.arange(3))
    step_of[tail] = int(rounds[~np.isnan(rounds)].max()) + 1
    greedy = torch.full((3, int(step_of.max()) + 1), int(tail[0].nonzero()[0]))
    definite = (step_of >= 0) & batch.judged
    passes = step_of.amax(1) + 1
    greedy_definite = torch.zeros_like(greedy, dtype=torch.bool)
    none = torch.zeros_like(passes)
    of_guard = (torch.zeros_like(greedy), torch.zeros_like(greedy), none.bool())
    record = Decode(batch, responses, step_of, definite, greedy, greedy_definite, passes, none, *of_guard)
    metrics, order = Evaluation.of(record), ladder_order(record)
    assert metrics.solved.all() and (order.chosen_tiers == 0).all() and len(order.greedy_tiers) == 0
    assert metrics.steps_before_error.tolist() == metrics.forward_passes.tolist()
    assert metrics.summary()["chosen_definite"] == 1.0 and math.isnan(metrics.summary()["greedy_definite"])


def test_an_assessment_puts_the_parts_together(model, batch) -> None:
    """From the puzzles themselves, as they were given to the model."""
    record = decode(model, batch, Decoding("margin", tokens_per_step=2))
    found, metrics, order = assess(record, seed=3), Evaluation.of(record), ladder_order(record)
    boards, solutions = batch.boards(batch.responses), batch.boards(batch.answers)
    floor = random_order_tiers(boards, solutions, cell_steps=order.cell_steps, live_cells=metrics.chosen_judged, seed=3)
    np.testing.assert_array_equal(found.floor_tiers, floor)
    np.testing.assert_array_equal(found.order.chosen_tiers, order.chosen_tiers)
    correlation = float(known_mean(rank_correlation(order.cell_steps, ladder_rounds(boards))))
    assert found.summary() == pytest.approx(
        {**metrics.summary(), "random_floor": tier_shares(floor)["singles"], "rank_correlation": correlation},
        nan_ok=True,
    )
    assert np.isfinite(correlation) and 0 < len(floor) == metrics.chosen_judged.sum()


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
