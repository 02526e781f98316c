"""Commands that need the engine alone: `solve`, `generate`, `rate` and `explain`."""

import argparse
import os
import sys

from sudoku_dllm.options import LARGEST_SEED, whole
from sudoku_env.board import SIZES, SYMBOLS, Board, format_board, to_string
from sudoku_env.errors import PuzzleParseError
from sudoku_env.explanation import explain as steps_of
from sudoku_env.generator import generate as new_puzzles
from sudoku_env.logic import RULE_GROUPS, RULES
from sudoku_env.rating import rate as rating_of
from sudoku_env.reading import BoardList, boards_in, read_boards
from sudoku_env.records import DIGITS, WANTED
from sudoku_env.solver import count_solutions
from sudoku_env.solver import solutions as solutions_of

ANY_RULE = "backbone"
"""The rule of `rate` and `explain` that solves whatever has one solution."""
SHOWN = 60
"""Characters of a word that a message shows."""
COUNTED = 1_000_000
"""How many solutions of a puzzle `solve --all` counts."""
SHOWN_SOLUTIONS = 1000
MOST_PUZZLES = 10_000_000
"""Puzzles that `generate` makes at a time: they are kept until all are there."""


def add_puzzles(parser: argparse.ArgumentParser) -> None:
    """The argument that holds puzzles, and how they are read."""
    parser.add_argument("puzzles", nargs="+", metavar="PUZZLE", help=f"{WANTED.removeprefix('give ')}; - reads stdin")
    parser.add_argument("--size", type=int, choices=SIZES, help="rows of the boards, where their cells do not tell it")
    parser.add_argument("--symbols", choices=DIGITS, help="what the digits are written as (what fits)")
    parser.add_argument("--skip_bad", action="store_true", help="leave out what is no puzzle, and say so")


def puzzles_in(args: argparse.Namespace) -> tuple[list[Board], list[str], bool]:
    """The boards that the arguments give, what the digits of each are written as, and whether any was left out.

    What a file held is said on standard error.

    Raises:
        ValueError: A word is empty.
        PuzzleParseError: A word is no board and no file, or `read_boards` refuses the file; of several words
            `--skip_bad` leaves it out.
        OSError: A file is a folder or cannot be read.
    """
    boards: list[Board] = []
    symbols: list[str] = []
    faults = 0
    how = {"size": args.size, "symbols": args.symbols, "skip_bad": args.skip_bad}
    for word in args.puzzles:
        if not word.strip():
            raise ValueError(f"PUZZLE is {word!r}, which holds no cell; {WANTED}")
        shown = word if len(word) <= SHOWN else f"{word[:SHOWN]}…"
        try:
            if word == "-":
                name, found = "standard input", boards_in(sys.stdin.read(), "standard input", **how)
            elif os.path.exists(word):
                name, found = word, read_boards(word, **how)
            else:
                name, found = "", boards_in(word, f"there is no file {shown}; as a puzzle", **how)
        except PuzzleParseError as error:
            if not args.skip_bad or len(args.puzzles) == 1:
                raise
            name, found = "", BoardList([], [], [], "", [], [str(error)])
        for told in [*found.faults, *([f"{name}: {found}"] if name else [])]:
            print(f"sudoku-dllm: {' '.join(told.split())}", file=sys.stderr)
        boards += found.boards
        symbols += [found.symbols] * len(found.boards)
        faults += len(found.faults)
    return boards, symbols, faults > 0


def add_solve(parser: argparse.ArgumentParser) -> None:
    """Options of `solve`."""
    add_puzzles(parser)
    parser.add_argument("--grid", action="store_true", help="print grids instead of one line a puzzle")
    parser.add_argument("--all", action="store_true", help=f"print every solution and their number, up to {COUNTED:,}")
    parser.add_argument("--limit", type=whole(1), help=f"with --all, the most to print ({SHOWN_SOLUTIONS:,})")


def solve(args: argparse.Namespace) -> int:
    """Print the only solution of each puzzle, or with `--all` each one and their number."""
    if args.limit is not None and not args.all:
        raise ValueError(f"--limit {args.limit} is for --all, which prints every solution; add --all, or leave it out")
    boards, symbols, failed = puzzles_in(args)
    shown = args.limit or SHOWN_SOLUTIONS
    for board, digits in zip(boards, symbols, strict=True):
        found = solutions_of(board, shown) if args.all else list(solutions_of(board, 2))
        if isinstance(found, list) and len(found) != 1:
            print("more than one solution" if found else "no solution")
            failed, found = True, []
        for solution in found:
            print(format_board(solution, symbols=digits) + "\n" if args.grid else to_string(solution, symbols=digits))
        if args.all:
            count = count_solutions(board, limit=COUNTED + 1)
            told = f"{'more than ' * (count > COUNTED)}{min(count, COUNTED):,} solution{'s' * (count != 1)}"
            print(f"{told}{f', {shown:,} shown; raise --limit for more' * (count > shown)}", file=sys.stderr)
            failed |= count == 0
    return int(failed)


