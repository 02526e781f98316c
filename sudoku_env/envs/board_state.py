"""The state of `Sudoku-v0` for one board or many, and the puzzles dealt to it."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudoku_env.answers import Answers, are_definite, check_answers, definite_rule, follow_boards
from sudoku_env.board import Board, geometry, size_of
from sudoku_env.envs.episodes import Streams, check_number
from sudoku_env.envs.progress import BoardView, view_of
from sudoku_env.envs.sources import PuzzleSource, check_puzzles
from sudoku_env.errors import SudokuError
from sudoku_env.kernels import play

ENDS = ("error", "dead_end")


@dataclass(frozen=True)
class BoardRules:
    """The rules of `Sudoku-v0`.

    Attributes:
        end_on: What ends an episode: `"error"`, a wrong digit, or `"dead_end"`, a blank cell without candidate.
        illegal_reward: The reward of an illegal action, which ends an episode too.
        answers: The right answers: "one", each puzzle has one solution; "any", every solution is right, and a digit is
            wrong if it leaves none.
        rule: The rule by which cells are definite, as in `definite_cells`. None: "singles", or "backbone" where any
            answer is right.

    Raises:
        SudokuError: The end, the answers or the rule are unknown, or the reward is no finite number.
    """

    end_on: str = "error"
    illegal_reward: float = -1.0
    answers: Answers = "one"
    rule: str | None = None

    def __post_init__(self) -> None:
        if self.end_on not in ENDS:
            raise SudokuError(f"end_on {self.end_on!r} is unknown; choose one of {ENDS}")
        object.__setattr__(self, "illegal_reward", check_number("illegal_reward", self.illegal_reward))
        object.__setattr__(self, "answers", check_answers(self.answers))
        definite_rule(self.rule, self.answers)


class BoardState:
    """B boards in play and what they are dealt; the arrays are described in `kernels.play.InPlay`.

    Args:
        count: B.
        source: The source of the puzzles.
        rules: The rules of play.

    Attributes:
        size: n.
        given: Number of puzzles that can be picked by their index, 0 if they are shuffled.
        streams: The randomness of each row.
        boards: uint8 `(B, n²)`.
        solutions: uint8 `(B, n²)`; where any answer is right a solution of the board, or, once a digit is wrong, of the
            board before it.
        masks: int8 `(B, n³)`.
        orders: int16 `(B, n²)`.
        status: int64 `(B, 5)`.
        moved: The last two arguments of `kernels.play.play`.
        by_kernel: Whether the kernel alone judges moves: there is one answer, and cells are definite by singles.
    """

    def __init__(self, count: int, source: PuzzleSource, rules: BoardRules) -> None:
        puzzles = check_puzzles(source.puzzles)
        pool = np.array([puzzles.boards, puzzles.solutions], dtype=np.uint8)
        size = size_of(pool.shape[2])
        table = geometry(size)
        cells = table.cells
        self.size = size
        self.given = 0 if source.shuffled else len(puzzles)
        self.streams = Streams(count)
        self.boards = np.zeros((count, cells), dtype=np.uint8)
        self.solutions = np.zeros((count, cells), dtype=np.uint8)
        self.masks = np.zeros((count, cells * size), dtype=np.int8)
        self.orders = np.zeros((count, cells), dtype=np.int16)
        self.status = np.zeros((count, 5), dtype=np.int64)
        self.status[:, play.OVER] = 1
        candidates = np.zeros((count, cells), dtype=np.uint16)
        held = play.InPlay(self.boards, self.solutions, candidates, self.masks, self.orders, self.status)
        neighbors, units_of = _tables(size)
        shuffled = bool(source.shuffled)
        deck = play.Deck(pool, shuffled, self.streams.states, units_of, table.box_rows, table.box_columns)
        ends = play.Rules(neighbors, rules.end_on == "error", rules.illegal_reward)
        self._answers, self._rule = rules.answers, definite_rule(rules.rule, rules.answers)
        self.by_kernel = (self._answers, self._rule) == ("one", "singles")
        self._deck = tuple(deck)
        self.moved = (tuple(held), tuple(ends))

    def deal(self, rows: NDArray[np.bool_], choice: int = -1) -> None:
        """Begin an episode in the rows, bool `(B,)`, with the given board `choice` or random puzzles if it is −1."""
        play.deal(rows, choice, self._deck, self.moved[0])

    def play(self, actions: NDArray[np.int64]) -> NDArray[np.float64]:
        """The rewards, float64 `(B,)`, of one move on every board that is not over, by `kernels.play.play`."""
        rewards = np.empty(len(actions))
        if self.by_kernel:
            play.play(actions, rewards, *self.moved)
            return rewards
        # The legal moves, and which of them fill a definite cell.
        rows = np.flatnonzero(~self.over)
        rows = rows[self.masks[rows, actions[rows]] != 0]
        cells, digits = actions[rows] // self.size, actions[rows] % self.size + 1
        definite = self.definite[rows, cells]
        # A digit that leaves a solution is right: the solution becomes one that has it.
        if self._answers == "any":
            after = self.boards.copy()
            after[rows, cells] = digits
            follow_boards(after, self.solutions)
        play.play(actions, rewards, *self.moved)
        # The kernel knows singles alone.
        rewards[rows] = definite & (self.solutions[rows, cells] == digits)
        self.orders[rows, cells] = np.where(definite, 1, -1) * np.abs(self.orders[rows, cells])
        return rewards

    @property
    def over(self) -> NDArray[np.bool_]:
        """bool `(B,)`, a new array: whether the episode is over."""
        return self.status[:, play.OVER] != 0

    @property
    def definite(self) -> NDArray[np.bool_]:
        """bool `(B, n²)`, a new array: the blank cells that are definite (S1); none on a board with a wrong digit."""
        return are_definite(self.boards, self._rule) & (self.status[:, play.ERROR] == 0)[:, None]

    def action_masks(self) -> NDArray[np.bool_]:
        """bool `(B, n³)`, a new array: the legal actions."""
        return self.masks.astype(bool)

    def columns(self) -> dict[str, NDArray[Any]]:
        """The infos of all rows, described in `SudokuEnv`, as new arrays with B rows."""
        return {
            "action_mask": self.masks.copy(),
            "error": self.status[:, play.ERROR] != 0,
            "illegal": self.status[:, play.ILLEGAL] != 0,
            "steps": self.status[:, play.STEPS].copy(),
        }

    def view(self, row: int) -> BoardView:
        """What can be shown of a board."""
        steps = int(self.status[row, play.STEPS])
        return view_of(self.boards[row], self.solutions[row], self.orders[row], self.definite[row], steps)


@cache
def _tables(size: int) -> tuple[Board, NDArray[np.int64]]:
    """`neighbors`, uint8 `(n², 3, n−1)`, the other cells of each cell's row, column and box; and `units_of`.

    They are writable, unlike other tables, as unpickled arrays are, and kernels are compiled for one of the two.
    """
    table = geometry(size)
    units = table.units[table.units_of]  # (n², 3, n)
    others = units != np.arange(table.cells)[:, None, None]
    return units[others].reshape(table.cells, 3, size - 1).astype(np.uint8), table.units_of.copy()
