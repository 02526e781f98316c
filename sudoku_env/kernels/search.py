"""One name for what `kernels.nine` does for 9×9 and `kernels.general` for the other sizes.

Which of the two a kernel takes follows from the type of its `search`, so that the other one is not compiled with it.
"""

from collections.abc import Callable
from typing import Any

from numba import extending, types

from sudoku_env.board import Board
from sudoku_env.kernels.general import begin_other, begin_search, run_search
from sudoku_env.kernels.nine import begin9, begin_other9, search_planes
from sudoku_env.kernels.random import Int, Ints
from sudoku_env.kernels.search_state import Search


def choose(name: Callable[..., Any], nine: Callable[..., Any], other: Callable[..., Any]) -> None:
    """Let kernels that call `name` call `nine` or `other` instead, which take the same arguments, the last a search."""

    def by_type(*arguments: Any) -> Callable[..., Any]:
        search = arguments[-1]
        return other if isinstance(search.types[search.fields.index("words")], types.NoneType) else nine

    extending.overload(name, strict=False, inline="always")(by_type)


def begin(board: Board, units_of: Ints, search: Search) -> None:
    """Prepare `run` for all solutions of a board, uint8 `(n²,)`."""
    raise NotImplementedError("for kernels only")


choose(begin, lambda board, units_of, search: begin9(board, search.words, search.state), begin_search.py_func)


def begin_beside(board: Board, cell: Int, digit: Int, units_of: Ints, search: Search) -> None:
    """Prepare `run` for the solutions of a board that have another digit than `digit` in its blank `cell`."""
    raise NotImplementedError("for kernels only")


choose(
    begin_beside,
    lambda board, cell, digit, units_of, search: begin_other9(board, cell, digit, search.words, search.state),
    begin_other.py_func,
)


def run(units: Ints, units_of: Ints, limit: Int, solution: Board, search: Search) -> Int:
    """Number of solutions up to `limit`, or UNFINISHED after as much work as was left; `solution` gets the first."""
    raise NotImplementedError("for kernels only")


choose(
    run,
    lambda units, units_of, limit, solution, search: search_planes(search.words, search.state, limit, solution),
    lambda units, units_of, limit, solution, search: run_search(
        units, units_of, limit, search.no_rng, solution, search
    ),
)
