"""Commands that need the engine alone: `solve`, `generate`, `rate` and `explain`."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from sudoku_env.board import SIZES, Board, format_board, parse_board, to_string
from sudoku_env.explanation import explain as steps_of
from sudoku_env.generator import SYMMETRIES
from sudoku_env.generator import generate as new_puzzles
from sudoku_env.logic import RULE_GROUPS, RULES
from sudoku_env.rating import rate as rating_of
from sudoku_env.solver import count_solutions
from sudoku_env.solver import solve as solution_of

ANY_RULE = "backbone"
"""The rule of `rate` and `explain` that solves whatever has one solution."""


def add_puzzles(parser: argparse.ArgumentParser) -> None:
    """The argument that holds puzzles."""
    parser.add_argument(
        "puzzles",
        nargs="+",
        metavar="PUZZLE",
        help="cells row by row with dots for blanks (53..7….), a file with one puzzle a line, or - for standard input",
    )


def puzzles_in(words: list[str]) -> Iterator[Board]:
    """The boards that the arguments give, files line by line.

    Raises:
        BoardError: A text is no board; the message says which cell or count is at fault.
    """
    for word in words:
        if word == "-":
            lines = sys.stdin.read().splitlines()
        elif Path(word).is_file():
            lines = Path(word).read_text(encoding="utf-8").splitlines()
        elif Path(word).suffix and not set(Path(word).suffix) <= set(".0123456789ABCDEFG"):
            raise FileNotFoundError(f"there is no file {word}")
        else:
            lines = [word]
        boards = (line.split("#")[0] for line in lines)
        yield from (parse_board(text) for text in boards if text.strip())


def add_solve(parser: argparse.ArgumentParser) -> None:
    """Options of `solve`."""
    add_puzzles(parser)
    parser.add_argument("--grid", action="store_true", help="print grids instead of one line a puzzle")


def solve(args: argparse.Namespace) -> int:
    """Print the only solution of each puzzle."""
    failed = False
    for board in puzzles_in(args.puzzles):
        solutions = count_solutions(board, limit=2)
        if solutions == 1:
            found = solution_of(board)
            assert found is not None
            print(format_board(found) + "\n" if args.grid else to_string(found))
        else:
            failed = True
            print("no solution" if solutions == 0 else "more than one solution")
    return int(failed)


def add_generate(parser: argparse.ArgumentParser) -> None:
    """Options of `generate`."""
    parser.add_argument("--count", type=int, default=1, help="how many puzzles (%(default)s)")
    parser.add_argument("--size", type=int, default=9, choices=SIZES, help="rows of the board (%(default)s)")
    parser.add_argument(
        "--clues",
        type=int,
        nargs="+",
        metavar="N",
        help="filled cells, or the least and the most (as usual for the size)",
    )
    parser.add_argument(
        "--rule",
        choices=[*RULES, *RULE_GROUPS],
        metavar="RULE",
        help=f"hardest rule that a solution may need: {', '.join([*RULE_GROUPS, *RULES])} (one solution is enough)",
    )
    parser.add_argument("--exact", action="store_true", help="a solution needs --rule")
    parser.add_argument("--minimal", action="store_true", help="no clue can go")
    parser.add_argument("--symmetry", choices=SYMMETRIES, help="symmetry of the pattern of clues")
    parser.add_argument("--seed", type=int, default=0, help="the same seed gives the same puzzles (%(default)s)")
    parser.add_argument("--solutions", action="store_true", help="CSV with the columns puzzle and solution")
    parser.add_argument("--grid", action="store_true", help="print grids instead of one line a puzzle")


def generate(args: argparse.Namespace) -> int:
    """Print new puzzles."""
    if args.clues is not None and len(args.clues) > 2:
        raise ValueError(f"--clues {' '.join(map(str, args.clues))}: give one number, or the least and the most")
    made = new_puzzles(
        args.count,
        size=args.size,
        clues=args.clues if args.clues is None else args.clues[0] if len(args.clues) == 1 else tuple(args.clues),
        minimal=args.minimal,
        rule=args.rule,
        exact=args.exact,
        symmetry=args.symmetry,
        seed=args.seed,
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
    failed = False
    for board in puzzles_in(args.puzzles):
        found = rating_of(board, ANY_RULE)
        failed |= not found.solved
        uses = ", ".join(f"{rule} {count}" for rule, count in found.uses.items())
        print(f"{found.rule}, {found.steps} steps: {uses}" if found.solved else "not exactly one solution")
    return int(failed)


def add_explain(parser: argparse.ArgumentParser) -> None:
    """Options of `explain`."""
    add_puzzles(parser)
    parser.add_argument("--steps", type=int, help="only the first so many (all)")


def explain(args: argparse.Namespace) -> int:
    """Print a solution by logic, step by step, and the grid that it ends with."""
    failed = False
    for board in puzzles_in(args.puzzles):
        steps = steps_of(board, ANY_RULE)
        for number, step in enumerate(steps[: args.steps], start=1):
            print(f"{number:3d}. {step}")
        filled = board.copy()
        for step in steps:
            if step.cell is not None and step.digit is not None:
                filled[step.cell] = step.digit
        if args.steps is None or args.steps >= len(steps):
            failed |= not filled.all()
            print(f"\n{format_board(filled)}\n" if filled.all() else "no rule leads on: not exactly one solution")
    return int(failed)
