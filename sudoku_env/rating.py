"""How hard a board is for logic: the hardest rule that a solution needs, and how often each was used."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sudoku_env.board import BoardLike, as_boards, check_no_clash, size_of
from sudoku_env.errors import BoardError
from sudoku_env.kernels.ladder import grade_batch
from sudoku_env.kernels.ladder_state import RULES, ladder_table, new_work
from sudoku_env.kernels.search_state import in_pieces, new_search
from sudoku_env.logic import rule_index


@dataclass(frozen=True)
class Rating:
    """What a solution by logic took.

    Attributes:
        rule: The hardest rule used, one of `RULES`; None if the board is not solved, and "naked_single" if it was full
            from the start. "backbone" means that no other rule gets through, and that the solution is unique.
        uses: How often each rule was used, from easy to hard; rules not used are left out. "backbone" counts the cells
            that it filled.
        solved: Whether the rules allowed fill the board. They never do if it has several solutions or none.
        steps: Number of steps, the sum of `uses`.
    """

    rule: str | None
    uses: dict[str, int]
    solved: bool
    steps: int


def rate(board: BoardLike, rule: str = "backbone") -> Rating:
    """Solve a board by logic: always by the easiest rule that makes progress, starting over after each step.

    Which steps a rule takes first can change `uses` and `steps`, so they may differ between a board and its mirror
    image; `rule` and `solved` do not depend on it. `explain` tells the same steps.

    Args:
        board: Anything `as_board` takes.
        rule: The hardest rule allowed, one of `RULES` or of `RULE_GROUPS`.

    Raises:
        BoardError: A wrong shape, a value out of range, a clash on the board, or an unknown rule.
    """
    flat = check_no_clash(board)
    hardest, uses = _rate_rows(flat[None], rule)
    counts = {name: int(count) for name, count in zip(RULES, uses[0], strict=True) if count}
    solved = bool(hardest[0] >= 0)
    return Rating(RULES[hardest[0]] if solved else None, counts, solved, sum(counts.values()))


def rate_batch(boards: NDArray[np.integer], rule: str = "backbone") -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """`rate` for many boards of one size.

    Args:
        boards: `(N, n²)` integers, 0 for a blank.
        rule: The hardest rule allowed.

    Returns:
        The hardest rule used as int64 `(N,)` indices in `RULES`, −1 where the board is not solved (or has a clash), and
        the uses of each rule, int64 `(N, len(RULES))`.

    Raises:
        BoardError: A wrong shape, a value out of range, or an unknown rule.
    """
    flat = as_boards(boards)
    if flat.ndim != 2:
        raise BoardError(f"rate_batch needs boards of shape (N, n²), got {flat.shape}; use rate for one board")
    return _rate_rows(flat, rule)


def _rate_rows(flat: NDArray[np.uint8], rule: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """What `rate_batch` returns, of boards that have been looked at."""
    hardest = np.zeros(len(flat), dtype=np.int64)
    uses = np.zeros((len(flat), len(RULES)), dtype=np.int64)
    size, ceiling = size_of(flat.shape[1]), rule_index(rule)
    search = new_search(size)
    rest = (flat, ladder_table(size), ceiling, hardest, uses, new_work(size), search)
    in_pieces(grade_batch, search.state, len(flat), *rest)
    return hardest, uses
