"""All kernels compiled in advance, by small calls of everything that uses them."""

from collections.abc import Callable

import gymnasium
import numpy as np

from sudoku_env.board import SIZES, to_string
from sudoku_env.envs.sampling import sample_legal
from sudoku_env.envs.sources import PromptPool
from sudoku_env.explanation import explain
from sudoku_env.generator import generate
from sudoku_env.grids import canonical_grid
from sudoku_env.kernels.compiling import be_quiet
from sudoku_env.logic import candidates, definite_cells, definite_digits
from sudoku_env.puzzles import default_puzzles
from sudoku_env.rating import rate
from sudoku_env.solver import count_solutions, solve, solve_batch
from sudoku_env.symmetries import symmetric_images


def compile_kernels(report: Callable[[str], object]) -> None:
    """Compile what is not compiled yet; nothing is announced but by `report`, with the name of each part before it."""
    be_quiet()
    parts = {"solver": _solver, "generator": _generator, "rules": _rules, "environments": _environments}
    for name, part in parts.items():
        report(name)
        part()


def _solver() -> None:
    for size in SIZES:
        board = np.zeros(size * size, dtype=np.uint8)
        solution = solve(board)
        assert solution is not None
        count_solutions(to_string(board))
        solve_batch(board[None])
        candidates(board)
        definite_digits(board)
        symmetric_images([board], 2)
        if size == 9:
            canonical_grid(solution)


def _generator() -> None:
    for size in SIZES:
        generate(1, size=size, seed=0)
    for size in (6, 9):
        generate(1, size=size, rule="pairs", seed=0)


def _rules() -> None:
    for board in (default_puzzles(6).boards[0], default_puzzles(9).boards[0]):
        rate(board)
        explain(board, "backbone")
        definite_cells(board, "backbone")


def _environments() -> None:
    rng = np.random.default_rng(0)
    single, several = gymnasium.make("sudoku_env:Sudoku-v0"), gymnasium.make_vec("sudoku_env:Sudoku-v0", num_envs=2)
    info = single.reset(seed=0)[1]
    single.step(sample_legal(info["action_mask"], rng))
    info = several.reset(seed=0)[1]
    several.step(np.asarray(sample_legal(info["action_mask"], rng)))
    # A step of language: the first masked position gets the first digit.
    source = PromptPool(["sudoku 4x4 1..4..1221...3.."])
    one = gymnasium.make("sudoku_env:SudokuUnmask-v0", source=source)
    position = np.flatnonzero(one.reset(seed=0)[1]["masked"])[0]
    action = np.array([position, one.get_wrapper_attr("layout").digit_ids[0]])
    one.step(action)
    two = gymnasium.make_vec("sudoku_env:SudokuUnmask-v0", num_envs=2, source=source)
    two.reset(seed=0)
    two.step(np.stack([action, action]).reshape(two.action_space.shape or ()))
