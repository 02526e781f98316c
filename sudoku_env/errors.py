"""Errors that the package raises; all of them are `ValueError`s, so callers may catch broadly."""


class SudokuError(ValueError):
    """Base class of the package's errors."""


class BoardError(SudokuError):
    """A board has an unknown size, a wrong shape, a digit out of range, or a contradiction."""


class PuzzleParseError(SudokuError):
    """A text holds no puzzle, several puzzles, or one that is malformed; the message says where."""


class TokenLayoutError(SudokuError):
    """No answer layout gives every cell one stable token, or a response does not fit its length."""


class PromptSetError(SudokuError):
    """A file of prompts cannot be read; the message names the file and the line."""


class MoveError(SudokuError):
    """A message to the text environment holds no move, or one that the board does not allow; the message says why."""
