"""Boards filled in by singles alone, round by round: the plainest solver, to hold others against."""

from sudoku_env.board import Board, BoardLike, as_board, is_solved
from sudoku_env.logic import definite_digits


def solve_by_singles(board: BoardLike) -> Board:
    """The board with singles filled in, round by round, until no cell is definite."""
    return _fill_in_rounds(board)[0]


def singles_rounds(board: BoardLike) -> int:
    """Rounds of "fill all definite cells at once" that solve the board: 0 if it is solved, −1 if singles fail."""
    filled, rounds = _fill_in_rounds(board)
    return rounds if is_solved(filled) else -1


def _fill_in_rounds(board: BoardLike) -> tuple[Board, int]:
    filled = as_board(board)
    rounds = 0
    while (definite := definite_digits(filled)).any():
        filled += definite
        rounds += 1
    return filled, rounds
