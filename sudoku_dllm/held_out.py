"""Puzzles that are held out: none of their grids is trained on."""

from collections.abc import Mapping, Sequence

from sudoku_env.prompts.tokens import PreFilled


def check_held_out(train: Sequence[PreFilled], held_out: Mapping[str, Sequence[PreFilled]]) -> None:
    """Look for solution grids of training in the sets that are held out.

    Args:
        train: Puzzles to train on.
        held_out: Name → puzzles; the message begins with the name.

    Raises:
        ValueError: A set has some.
    """
    seen = {puzzle.layout.solution.tobytes() for puzzle in train}
    for name, puzzles in held_out.items():
        if shared := sum(puzzle.layout.solution.tobytes() in seen for puzzle in puzzles):
            raise ValueError(
                f"{name}: {shared} of {len(puzzles)} solution grids occur in training; split by grid first"
            )
