"""Images of puzzles under the symmetries of Sudoku, to train on beside the puzzles themselves."""

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

from sudoku_env.board import Board, BoardLike, as_board, geometry, size_of
from sudoku_env.errors import BoardError, SudokuError
from sudoku_env.kernels.symmetry import shuffle_puzzle
from sudoku_env.prompts.text import build_prompt, parse_puzzle

Symmetries = Literal["digits", "all"]


def symmetric_images(
    boards: Sequence[BoardLike], count: int, *, symmetries: Symmetries = "all", seed: int = 0
) -> Board:
    """Puzzles and random images of them, each as hard for logic as the puzzle that it comes from.

    Args:
        boards: N boards of one size, in any form that `as_board` takes.
        count: Boards for each puzzle: the puzzle itself and `count - 1` images, drawn with repetition.
        symmetries: "digits" relabels the digits; "all" also permutes bands, stacks and the lines in them, and
            transposes where boxes are square.
        seed: Random seed.

    Returns:
        uint8 `(count · N, n²)`: the N puzzles, then an image of each, and so on.

    Raises:
        SudokuError: `count` is below 1, or there are no such symmetries.
        BoardError: There is no board, one is malformed, or of another size than the first.
    """
    if count < 1:
        raise SudokuError(f"count={count} must be at least 1; 1 leaves the puzzles as they are")
    if symmetries not in get_args(Symmetries):
        raise SudokuError(f"symmetries={symmetries!r} are unknown; use one of {get_args(Symmetries)}")
    if len(boards) == 0:
        raise BoardError("boards is empty; pass at least one puzzle")
    size = size_of(as_board(boards[0]).size)
    originals = np.stack([as_board(board, size) for board in boards])  # (N, n²)
    images = np.tile(originals, (count, 1))
    rng = np.random.default_rng(seed)
    moved = len(images) - len(originals)
    if symmetries == "digits":
        digits = rng.permuted(np.tile(np.arange(1, size + 1, dtype=np.uint8), (moved, 1)), axis=1)  # (M, n)
        tables = np.concatenate([np.zeros((moved, 1), dtype=np.uint8), digits], axis=1)
        images[len(originals) :] = np.take_along_axis(tables, images[len(originals) :], axis=1)
        return images
    table = geometry(size)
    state = rng.integers(2**64, size=1, dtype=np.uint64)
    work, unused = np.empty((3, size + 1), dtype=np.int64), np.empty(size * size, dtype=np.uint8)
    for number in range(len(originals), len(images)):
        source = originals[number % len(originals)]
        shuffle_puzzle(source, source, images[number], unused, size, table.box_rows, table.box_columns, state, work)
    return images


def symmetric_prompts(
    prompts: Sequence[str], count: int, *, template: str, symmetries: Symmetries = "all", seed: int = 0
) -> list[str]:
    """Prompts, all in the words of a template, and prompts of `symmetric_images` of their puzzles.

    Returns:
        `count · N` prompts: the N, then one of an image of each, and so on.

    Raises:
        SudokuError: A prompt is in other words, or has no puzzle; or `symmetric_images` refuses an argument.
    """
    boards = [parse_puzzle(prompt) for prompt in prompts]
    if other := [text for board, text in zip(boards, prompts, strict=True) if build_prompt(board, template) != text]:
        raise SudokuError(
            f"images are written in template {template!r}, but {len(other)} of {len(prompts)} prompts are not: "
            f"{other[0]!r}; rewrite them with build_prompt(parse_puzzle(prompt), {template!r})"
        )
    images = symmetric_images(boards, count, symmetries=symmetries, seed=seed)
    return [build_prompt(board, template) for board in images]
