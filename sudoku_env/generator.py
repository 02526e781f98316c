"""Seeded generator of puzzles with one solution, or with any number of them."""

import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from operator import index
from threading import Event

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from sudoku_env.answers import check_answers
from sudoku_env.board import Board, geometry
from sudoku_env.errors import BoardError
from sudoku_env.grids import reduced_grids
from sudoku_env.kernels.generate import FEWEST, GIVEN_UP, PUZZLE, Recipe, generate_range, new_bench
from sudoku_env.kernels.ladder_state import BACKBONE, HIDDEN_SINGLE, ladder_table, new_work
from sudoku_env.kernels.search_state import new_search
from sudoku_env.logic import RULE_GROUPS, rule_index
from sudoku_env.puzzles import Puzzles

DEFAULT_CLUES: dict[int, tuple[int, int]] = {4: (5, 7), 6: (14, 18), 9: (30, 36), 16: (140, 160)}
FEW_CLUES: dict[int, tuple[int, int]] = {4: (0, 3), 6: (0, 8), 9: (0, 20), 16: (0, 64)}
"""Where any answer is right; nearly all such boards have several solutions."""
BAR_DELAY = 3.0
CHUNK_SECONDS = 0.1
GUESSES = 20_000
"""What the searches of one attempt may use up (`LEFT` in `kernels.search_state`) before it is given up."""


def generate(
    n: int,
    *,
    size: int,
    clues: int | tuple[int, int] | None = None,
    minimal: bool = False,
    rule: str | None = None,
    exact: bool = False,
    answers: str = "one",
    seed: int,
    first: int = 0,
    threads: int = 1,
    attempts: int = 1000,
) -> Puzzles:
    """Random puzzles, each with exactly one solution, or with `answers="any"` with one or several.

    A random filled grid is thinned out, clue by clue in a random order, as long as the rule still solves it; if it
    does not come out as wanted, a new grid is drawn. Grids are uniform for sizes 4, 6 and 9: any two are equally likely
    (up to the 64 bits of the seed). Those of size 16 come from a randomized search that prefers no row, column, box or
    digit, so a grid and its images under the symmetries of Sudoku are equally likely, but others need not be. Solutions
    of puzzles are uniform only as far as no grid is passed over: what is hard to come by favors some grids. With
    `answers="any"` random cells of the grid are the clues, and it is the solution that is returned.

    Puzzle k depends on the seed, k and the other arguments, but on neither `n`, `first`, `threads` nor the machine: a
    larger `n` only appends, and `first` skips what comes before.

    Args:
        n: Number of puzzles.
        size: Board size, one of `SIZES`.
        clues: Number of filled cells, or an inclusive range from which it is drawn uniformly for each puzzle. None:
            `DEFAULT_CLUES[size]`, with `answers="any"` `FEW_CLUES[size]`, of which 0 is one; with `minimal` or `exact`
            whatever is left when nothing more can go.
        minimal: No clue can go without losing uniqueness. The rule then does not guide the thinning; minimal puzzles
            for which it or the number of clues is wrong are thrown away.
        rule: The hardest rule that a solution by logic may need: a name of `logic.RULES`, or a group of them
            (`logic.RULE_GROUPS`); "singles" stands for naked and hidden singles. None: one solution is enough.
        exact: The hardest rule needed is `rule` itself, or in that group.
        answers: "any" leaves it open how many solutions a puzzle has; `minimal`, `rule` and `exact`, which are about
            puzzles with one, do not go with it.
        seed: Any integer in [0, 2⁶⁴).
        first: Number of the first puzzle, in [0, 2⁶²).
        threads: Threads to share the work. Where it takes long a terminal shows a bar.
        attempts: Grids to try for a puzzle before giving up. One is passed over where the solver needs more than
            `GUESSES` guesses for its proofs, which happens on 16×16 below about 100 clues.

    Returns:
        The puzzles, not deduplicated.

    Raises:
        BoardError: An argument is out of range, arguments contradict each other, or `attempts` grids did not give such
            a puzzle; the message says how few clues were reached.
        SudokuError: `answers` is unknown.
        TypeError: A number is not an integer.
    """
    if check_answers(answers) == "any":
        if minimal or rule is not None or exact:
            raise BoardError('minimal, rule and exact are for answers="one"; leave them out with "any"')
        bounds = _clue_bounds(FEW_CLUES[geometry(size).size] if clues is None else clues, size, lowest=0)
        whole = {"size": size, "clues": size * size, "threads": threads, "attempts": attempts}
        grids = generate(n, seed=seed, first=first, **whole).solutions  # type: ignore[arg-type]
        return Puzzles(_random_clues(grids, bounds, index(seed), index(first)), grids)
    table = geometry(size)
    n, seed, first, threads, attempts = (index(number) for number in (n, seed, first, threads, attempts))
    if n < 0 or attempts < 1 or threads < 1 or not 0 <= seed < 2**64 or not 0 <= first < 2**62:
        raise BoardError(
            "need n >= 0, attempts >= 1, threads >= 1, 0 <= seed < 2**64 and 0 <= first < 2**62, "
            f"got {n}, {attempts}, {threads}, {seed} and {first}"
        )
    floor, ceiling = rule_bounds(rule, exact)
    if clues is None and not minimal and not exact:
        clues = DEFAULT_CLUES[size]
    recipe = Recipe(
        targets=_targets(clues, size),
        minimal=bool(minimal),
        floor=floor,
        ceiling=ceiling,
        reduced=reduced_grids(size),
        attempts=attempts,
        guesses=GUESSES,
    )
    with_ladder = floor > 0 or ceiling not in (HIDDEN_SINGLE, BACKBONE)
    boards = np.zeros((n, table.cells), dtype=np.uint8)
    solutions = np.zeros_like(boards)

    interrupted = Event()

    def work(begin: int, end: int) -> None:
        ladder = new_work(size) if with_ladder else None
        bench, search, part = new_bench(size), new_search(size), slice(begin, end)
        given = (np.uint64(seed), first + begin, recipe, ladder_table(size), ladder, bench, search)
        # Compiled code hears no interrupt: it works in turns, between which this looks whether there was one.
        turns, done = end - begin, False
        while not done and not interrupted.is_set():
            started = time.perf_counter()
            done = generate_range(turns, *given, boards[part], solutions[part])
            turns = _next_chunk(turns, time.perf_counter() - started)
        if done and bench.progress[PUZZLE] < end - begin:
            raise BoardError(failure(first + begin + bench.progress[PUZZLE], bench.progress))

    def failure(number: int, progress: NDArray[np.int64]) -> str:
        reached = f"the fewest clues that one came to were {progress[FEWEST]}"
        if given_up := progress[GIVEN_UP]:
            reached += f", and {given_up} attempts were given up, each after {GUESSES:,} guesses of the solver"
        too_many = minimal and progress[FEWEST] < min(recipe.targets, default=0)
        return (
            f"no {size}×{size} puzzle in {attempts} attempts (puzzle {number}, clues {clues!r}, minimal {minimal}, "
            f"rule {rule!r}, exact {exact}): {reached}; "
            f"ask for {'fewer clues' if too_many else 'more clues or less else'}, or raise attempts"
        )

    with tqdm(total=n, unit="puzzle", delay=BAR_DELAY, disable=None) as bar:
        _work_in_chunks(work, n, threads, bar.update, interrupted)
    return Puzzles(boards, solutions)


