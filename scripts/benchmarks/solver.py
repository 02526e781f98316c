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
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

from llm_rl.training import need_file, need_reports, need_writable, parse, user_errors
from scripts.benchmarks.work import Contender, race, report
from sudoku_env import (
    completable,
    count_solutions,
    definite_digits,
    generate,
    solve,
    solve_batch,
    to_string,
)
from sudoku_env.board import geometry
from sudoku_env.kernels.general import search_batch
from sudoku_env.kernels.nine import count9_batch
from sudoku_env.kernels.search_state import LEFT, new_search
from sudoku_env.reading import read_boards


@dataclass
class SolverBenchmarkArguments:
    """Arguments of `scripts/benchmarks/solver.py`."""

    puzzles: list[str] = field(
        default_factory=lambda: [str(path) for path in sorted(Path("tests/data").glob("*.txt"))],
        metadata={"help": "Files of 9×9 puzzles, one packed puzzle a line."},
    )
    tdoku: str | None = field(default=None, metadata={"help": "A shared library of tdoku."})
    boards: int = field(
        default=5000, metadata={"help": "Boards of a set: the first ones, repeated if there are fewer."}
    )
    rounds: int = field(default=11, metadata={"help": "Timed rounds of each measurement."})
    threads: int = field(default=2, metadata={"help": "Threads to compare with one."})
    seed: int = field(default=0, metadata={"help": "Random seed of generated puzzles and removed clues."})
    output_dir: str = field(default="runs/benchmark_solver", metadata={"help": "Folder for CSV files and charts."})


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


rows: list[dict[str, object]] = []
for name, boards in sets.items():
    for limit in (1, 2, 100) if name in loose else (1, 2):
        contenders = {"ours": Contender(partial(solve_batch, boards, limit=limit), len(boards))}
        if args.tdoku is not None:
            ended = np.full((len(boards), 82), ord("\n"), dtype=np.uint8)
            ended[:, :81] = np.where(boards == 0, ord("."), boards + ord("0"))
            assert (run_tdoku(ended, limit) == solve_batch(boards, limit=limit)[1]).all()
            contenders["tdoku"] = Contender(partial(run_tdoku, ended, limit), len(boards))
        rows.append({"task": f"{name}, limit {limit}", **race(contenders, args.rounds)})
table = report(rows, "ours", "Solving 9x9 puzzles", folder)

started_threads = ThreadPoolExecutor(args.threads)


def run_bare_kernels(many: np.ndarray) -> None:
    """The compiled loop in each of the threads, started already, on a part of the boards: what they can do at most."""
    parts = np.array_split(many, args.threads)
    outputs = [(np.zeros_like(part), np.zeros(len(part), dtype=np.int64)) for part in parts]
    searches = [new_search(9) for _ in parts]
    for search in searches:
        search.state[LEFT] = np.iinfo(np.int64).max
    list(
        started_threads.map(
            lambda part, output, search: count9_batch(0, part, 2, *output, search.words, search.state),
            parts,
            outputs,
            searches,
        )
    )


rows = []
for name, boards in sets.items():
    tenth_of_a_second = int(table.loc[f"{name}, limit 2", "ours"] / 10)
    many = np.resize(boards, (tenth_of_a_second, 81))
    contenders = {
        f"{threads} threads": Contender(partial(solve_batch, many, limit=2, threads=threads), len(many))
        for threads in (1, args.threads)
    }
    contenders[f"{args.threads} bare kernels"] = Contender(partial(run_bare_kernels, many), len(many))
    rows.append({"task": f"{name}, limit 2", **race(contenders, args.rounds)})
started_threads.shutdown()
report(rows, f"{args.threads} threads", "Solving with several threads", folder)


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


def run_general_search(size: int, boards: np.ndarray) -> np.ndarray:
    """Numbers of solutions, at most one each, by the search for any size."""
    table, search, counts = geometry(size), new_search(size), np.zeros(len(boards), dtype=np.int64)
    search.state[LEFT] = np.iinfo(np.int64).max
    search_batch(0, boards, table.units, table.units_of, 1, np.zeros_like(boards), counts, search)
    return counts


rows = []
for size in (4, 6, 9):
    for wrong in (False, True):
        boards = of_few_clues(size, wrong)
        contenders = {
            "completable": Contender(partial(completable, boards), len(boards)),
            "solve_batch": Contender(partial(solve_batch, boards), len(boards)),
        }
        if size != 9:
            assert (run_general_search(size, boards) == completable(boards)).all()
            contenders["general search"] = Contender(partial(run_general_search, size, boards), len(boards))
        name = f"{size}×{size}, a third wrong" if wrong else f"{size}×{size}"
        rows.append({"task": name, **race(contenders, args.rounds)})
report(rows, "completable", "Boards of few clues", folder)


def repeat(work: Callable[[], object], times: int) -> None:
    """Call work that takes no arguments so many times."""
    for _ in range(times):
        work()


easy = next(iter(sets.values()))
board, text = easy[0], to_string(easy[0])
one: dict[str, Callable[[], object]] = {
    "solve(array)": lambda: solve(board),
    "solve(text)": lambda: solve(text),
    "count_solutions(array)": lambda: count_solutions(board),
}
rows = []
for name, work in one.items():
    calls = Contender(partial(repeat, work, 1000), 1000)
    rows.append({"task": name, "ours": race({"ours": calls}, args.rounds)["ours"]})
if importlib.util.find_spec("sudoku") is not None:
    from sudoku import Sudoku

    grid = [[int(digit) or None for digit in row] for row in board.reshape(9, 9)]
    peer = Contender(lambda: Sudoku(3, 3, board=grid).solve(), 1)
    rows[0]["py-sudoku"] = race({"peer": peer}, args.rounds)["peer"]
if importlib.util.find_spec("sudokum") is not None:
    import sudokum

    peer = Contender(lambda: sudokum.solve(board.reshape(9, 9).tolist()), 1)
    rows[0]["sudokum"] = race({"peer": peer}, args.rounds)["peer"]
report(rows, "ours", "One board per call", folder)

rows = []
for name, boards in sets.items():
    ours = Contender(partial(definite_digits, boards), len(boards))
    rows.append({"task": name, "ours": race({"ours": ours}, args.rounds)["ours"]})
report(rows, "ours", "Forced cells by singles", folder)

made: dict[str, dict[str, Any]] = {
    "36 clues": {"clues": 36},
    "30 clues": {"clues": 30},
    "minimal": {"minimal": True},
    "36 clues, singles": {"clues": 36, "rule": "singles"},
    "30 clues, singles": {"clues": 30, "rule": "singles"},
}
rows = []
for name, options in made.items():
    contenders = {"ours": Contender(partial(generate, 2000, size=9, seed=args.seed, **options), 2000)}
    if name == "36 clues" and importlib.util.find_spec("sudoku") is not None:
        contenders["py-sudoku"] = Contender(lambda: Sudoku(3, 3, seed=random.randrange(10**9)).difficulty(0.55), 1)
    if name == "36 clues" and importlib.util.find_spec("reasoning_gym") is not None:
        import reasoning_gym

        data = reasoning_gym.create_dataset("sudoku", min_empty=45, max_empty=45, size=20, seed=args.seed)
        contenders["reasoning-gym"] = Contender(partial(itemgetter(*range(20)), data), 20)
    rows.append({"task": name, **race(contenders, args.rounds)})
report(rows, "ours", "Generating unique 9x9 puzzles", folder)
