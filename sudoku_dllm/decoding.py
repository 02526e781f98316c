"""The command `decode`: a masked-diffusion model fills a puzzle before your eyes."""

import argparse
import sys
import time

import torch
from transformers.utils import logging

from dllm_rl.decode import decode as decode_problems
from dllm_rl.policy import PolicyConfig
from dllm_rl.shipped import load, shipped_models
from dllm_rl.strategies import STRATEGIES, get_strategy
from dllm_rl.sudoku import SudokuTask
from sudoku_dllm.puzzles import add_puzzles, puzzles_in
from sudoku_env.board import Board, cell_name, size_of
from sudoku_env.envs.progress import BoardView
from sudoku_env.envs.rendering import render_ansi, trace_views
from sudoku_env.prompts.text import build_prompt
from sudoku_env.prompts.tokens import pre_fill

CLEAR = "\x1b[2J\x1b[H"


def add_decode(parser: argparse.ArgumentParser) -> None:
    """Options of `decode`."""
    add_puzzles(parser)
    parser.add_argument(
        "--model",
        default=shipped_models()[0],
        help=f"{', '.join(shipped_models())}, a folder that a training wrote, or owner/name on the hub (%(default)s)",
    )
    parser.add_argument("--strategy", default="margin", help=f"one of {', '.join(STRATEGIES)} (%(default)s)")
    parser.add_argument(
        "--tokens_per_step", type=int, default=1, help="positions filled from one forward pass (%(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of strategies that draw (%(default)s)")
    parser.add_argument(
        "--delay", type=float, default=0.4, help="seconds between two passes, on a terminal (%(default)s)"
    )
    parser.add_argument("--max_gen_length", type=int, help="tokens of the answer (four more than there are cells)")
    parser.add_argument(
        "--template", default="compact", help="wording of the prompt: rules, short or compact (%(default)s)"
    )


def decode(args: argparse.Namespace) -> int:
    """Print each pass of each decode, one over the other on a terminal, and whether the puzzle was solved."""
    logging.disable_progress_bar()
    strategy, (model, tokenizer) = get_strategy(args.strategy), load(args.model)
    task = SudokuTask(tokenizer.pad_token_id, tokenizer.eos_token_id)
    failed = False
    for board in puzzles_in(args.puzzles):
        prompt = build_prompt(board, args.template)
        batch = task.batch([pre_fill(prompt, tokenizer, args.max_gen_length or board.size + 4)])
        generator = torch.Generator().manual_seed(args.seed)
        record = decode_problems(
            model, batch, strategy, tokens_per_step=args.tokens_per_step, policy=PolicyConfig(), generator=generator
        )
        show(batch.boards(record.states_of(0)), batch.layout.solution, args.delay)
        failed |= not bool((record.right == record.judged).all())
    return int(failed)


def show(boards: Board, solution: Board, delay: float) -> None:
    """Print a decode.

    Args:
        boards: uint8 `(K + 1, n²)`, the puzzle and the board after each of K passes.
        solution: uint8 `(n²,)`.
        delay: Seconds between two passes, where the output is a terminal.
    """
    terminal = sys.stdout.isatty()
    views = trace_views(boards, solution)
    for number, view in enumerate(views):
        title = f"pass {number} of {len(views) - 1}: {news(view, boards, number)}" if number else "the puzzle"
        print(f"{CLEAR if terminal else ''}{title}\n\n{render_ansi(view, color=terminal)}\n", flush=True)
        if terminal:
            time.sleep(delay)
    wrong = int((boards[-1] != solution).sum())
    print(f"solved in {len(views) - 1} forward passes" if not wrong else f"{wrong} of {solution.size} cells are wrong")


def news(view: BoardView, boards: Board, number: int) -> str:
    """What a pass filled, and whether that was definite, not definite yet, or wrong."""
    filled = (boards[number] != boards[number - 1]).nonzero()[0]
    told = []
    for cell in filled.tolist():
        how = "wrong" if view.wrong[cell] else "not definite yet" if view.guessed[cell] else "definite"
        told.append(f"{cell_name(cell, size_of(view.board.size))} is {boards[number][cell]} ({how})")
    return ", ".join(told) or "the rest of the answer"
