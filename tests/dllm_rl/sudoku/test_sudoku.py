import numpy as np
import pytest
import torch

from dllm_rl.sudoku import PuzzleBatch, SudokuTask
from scripts.shared.small_tokenizer import build_small_tokenizer
from sudoku_env.generator import generate
from sudoku_env.prompts.text import build_prompt
from sudoku_env.prompts.tokens import pre_fill, reference_ids


def test_collated_puzzles_hold_what_the_puzzles_hold(puzzles) -> None:
    batch = PuzzleBatch.collate(puzzles, pad_id=77)
    longest = max(puzzle.prompt_length for puzzle in puzzles)
    assert len(batch) == len(puzzles) and batch.prompt_ids.shape == (len(puzzles), longest)
    assert batch.prompt_mask is not None
    for index, puzzle in enumerate(puzzles):
        length, layout = puzzle.prompt_length, puzzle.layout
        padding = longest - length
        assert batch.prompt_ids[index].tolist() == [77] * padding + puzzle.token_ids[:length]
        assert batch.prompt_mask[index].tolist() == [False] * padding + [True] * length
        assert batch.responses[index].tolist() == puzzle.token_ids[length:]
        assert np.array_equal(batch.boards(batch.answers)[index], layout.solution)
        cells = layout.cell_positions.tolist()
        solution = dict(zip(cells, layout.solution_ids.tolist(), strict=True))
        assert batch.answers[index].tolist() == [solution.get(ell, layout.mask_id) for ell in range(19)]
        assert batch.judged[index].nonzero()[:, 0].tolist() == cells
    assert batch.mask_id == puzzles[0].layout.mask_id and not bool(batch.scored.any())
    assert torch.equal(batch.known, batch.judged)
    assert batch.responses.dtype == batch.answers.dtype == batch.prompt_ids.dtype == torch.int64


def test_a_known_tail_is_part_of_the_solution(puzzles) -> None:
    plain = PuzzleBatch.collate(puzzles, pad_id=77)
    for tail in ("free", "scored"):
        batch = PuzzleBatch.collate(puzzles, pad_id=77, tail_id=50, tail=tail)
        assert torch.equal(batch.scored, ~batch.judged if tail == "scored" else torch.zeros_like(batch.judged))
        assert torch.equal(batch.responses, plain.responses) and bool(batch.known.all())
        for index, puzzle in enumerate(puzzles):
            assert batch.answers[index].tolist() == reference_ids(puzzle, 50).tolist()
    assert batch.answers[0].tolist().count(50) == 2


def test_a_prefilled_tail_leaves_cells_alone_masked(puzzles) -> None:
    plain = PuzzleBatch.collate(puzzles, pad_id=77)
    batch = PuzzleBatch.collate(puzzles, pad_id=77, tail_id=50, tail="prefill")
    every = torch.arange(len(puzzles))
    tail = plain.open_tail(plain.responses, every)
    assert int(tail.sum()) == 2 * len(puzzles) and not bool(batch.open_tail(batch.responses, every).any())
    assert not bool(batch.scored.any())
    assert torch.equal(batch.responses, torch.where(tail, 50, plain.responses))


def test_a_task_makes_the_batch_of_its_fields(puzzles) -> None:
    batch = SudokuTask(77, 50, tail="scored", rule="pairs").batch(puzzles)
    expected = PuzzleBatch.collate(puzzles, pad_id=77, tail_id=50, tail="scored", rule="pairs")
    assert batch.rule == expected.rule == "pairs" and batch.layout is expected.layout
    for name in PuzzleBatch.per_problem:
        assert torch.equal(getattr(batch, name), getattr(expected, name)), name


def test_selected_puzzles_are_those_of_the_numbers(puzzles) -> None:
    whole = PuzzleBatch.collate(puzzles, pad_id=77, tail_id=50, tail="scored", rule="pairs")
    part = whole.select(torch.tensor([4, 1]))
    assert len(part) == 2 and (part.rule, part.layout, part.mask_id) == ("pairs", whole.layout, whole.mask_id)
    for index, number in enumerate((4, 1)):
        for name in PuzzleBatch.per_problem:
            assert torch.equal(getattr(part, name)[index], getattr(whole, name)[number]), name
        assert np.array_equal(part.boards(part.answers)[index], puzzles[number].layout.solution)
    assert PuzzleBatch.collate(puzzles[::2], pad_id=77).select(torch.tensor([0])).prompt_mask is None


def test_boards_show_digits_and_leave_everything_else_blank(batch, puzzles) -> None:
    boards = batch.boards(batch.responses)
    assert boards.dtype == np.uint8
    np.testing.assert_array_equal(boards, [puzzle.layout.puzzle for puzzle in puzzles[:3]])
    solved = batch.boards(torch.where(batch.judged, batch.answers, batch.responses))
    np.testing.assert_array_equal(solved, [puzzle.layout.solution for puzzle in puzzles[:3]])
    batch.responses[0, batch.layout.cell_positions[0]] = 60
    boards[0, 0] = 0
    assert np.array_equal(batch.boards(batch.responses), boards)


def test_puzzles_that_do_not_fit_together_are_refused(puzzles, tokenizer) -> None:
    drawn = (generate(1, size=size, clues=clues, rule="singles", seed=9) for size, clues in ((4, 8), (6, 20)))
    prompt, of_six = (build_prompt(each.boards[0], "compact") for each in drawn)
    longer, lettered = pre_fill(prompt, tokenizer, 20), pre_fill(prompt, tokenizer, 40, layout="lettered")
    other_mask = pre_fill(prompt, tokenizer, 19, mask_token_id=tokenizer.unk_token_id)
    for other in (longer, other_mask, lettered, pre_fill(of_six, build_small_tokenizer(), 40)):
        with pytest.raises(ValueError, match="share size, answer layout and response length"):
            PuzzleBatch.collate([puzzles[0], other], pad_id=0)
