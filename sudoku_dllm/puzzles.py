"""Commands that need the engine alone: `solve`, `generate`, `rate` and `explain`."""

import argparse
import os
import sys
from pathlib import Path

from sudoku_dllm.options import LARGEST_SEED, whole
from sudoku_env.board import SIZES, Board, format_board, parse_board, to_string
from sudoku_env.errors import BoardError
from sudoku_env.explanation import explain as steps_of
from sudoku_env.generator import SYMMETRIES
from sudoku_env.generator import generate as new_puzzles
from sudoku_env.logic import RULE_GROUPS, RULES
from sudoku_env.rating import rate as rating_of
from sudoku_env.solver import count_solutions
from sudoku_env.solver import solve as solution_of

ANY_RULE = "backbone"
"""The rule of `rate` and `explain` that solves whatever has one solution."""
WANTED = "give cells row by row with dots for blanks (53..7….), a file with one puzzle a line, or - for standard input"
MOST_PUZZLES = 10_000_000
"""Puzzles that `generate` makes at a time: they are kept until all are there."""


def add_puzzles(parser: argparse.ArgumentParser) -> None:
    """The argument that holds puzzles."""
    parser.add_argument(
        "puzzles",
        nargs="+",
        metavar="PUZZLE",
        help=WANTED.removeprefix("give "),
    )


def puzzles_in(words: list[str]) -> list[Board]:
    """The boards that the arguments give, files line by line; a byte order mark at the beginning is passed over.

    Raises:
        ValueError: A word is empty, a file holds no puzzle or is no text.
        BoardError: A text is no board; the message says where it stands, and which cell or count is at fault.
        OSError: A file is a folder or cannot be read.
    """
    boards = []
    for word in words:
        if not word.strip():
            raise ValueError(f"PUZZLE is {word!r}, which holds no cell; {WANTED}")
        if word == "-" or os.path.exists(word):
            boards += _boards_of_file(word)
        else:
            boards.append(_board(word, f"there is no file {word}, and it is no board"))
    return boards


def _boards_of_file(word: str) -> list[Board]:
    name = "standard input" if word == "-" else word
    if os.path.isdir(word):
        raise IsADirectoryError(f"{name} is a folder; {WANTED}")
    try:
        text = sys.stdin.read() if word == "-" else Path(word).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{name} is no text in UTF-8 ({error.reason} at byte {error.start + 1}); {WANTED}") from None
    lines = [line.partition("#")[0] for line in text.removeprefix("\ufeff").splitlines()]
    boards = [
        _board(line, f"{name}, line {number}, which must be a whole puzzle")
        for number, line in enumerate(lines, 1)
        if line.strip()
    ]
    if not boards:
        raise ValueError(f"{name} holds no puzzle; {WANTED}")
    return boards


def _board(text: str, where: str) -> Board:
    try:
        return parse_board(text)
    except BoardError as error:
        raise BoardError(f"{where}: {error}") from None


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
    parser.add_argument("--count", type=whole(1, MOST_PUZZLES), default=1, help="how many puzzles (%(default)s)")
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
        symmetry=args.symmetry,
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
    parser.add_argument("--steps", type=whole(1), help="only the first so many (all)")


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