def add_generate(parser: argparse.ArgumentParser) -> None:
    """Options of `generate`."""
    parser.add_argument("--count", type=whole(1, MOST_PUZZLES), default=1, help="how many puzzles (%(default)s)")
    parser.add_argument("--size", type=int, default=9, choices=SIZES, help="rows of the board (%(default)s)")
    parser.add_argument(
        "--clues", type=int, nargs="+", metavar="N", help="filled cells, or the least and the most (usual for the size)"
    )
    parser.add_argument(
        "--rule",
        choices=[*RULES, *RULE_GROUPS],
        metavar="RULE",
        help=f"hardest rule that a solution may need: {', '.join([*RULE_GROUPS, *RULES])} (one solution is enough)",
    )
    parser.add_argument("--exact", action="store_true", help="a solution needs --rule")
    parser.add_argument("--minimal", action="store_true", help="no clue can go")
    parser.add_argument(
        "--seed", type=whole(0, LARGEST_SEED), default=0, help="the same seed gives the same puzzles (%(default)s)"
    )
    parser.add_argument(
        "--attempts", type=whole(1), default=1000, help="grids to try for a puzzle before giving up (%(default)s)"
    )
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--solutions", action="store_true", help="CSV with the columns puzzle and solution")
    shown.add_argument("--grid", action="store_true", help="print grids instead of one line a puzzle")


def generate(args: argparse.Namespace) -> int:
    """Print new puzzles."""
    if args.clues is not None and len(args.clues) > 2:
        raise ValueError(f"--clues {' '.join(map(str, args.clues))}: give one number, or the least and the most")
    if args.exact and args.rule is None:
        raise ValueError("--exact needs --rule, the hardest rule that the puzzles need")
    made = new_puzzles(
        args.count,
        size=args.size,
        clues=args.clues if args.clues is None else args.clues[0] if len(args.clues) == 1 else tuple(args.clues),
        minimal=args.minimal,
        rule=args.rule,
        exact=args.exact,
        seed=args.seed,
        attempts=args.attempts,
    )
    if args.solutions:
        print("puzzle,solution")
    for board, solution in zip(made.boards, made.solutions, strict=True):
        text = to_string(board)
        print(f"{text},{to_string(solution)}" if args.solutions else format_board(board) + "\n" if args.grid else text)
    return 0


def add_rate(parser: argparse.ArgumentParser) -> None:
    """Options of `rate`."""
    add_puzzles(parser)


def rate(args: argparse.Namespace) -> int:
    """Print the hardest rule that each puzzle needs, the number of steps, and how often each rule was used."""
    boards, _, failed = puzzles_in(args)
    for board in boards:
        found = rating_of(board, ANY_RULE)
        failed |= not found.solved
        uses = ", ".join(f"{rule} {count}" for rule, count in found.uses.items())
        print(f"{found.rule}, {found.steps} steps: {uses}" if found.solved else "not exactly one solution")
    return int(failed)


def add_explain(parser: argparse.ArgumentParser) -> None:
    """Options of `explain`."""
    add_puzzles(parser)
    parser.add_argument("--steps", type=whole(1), help="only the first so many (all)")


def explain(args: argparse.Namespace) -> int:
    """Print a solution by logic, step by step, and the grid that it ends with."""
    boards, symbols, failed = puzzles_in(args)
    for board, digits in zip(boards, symbols, strict=True):
        steps = steps_of(board, ANY_RULE)
        if digits != SYMBOLS:
            print(f"sudoku-dllm: the steps name digits by number, from {digits[0]} as 1 on", file=sys.stderr)
        for number, step in enumerate(steps[: args.steps], start=1):
            print(f"{number:3d}. {step}")
        filled = board.copy()
        for step in steps:
            if step.cell is not None and step.digit is not None:
                filled[step.cell] = step.digit
        if args.steps is None or args.steps >= len(steps):
            failed |= not filled.all()
            grid = f"\n{format_board(filled, symbols=digits)}\n"
            print(grid if filled.all() else "no rule leads on: not exactly one solution")
    return int(failed)
