"""Solver, singles, sentences and reading of boards in JavaScript, held against sudoku_env."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sudoku_env import count_solutions, default_puzzles, definite_digits, solve
from sudoku_env.board import BoardLike, as_board, geometry, is_valid
from sudoku_env.errors import BoardError
from sudoku_env.explanation import placement_step
from sudoku_env.kernels.ladder_state import BACKBONE, HIDDEN_SINGLE, NAKED_SINGLE
from sudoku_env.logic import candidates, definite_cells

IMPOSSIBLE = ".....5.8....6.1.43..........1.5........1.6...3.......553.....61........4........."


def thinned(size: int, count: int) -> list[np.ndarray]:
    """Puzzles, some with clues taken away, some with a digit written in: of all four kinds."""
    rng = np.random.default_rng(0)
    made = []
    for board in default_puzzles(size).boards[:count]:
        board = board.copy()
        board[rng.choice(np.flatnonzero(board), rng.integers(3), replace=False)] = 0
        if rng.random() < 0.5:
            board[rng.choice(np.flatnonzero(board == 0))] = rng.integers(1, size + 1)
        made.append(board)
    return made


def kind_of(board: BoardLike) -> str:
    if not is_valid(board):
        return "invalid"
    return ("unsolvable", "unique", "ambiguous")[min(count_solutions(board), 2)]


def test_the_kinds_of_boards_are_those_of_the_solver(node: Callable[..., Any]) -> None:
    boards = [board for size in (4, 6, 9) for board in thinned(size, 40)]
    boards += [as_board(IMPOSSIBLE), np.zeros(81, np.uint8)]
    found = node("judge", puzzles=[board.tolist() for board in boards])
    assert [one["kind"] for one in found] == [kind_of(board) for board in boards]
    assert {one["kind"] for one in found} == {"invalid", "unsolvable", "unique", "ambiguous"}
    for board, one in zip(boards, found, strict=True):
        if one["kind"] == "unique":
            assert one["solution"] == solve(board).tolist()


def test_sentences_are_those_of_explain(node: Callable[..., Any]) -> None:
    boards = [board for size in (4, 6, 9) for board in default_puzzles(size).boards[:6]]
    cells, expected = [], []
    for board in boards:
        for cell in np.flatnonzero(board == 0).tolist():
            digit = int(definite_cells(board, "backbone")[cell])
            cells.append([board.tolist(), cell, digit])
            expected.append(sentence(board, cell, digit))
    assert node("sentences", cells=cells) == expected
    assert {text.split(":")[0] for text in expected} == {"Naked single", "Hidden single", "Backbone"}


def sentence(board: np.ndarray, cell: int, digit: int) -> str:
    """The sentence of the easiest of the three rules that the page covers."""
    table = geometry(int(board.size**0.5))
    options = candidates(board)[:, digit - 1]
    if candidates(board)[cell].sum() == 1:
        return str(placement_step(NAKED_SINGLE, cell, digit, [], board))
    if definite_digits(board)[cell]:
        unit = next(int(unit) for unit in table.units_of[cell] if options[table.units[unit]].sum() == 1)
        return str(placement_step(HIDDEN_SINGLE, cell, digit, [unit], board))
    return str(placement_step(BACKBONE, cell, digit, [], board))


def test_a_digit_that_nothing_forces_has_no_sentence(node: Callable[..., Any]) -> None:
    board = default_puzzles(6).boards[0]
    cell = int(np.flatnonzero(board == 0)[0])
    wrong = int(solve(board)[cell]) % 6 + 1
    blank = np.zeros(36, np.uint8)
    assert node("sentences", cells=[[board.tolist(), cell, wrong], [blank.tolist(), 0, 1]]) == [None, None]


@pytest.mark.parametrize(
    "text",
    [
        "1..4..1221...3..",
        "1 . . 4\n. . 1 2\n2 1 . .\n. 3 . .",
        "1 .|. 4\n. .|1 2\n---+---\n2 1|. .\n. 3|. .",
        "1004001221000300",
    ],
)
def test_boards_are_read_as_in_python(node: Callable[..., Any], text: str) -> None:
    assert node("parse", texts=[text]) == [as_board(text).tolist()]


@pytest.mark.parametrize("text", ["1..4", "1..4..1221...3.5", "1..4..1221...3.?"])
def test_what_is_no_board_is_refused_with_its_fault(node: Callable[..., Any], text: str) -> None:
    with pytest.raises(BoardError):
        as_board(text)
    assert isinstance(node("parse", texts=[text])[0], str)
