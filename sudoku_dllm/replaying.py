"""A decode in the terminal, and the command `replay`, which plays those that a run has kept."""

import argparse
import sys
import time
from pathlib import Path

import numpy as np

from sudoku_dllm.options import seconds, whole
from sudoku_dllm.run_page.page import PAGE, read_replays
from sudoku_env.board import Board, cell_name, size_of
from sudoku_env.envs.progress import BoardView
from sudoku_env.envs.rendering import render_ansi, trace_views

MOST_NAMED = 4  # cells of a pass
CLEAR = "\x1b[2J\x1b[H"


def add_delay(parser: argparse.ArgumentParser) -> None:
    """The option that says how fast."""
    parser.add_argument(
        "--delay", type=seconds, default=0.4, help="seconds between two passes, on a terminal (%(default)s)"
    )


def add_replay(parser: argparse.ArgumentParser) -> None:
    """Options of `replay`."""
    parser.add_argument("run", type=Path, metavar="RUN", help=f"run folder that holds {PAGE}, or such a file")
    parser.add_argument("--number", type=whole(1), help="which decode, from 1; without it all are played")
    add_delay(parser)


def replay(args: argparse.Namespace) -> int:
    """Print each pass of the decodes of a run."""
    path = args.run / PAGE if args.run.is_dir() else args.run
    if not path.is_file():
        raise FileNotFoundError(f"there is no {path}; give the folder of a run that has ended")
    try:
        replays = read_replays(path)
    except (ValueError, KeyError, TypeError):
        raise ValueError(
            f"{path} is no page of a run, or is damaged; give the folder of a run that has ended"
        ) from None
    if not replays:
        raise ValueError(f"{path} holds no decodes; those of puzzles are kept by train and scripts.benchmarks.decoding")
    if args.number is not None and args.number > len(replays):
        raise ValueError(f"--number {args.number}: {path} holds decodes 1 to {len(replays)}")
    for number, one in enumerate(replays, start=1):
        if args.number in (None, number):
            print(f"{number}. {one.title}\n")
            show(np.array(one.boards, dtype=np.uint8), np.array(one.solution, dtype=np.uint8), args.delay)
    return 0


def show(boards: Board, solution: Board | None, delay: float) -> bool:
    """Print a decode, and say whether it ended right.

    Args:
        boards: uint8 `(K + 1, n²)`, the puzzle and the board after each of K passes.
        solution: uint8 `(n²,)`; None where any valid grid is right.
        delay: Seconds between two passes, where the output is a terminal.
    """
    terminal = sys.stdout.isatty()
    views = trace_views(boards, solution)
    for number, view in enumerate(views):
        title = f"pass {number} of {len(views) - 1}: {news(view, boards, number)}" if number else "the puzzle"
        print(f"{CLEAR if terminal else ''}{title}\n\n{render_ansi(view, color=terminal)}\n", flush=True)
        if terminal:
            time.sleep(delay)
    wrong, blank = views[-1].wrong, boards[-1] == 0
    if not (wrong | blank).any():
        print(f"solved in {len(views) - 1} forward passes")
        return True
    how = ("clash", "are blank") if solution is None else ("are wrong", "blank")
    print(f"{(wrong | blank).sum()} of {wrong.size} cells {' or '.join(how[: 1 + blank.any()])}")
    return False


def news(view: BoardView, boards: Board, number: int) -> str:
    """What a pass filled, and whether that was definite, not definite yet, or wrong; of many cells their numbers."""
    filled = (boards[number] != boards[number - 1]).nonzero()[0]
    how = ["wrong" if view.wrong[cell] else "not definite yet" if view.guessed[cell] else "definite" for cell in filled]
    if len(filled) > MOST_NAMED:
        told = [f"{how.count(kind)} {kind}" for kind in ("definite", "not definite yet", "wrong") if kind in how]
        return f"{len(filled)} cells, {', '.join(told)}"
    size = size_of(view.board.size)
    named = [
        f"{cell_name(c, size)} is {boards[number][c]} ({kind})" for c, kind in zip(filled.tolist(), how, strict=True)
    ]
    return ", ".join(named) or "the rest of the answer"
