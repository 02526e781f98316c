"""The command `decode`: a masked-diffusion model fills a puzzle before your eyes."""

import argparse

import torch
from transformers.utils import logging

from dllm_rl.decode import decode as decode_problems
from dllm_rl.policy import PolicyConfig
from dllm_rl.shipped import load, shipped_models
from dllm_rl.strategies import STRATEGIES, get_strategy
from dllm_rl.sudoku import SudokuTask
from sudoku_dllm.answers import TAIL, shortest_answer
from sudoku_dllm.puzzles import add_puzzles, puzzles_in
from sudoku_dllm.replaying import add_delay, show
from sudoku_env.board import size_of
from sudoku_env.prompts.text import build_prompt
from sudoku_env.prompts.tokens import pre_fill


def add_decode(parser: argparse.ArgumentParser) -> None:
    """Options of `decode`."""
    add_puzzles(parser)
    parser.add_argument(
        "--model",
        default="llada-sudoku6x6",
        help=", ".join((*shipped_models(), "a folder that a training wrote, or owner/name on the hub (%(default)s)")),
    )
    parser.add_argument("--strategy", default="margin", help=f"one of {', '.join(STRATEGIES)} (%(default)s)")
    parser.add_argument(
        "--tokens_per_step", type=int, default=1, help="positions filled from one forward pass (%(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of strategies that draw (%(default)s)")
    add_delay(parser)
    parser.add_argument(
        "--max_gen_length",
        type=int,
        help=f"tokens of the answer (what the grid takes, and {TAIL} more where the model has a prompt)",
    )
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
        if args.max_gen_length is None:
            filled = shortest_answer(tokenizer, prompt, size_of(board.size))
        else:
            filled = pre_fill(prompt, tokenizer, args.max_gen_length)
        batch = task.batch([filled])
        generator = torch.Generator().manual_seed(args.seed)
        record = decode_problems(
            model, batch, strategy, tokens_per_step=args.tokens_per_step, policy=PolicyConfig(), generator=generator
        )
        show(batch.boards(record.states_of(0)), batch.layout.solution, args.delay)
        failed |= not bool((record.right == record.judged).all())
    return int(failed)
