"""Replays of decodes for the page of a run."""

from collections.abc import Sequence

import numpy as np
from torch import nn

from dllm_rl.decoding import Decode, Decoding, decode
from dllm_rl.sudoku import PuzzleBatch, SudokuTask
from sudoku_dllm.run_page.page import Replay
from sudoku_env.board import conflicts, geometry, size_of
from sudoku_env.logic import definite_cells
from sudoku_env.prompts.tokens import PreFilled

COUNT, FAILURES = 10, 2
"""Replays of a run, and how many of them are of failures where there are so many."""


def chosen(solved: Sequence[bool]) -> list[int]:
    """The puzzles to replay: the first that were solved, then the first two that failed, where there are so many."""
    right, wrong = np.flatnonzero(solved).tolist(), np.flatnonzero(~np.asarray(solved, dtype=bool)).tolist()
    failures = wrong[: max(FAILURES, COUNT - len(right))]
    return [*right[: COUNT - len(failures)], *failures]


def replays_of(
    model: nn.Module, name: str, task: SudokuTask, puzzles: Sequence[PreFilled], how: Decoding
) -> list[Replay]:
    """Decode puzzles to their ends and keep every board, under titles with the name of the model."""
    batch = task.batch(list(puzzles))
    record = decode(model, batch, how)
    return [replay_in(batch, record, row, name) for row in range(len(puzzles))]


def replay_in(batch: PuzzleBatch, record: Decode, row: int, name: str) -> Replay:
    """One row of a batch that has been decoded, board by board; the title begins with the name."""
    states = record.states_of(row)
    boards = batch.boards(states)
    solution = batch.boards(batch.answers[row : row + 1])[0]
    if batch.several:  # any valid grid is right: wrong is what clashes in the end
        solution = np.where(conflicts(boards[-1:])[0], 0, boards[-1])
    box = geometry(size_of(solution.size))
    wrong = ((boards != 0) & (boards != solution)).any(1)
    definite = [
        [] if bad else np.flatnonzero(np.asarray(definite_cells(board)).reshape(-1)).tolist()
        for board, bad in zip(boards, wrong, strict=True)
    ]
    missed = int(((boards[-1] != solution) | (boards[-1] == 0)).sum())
    end = "solved" if not missed else f"{missed} cells wrong"
    return Replay(
        title=f"{name}: {int((boards[0] > 0).sum())} clues, {len(boards) - 1} passes, {end}",
        size=size_of(solution.size),
        boards=boards.tolist(),
        solution=solution.tolist(),
        definite=definite,
        boxes=(box.box_rows, box.box_columns),
    )
