"""Speed of the solver, of definite cells and of the generator, beside whatever peers are installed.

Peers are optional: the packages sudoku (py-sudoku), sudokum, dokusan and reasoning_gym if they can be imported, and
tdoku with --tdoku path/to/libtdoku.so, a shared library built from its sources, for example with

    clang++ -std=c++14 -O3 -march=native -DNDEBUG -fPIC -shared -Iinclude -Isrc \
        src/solver_dpll_triad_simd.cc src/util.cc -o libtdoku.so

Every figure is a median of rounds in which all contenders take turns; trust the ratios more than the rates.
"""

import ctypes
import importlib.util
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from operator import itemgetter
from pathlib import Path
from timeit import timeit
from typing import Any

import numpy as np
from numba import njit

from llm_rl.core._options import option
from llm_rl.training import need_file, need_reports, need_writable, parse, user_errors
from scripts.benchmarks.work import Contender, report
from sudoku_env import completable, count_solutions, definite_digits, generate, solve, solve_batch, to_string
from sudoku_env.reading import read_boards


@dataclass
class SolverBenchmarkArguments:
    """Arguments of `scripts/benchmarks/solver.py`."""

    puzzles: list[str] = field(
        default_factory=lambda: [str(path) for path in sorted(Path("tests/data").glob("*.txt"))],
        metadata={"help": "Files of 9×9 puzzles, one packed puzzle a line."},
    )
    tdoku: str | None = option(None, "A shared library of tdoku.")
    boards: int = option(5000, "Boards of a set: the first ones, repeated if there are fewer.")
    rounds: int = option(11, "Timed rounds of each measurement.")
    threads: int = option(2, "Threads to compare with one.")
    seed: int = option(0, "Random seed of generated puzzles and removed clues.")
    output_dir: str = option("runs/benchmark_solver", "Folder for CSV files and charts.")


(args,) = parse(SolverBenchmarkArguments, description=__doc__)
for name in args.puzzles:
    need_file("puzzles", name)
need_writable("output_dir", args.output_dir)
need_reports()
folder = Path(args.output_dir)
random_generator = np.random.default_rng(args.seed)


def without_clues(boards: np.ndarray, count: int) -> np.ndarray:
    """The boards with so many clues fewer, chosen at random; most then have many solutions."""
    fewer = boards.copy()
    for board in fewer:
        board[random_generator.choice(np.flatnonzero(board), count, replace=False)] = 0
    return fewer


sets = {}
for name in args.puzzles:
    with user_errors(OSError, ValueError):
        sets[Path(name).stem] = np.resize(read_boards(name, size=9).stacked[: args.boards], (args.boards, 81))
sets["generated, minimal"] = generate(args.boards, size=9, minimal=True, seed=args.seed).boards
sets["minimal, 2 clues fewer"] = without_clues(sets["generated, minimal"], 2)
sets["minimal, 6 clues fewer"] = without_clues(sets["generated, minimal"], 6)
sets["empty"] = np.zeros((100, 81), dtype=np.uint8)
loose = ("minimal, 2 clues fewer", "minimal, 6 clues fewer", "empty")

if args.tdoku is not None:
    with user_errors(OSError):
        tdoku = ctypes.CDLL(args.tdoku).TdokuSolverDpllTriadSimd
    tdoku.restype = ctypes.c_size_t
    tdoku.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_void_p]

    @njit
    def tdoku_batch(text, limit, solutions, counts, guesses):  # type: ignore[no-untyped-def]
        """Call tdoku for each line of `text`, uint8 `(N, 82)`, from compiled code."""
        for k in range(text.shape[0]):
            counts[k] = tdoku(text[k].ctypes, limit, 0, solutions[k].ctypes, guesses.ctypes)

    def run_tdoku(text: np.ndarray, limit: int) -> np.ndarray:
        """Numbers of solutions by tdoku."""
        counts = np.zeros(len(text), dtype=np.int64)
        tdoku_batch(text, limit, np.zeros((len(text), 81), dtype=np.uint8), counts, np.zeros(1, dtype=np.uint64))
        return counts


def of(work: Callable[..., object], boards: np.ndarray, **options: Any) -> Contender:
    """Work on all boards in one call."""
    return Contender(partial(work, boards, **options), len(boards))


