"""The state of `Sudoku-v0` for one board or many, and the puzzles dealt to it."""

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from sudoku_env.board import Board, BoardLike, as_board, geometry
from sudoku_env.envs.episodes import Streams, check_illegal_reward, puzzle_pool
from sudoku_env.envs.progress import BoardView, view_of
from sudoku_env.errors import BoardError, SudokuError
from sudoku_env.kernels import play
from sudoku_env.logic import definite_digits
from sudoku_env.solver import solve_batch

ENDS = ("error", "dead_end")


class BoardState:
    """B boards in play and what they are dealt; the arrays are described in `kernels.play`.

    Args:
        count: B.
        size: n.
        clues: The number of clues, as in `SudokuEnv`.
        boards: The boards to draw from, as in `SudokuEnv`.
        pool_size: The size of the pool of generated puzzles, as in `SudokuEnv`.
        end_on: What ends an episode, as in `SudokuEnv`.
        illegal_reward: The reward of an illegal action, as in `SudokuEnv`.

    Attributes:
        size: n.
        given: Number of boards given, 0 if puzzles come from a pool.
        streams: The randomness of each row.
        boards: uint8 `(B, n²)`.
        solutions: uint8 `(B, n²)`.
        masks: int8 `(B, n³)`.
        orders: int16 `(B, n²)`.
        status: int64 `(B, 5)`.
        rules: The last nine arguments of `kernels.play.move`.
    """

    def __init__(
        self,
        count: int,
        size: int,
        clues: int | tuple[int, int] | None,
        boards: Sequence[BoardLike] | None,
        pool_size: int | None,
        end_on: str,
        illegal_reward: float,
    ) -> None:
        table = geometry(size)
        cells = table.cells
        if boards is not None and (clues is not None or pool_size is not None):
            raise BoardError(f"clues {clues!r} has no effect on given boards, nor has pool_size; pass one or the other")
        if end_on not in ENDS:
            raise SudokuError(f"end_on {end_on!r} is unknown; choose one of {ENDS}")
        if boards is None:
            puzzles = puzzle_pool(size, clues, pool_size)
            pool = np.stack([puzzles.boards, puzzles.solutions])
        else:
            pool = _check_boards(boards, size)
        self.size = size
        self.given = 0 if boards is None else len(boards)
        self.streams = Streams(count)
        self.boards = np.zeros((count, cells), dtype=np.uint8)
        self.solutions = np.zeros((count, cells), dtype=np.uint8)
        self.masks = np.zeros((count, cells * size), dtype=np.int8)
        self.orders = np.zeros((count, cells), dtype=np.int16)
        self.status = np.zeros((count, 5), dtype=np.int64)
        self.status[:, play.OVER] = 1
        candidates = np.zeros((count, cells), dtype=np.uint16)
        arrays = (self.boards, self.solutions, candidates, self.masks, self.orders, self.status)
        neighbors, units_of = _tables(size)
        boxes = (units_of, table.box_rows, table.box_columns)
        self._dealing = (pool, boards is None, self.streams.states, *arrays, *boxes)
        self.rules = (*arrays, neighbors, end_on == "error", check_illegal_reward(illegal_reward))

    def deal(self, rows: NDArray[np.bool_], choice: int = -1) -> None:
        """Begin an episode in the rows, bool `(B,)`, with the given board `choice` or random puzzles if it is −1."""
        play.deal(rows, choice, *self._dealing)

    def play(self, actions: NDArray[np.int64]) -> NDArray[np.float64]:
        """The rewards, float64 `(B,)`, of one move on every board that is not over, by `kernels.play.play`."""
        rewards = np.empty(len(actions))
        play.play(actions, rewards, *self.rules)
        return rewards

    def definite(self) -> NDArray[np.bool_]:
        """bool `(B, n²)`, the blank cells that are definite (S1); none on a board with a wrong digit."""
        return (definite_digits(self.boards) > 0) & (self.status[:, play.ERROR] == 0)[:, None]

    def view(self, row: int) -> BoardView:
        """What can be shown of a board."""
        steps = int(self.status[row, play.STEPS])
        return view_of(self.boards[row], self.solutions[row], self.orders[row], self.definite()[row], steps)


@cache
def _tables(size: int) -> tuple[Board, NDArray[np.int64]]:
    """`neighbors`, uint8 `(n², 3, n−1)`, the other cells of each cell's row, column and box; and `units_of`.

    They are writable, unlike other tables, as unpickled arrays are, and kernels are compiled for one of the two.
    """
    table = geometry(size)
    units = table.units[table.units_of]  # (n², 3, n)
    others = units != np.arange(table.cells)[:, None, None]
    return units[others].reshape(table.cells, 3, size - 1).astype(np.uint8), table.units_of.copy()


def _check_boards(boards: Sequence[BoardLike], size: int) -> Board:
    """The boards and their solutions, uint8 `(2, N, n²)`."""
    if len(boards) == 0:
        raise BoardError("boards is empty; pass at least one puzzle, or None to draw from a pool")
    puzzles = np.stack([as_board(board, size) for board in boards])
    solutions, counts = solve_batch(puzzles, limit=2)
    for number, (puzzle, count) in enumerate(zip(puzzles, counts, strict=True)):
        if count != 1:
            raise BoardError(f"board {number} has {'no' if count == 0 else 'more than one'} solution; it needs one")
        if puzzle.all():
            raise BoardError(f"board {number} has no blank; there is nothing to fill")
    return np.stack([puzzles, solutions])
