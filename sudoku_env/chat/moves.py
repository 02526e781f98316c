"""The moves of the text environment, and how a player writes them."""

import re
from dataclasses import dataclass

import numpy as np

from sudoku_env.errors import MoveError

PARAMETERS: dict[str, tuple[str, ...]] = {
    "place": ("row", "column", "digit"),
    "erase": ("row", "column"),
    "undo": (),
    "hint": (),
    "give_up": (),
}
GRAMMAR = "\n".join(" ".join([name, *map(str.upper, parameters)]) for name, parameters in PARAMETERS.items())

_QUOTED = 60
_BREAKS = re.compile(r"[\s,;()\[\]{}]+")
_NUMBER = re.compile(r"[0-9]{1,3}", re.ASCII)


@dataclass(frozen=True)
class Move:
    """One move; `str(move)` is the text that `read_move` reads as the same move, or refuses if its numbers are none.

    Attributes:
        name: A key of `PARAMETERS`.
        numbers: The values of its parameters, as many as it has; whether they fit the board is not looked at.
    """

    name: str
    numbers: tuple[int, ...] = ()

    def __str__(self) -> str:
        return " ".join([self.name, *map(_written, self.numbers)])


class GameTools:
    """The moves as typed methods, described for tool calling; a subclass says in `_called` what playing one means."""

    def place(self, row: int, column: int, digit: int) -> str:
        """Write a digit into an empty cell, or over a digit that you wrote before.

        Args:
            row: The row of the cell, counted from 1 at the top.
            column: The column of the cell, counted from 1 at the left.
            digit: The digit to write, from 1 to the size of the board.

        Returns:
            What has changed, or why the digit cannot stand there.
        """
        return self._called(Move("place", (row, column, digit)))

    def erase(self, row: int, column: int) -> str:
        """Take back a digit that you wrote before.

        Args:
            row: The row of the cell, counted from 1 at the top.
            column: The column of the cell, counted from 1 at the left.

        Returns:
            What has changed, or why nothing can be taken back there.
        """
        return self._called(Move("erase", (row, column)))

    def undo(self) -> str:
        """Take back the last change of the board that still stands, whether a digit was written or erased.

        Returns:
            What the cell holds again, or that nothing is left to undo.
        """
        return self._called(Move("undo"))

    def hint(self) -> str:
        """Ask for the next step by logic. A hint costs points, the more the harder the step is.

        Returns:
            The step with its reason; or which of your digits is wrong.
        """
        return self._called(Move("hint"))

    def give_up(self) -> str:
        """End the game without solving the puzzle.

        Returns:
            That the game is over.
        """
        return self._called(Move("give_up"))

    def _called(self, move: Move) -> str:
        raise NotImplementedError("define _called(move) in the subclass of GameTools")


def read_move(text: str) -> Move:
    """Read the move in the last line of a message that is not empty; what stands above it may be anything.

    `place 1 2 3`, `Place(1, 2, 3)` and `give up` are moves; lines of back-ticks around a move do not matter.

    Raises:
        MoveError: The last line is no move. The message says what it lacks, and quotes in ASCII and in part.
    """
    lines = [line for line in text.splitlines() if line.strip(" \t`")]
    if not lines:
        raise MoveError("the message is empty")
    words = [word for word in _BREAKS.split(lines[-1].strip(" \t`*.").lower()) if word]
    if words[:2] == ["give", "up"]:
        words[:2] = ["give_up"]
    if not words or words[0] not in PARAMETERS:
        raise MoveError(f"the last line is no move: {_quoted(lines[-1])}")
    name, numbers = words[0], words[1:]
    parameters = PARAMETERS[name]
    if len(numbers) != len(parameters) or not all(map(_NUMBER.fullmatch, numbers)):
        wanted = " ".join([name, *map(str.upper, parameters)])
        raise MoveError(f"{name} is written `{wanted}`, got {_quoted(lines[-1])}")
    return Move(name, tuple(map(int, numbers)))


def _written(value: object) -> str:
    """A number as text; of anything else, and of a number too long for a cell or a digit, only what it is."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool) and -1000 < int(value) < 1000:
        return str(value)
    return f"<{type(value).__name__}>"


def _quoted(text: str) -> str:
    """The beginning of a text between quotes, in printable ASCII."""
    text = text.strip()
    return ascii(text[:_QUOTED]) + ("..." if len(text) > _QUOTED else "")