def solving() -> Iterator[tuple[str, dict[str, Contender]]]:
    """Each set with each limit, tdoku beside it."""
    for name, boards in sets.items():
        for limit in (1, 2, 100) if name in loose else (1, 2):
            contenders = {"ours": of(solve_batch, boards, limit=limit)}
            if args.tdoku is not None:
                ended = np.full((len(boards), 82), ord("\n"), dtype=np.uint8)
                ended[:, :81] = np.where(boards == 0, ord("."), boards + ord("0"))
                assert (run_tdoku(ended, limit) == solve_batch(boards, limit=limit)[1]).all()
                contenders["tdoku"] = of(run_tdoku, ended, limit=limit)
            yield f"{name}, limit {limit}", contenders


table = report("Solving 9x9 puzzles", "ours", solving(), args.rounds, folder)


def threaded() -> Iterator[tuple[str, dict[str, Contender]]]:
    """Each set by one thread and by several; a tenth of a second of work."""
    for name, boards in sets.items():
        many = np.resize(boards, (int(table.loc[f"{name}, limit 2", "ours"] / 10), 81))
        yield (
            f"{name}, limit 2",
            {f"{threads} threads": of(solve_batch, many, limit=2, threads=threads) for threads in (1, args.threads)},
        )


report("Solving with several threads", f"{args.threads} threads", threaded(), args.rounds, folder)


def of_few_clues(size: int, wrong: bool) -> np.ndarray:
    """Boards of 0 to n²/3 clues; if `wrong`, a third get random digits in random cells until none can be completed."""
    few = generate(args.boards, size=size, clues=size * size, seed=args.seed).solutions.copy()
    order = random_generator.random(few.shape).argsort(1)
    few[order >= random_generator.integers(size * size // 3 + 1, size=(len(few), 1))] = 0
    if wrong:
        third = few[::3]
        while (right := completable(third)).any():
            for k in np.flatnonzero(right):
                third[k, random_generator.integers(size * size)] = random_generator.integers(1, size + 1)
    return few


def few_clues() -> Iterator[tuple[str, dict[str, Contender]]]:
    """Boards of few clues by size."""
    for size, wrong in product((4, 6, 9), (False, True)):
        boards = of_few_clues(size, wrong)
        both = {"completable": of(completable, boards), "solve_batch": of(solve_batch, boards)}
        yield f"{size}×{size}, a third wrong" if wrong else f"{size}×{size}", both


report("Boards of few clues", "completable", few_clues(), args.rounds, folder)

board, text = (first := next(iter(sets.values()))[0]), to_string(first)
one: dict[str, Callable[[], object]] = {
    "solve(array)": lambda: solve(board),
    "solve(text)": lambda: solve(text),
    "count_solutions(array)": lambda: count_solutions(board),
}
calls = {name: {"ours": Contender(partial(timeit, work, number=1000), 1000)} for name, work in one.items()}
installed = {name for name in ("sudoku", "sudokum", "reasoning_gym") if importlib.util.find_spec(name) is not None}
if "sudoku" in installed:
    from sudoku import Sudoku

    grid = [[int(digit) or None for digit in row] for row in board.reshape(9, 9)]
    calls["solve(array)"]["py-sudoku"] = Contender(lambda: Sudoku(3, 3, board=grid).solve(), 1)
if "sudokum" in installed:
    import sudokum

    calls["solve(array)"]["sudokum"] = Contender(lambda: sudokum.solve(board.reshape(9, 9).tolist()), 1)
report("One board per call", "ours", calls.items(), args.rounds, folder)

definite = {name: {"ours": of(definite_digits, boards)} for name, boards in sets.items()}
report("Forced cells by singles", "ours", definite.items(), args.rounds, folder)

made: dict[str, dict[str, Any]] = {
    "36 clues": {"clues": 36},
    "30 clues": {"clues": 30},
    "minimal": {"minimal": True},
    "36 clues, singles": {"clues": 36, "rule": "singles"},
    "30 clues, singles": {"clues": 30, "rule": "singles"},
}
generators = {
    name: {"ours": Contender(partial(generate, 2000, size=9, seed=args.seed, **options), 2000)}
    for name, options in made.items()
}
if "sudoku" in installed:
    peer = Contender(lambda: Sudoku(3, 3, seed=random.randrange(10**9)).difficulty(0.55), 1)
    generators["36 clues"]["py-sudoku"] = peer
if "reasoning_gym" in installed:
    import reasoning_gym

    data = reasoning_gym.create_dataset("sudoku", min_empty=45, max_empty=45, size=20, seed=args.seed)
    generators["36 clues"]["reasoning-gym"] = Contender(partial(itemgetter(*range(20)), data), 20)
report("Generating unique 9x9 puzzles", "ours", generators.items(), args.rounds, folder)