def _work_in_chunks(
    work: Callable[[int, int], None], n: int, threads: int, report: Callable[[int], object], interrupted: Event
) -> None:
    """Call `work(begin, end)` on ranges that make up 0..n, of about `CHUNK_SECONDS` each; report their sizes.

    Where one of several threads fails, or Ctrl-C ends the call, `interrupted` is set for what still runs.
    """

    def timed(begin: int, end: int) -> tuple[int, float]:
        started = time.perf_counter()
        work(begin, end)
        return end - begin, time.perf_counter() - started

    chunk, begin = 1, 0
    if threads == 1:
        while begin < n:
            count, seconds = timed(begin, min(begin + chunk, n))
            begin += count
            chunk = _next_chunk(chunk, seconds)
            report(count)
        return
    with ThreadPoolExecutor(threads) as pool:
        running: set[Future[tuple[int, float]]] = set()
        try:
            while begin < n or running:
                while begin < n and len(running) < threads:
                    end = min(begin + chunk, n)
                    running.add(pool.submit(timed, begin, end))
                    begin = end
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    count, seconds = future.result()
                    chunk = _next_chunk(count, seconds)
                    report(count)
        except BaseException:
            interrupted.set()
            raise


def _next_chunk(count: int, seconds: float) -> int:
    if seconds < CHUNK_SECONDS / 2:
        return 2 * count
    return max(1, count // 2) if seconds > 2 * CHUNK_SECONDS else count


def rule_bounds(rule: str | None, exact: bool) -> tuple[int, int]:
    """The easiest and the hardest rule that may be the hardest one needed, as indices in `logic.RULES`.

    Raises:
        BoardError: The rule is unknown, or `exact` comes without one.
    """
    if rule is None:
        if exact:
            raise BoardError("exact=True needs a rule; name the hardest one that the puzzles need")
        return 0, BACKBONE
    hardest = rule_index(rule)
    if not exact:
        return 0, hardest
    if rule not in RULE_GROUPS:
        return hardest, hardest
    groups = [rule_index(group) for group in RULE_GROUPS]
    return max([group + 1 for group in groups if group < hardest], default=0), hardest


def _targets(clues: int | tuple[int, int] | None, size: int) -> NDArray[np.int64]:
    """The numbers of clues to draw from, int64 `(T,)`; empty for as few as possible."""
    if clues is None:
        return np.zeros(0, dtype=np.int64)
    low, high = _clue_bounds(clues, size, lowest=1)
    return np.arange(low, high + 1, dtype=np.int64)


def _clue_bounds(clues: int | tuple[int, int], size: int, lowest: int) -> tuple[int, int]:
    """The fewest and the most clues that are asked for, within `lowest`..n²."""
    bounds = (clues, clues) if isinstance(clues, int | np.integer) else tuple(clues)
    if (
        len(bounds) != 2
        or not all(isinstance(bound, int | np.integer) for bound in bounds)
        or not lowest <= bounds[0] <= bounds[1] <= size * size
    ):
        raise BoardError(f"clues {clues!r} is not a number or a range (low, high) within {lowest}..{size * size}")
    return bounds[0], bounds[1]


def _random_clues(grids: Board, bounds: tuple[int, int], seed: int, first: int) -> Board:
    """Random cells of grids `(N, n²)`, uint8 of the same shape; of grid k by the seed and `first` + k."""
    boards = np.zeros_like(grids)
    for k, grid in enumerate(grids):
        rng = np.random.default_rng([seed, first + k])
        cells = rng.permutation(grid.size)[: rng.integers(bounds[0], bounds[1] + 1)]
        boards[k, cells] = grid[cells]
    return boards
