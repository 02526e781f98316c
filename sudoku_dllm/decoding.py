"""The command `decode`: a masked-diffusion model fills a puzzle before your eyes."""

import argparse
from typing import get_args

from sudoku_dllm.answers import TAIL, shortest_answer
from sudoku_dllm.models import STRATEGIES, check_sizes, model_for, shipped_sizes, sizes_of
from sudoku_dllm.options import LARGEST_SEED, not_empty, whole
from sudoku_dllm.puzzles import add_puzzles, puzzles_in
from sudoku_dllm.replaying import add_delay, show
from sudoku_env.answers import Answers, Guard
from sudoku_env.board import size_of, to_string
from sudoku_env.prompts.text import TEMPLATES, build_prompt
from sudoku_env.prompts.tokens import pre_fill
from sudoku_env.solver import count_solutions

LONGEST_ANSWER = 1_000_000


def add_decode(parser: argparse.ArgumentParser) -> None:
    """Options of `decode`."""
    add_puzzles(parser)
    parser.add_argument(
        "--model",
        type=not_empty,
        help=", ".join([*shipped_sizes(), "a folder that a training wrote, or owner/name on the hub "])
        + "(the first of these for the puzzle's size)",
    )
    parser.add_argument(
        "--strategy",
        default="margin",
        choices=STRATEGIES,
        metavar="STRATEGY",
        help=f"one of {', '.join(STRATEGIES)} (%(default)s)",
    )
    parser.add_argument(
        "--tokens_per_step", type=whole(1), default=1, help="positions filled from one forward pass (%(default)s)"
    )
    parser.add_argument(
        "--guard",
        choices=get_args(Guard),
        help="write only that with which the board can still be completed, or breaks no rule (nothing is checked)",
    )
    parser.add_argument(
        "--seed", type=whole(0, LARGEST_SEED), default=0, help="seed of strategies that draw (%(default)s)"
    )
    add_delay(parser)
    parser.add_argument(
        "--max_gen_length",
        type=whole(1, LONGEST_ANSWER),
        help=f"tokens of the answer (what the grid takes, and {TAIL} more where the model has a prompt)",
    )
    parser.add_argument(
        "--template",
        default="compact",
        choices=TEMPLATES,
        metavar="TEMPLATE",
        help=f"wording of the prompt: {', '.join(TEMPLATES)} (%(default)s)",
    )


def decode(args: argparse.Namespace) -> int:
    """Print each pass of each decode, one over the other on a terminal, and whether the puzzle was solved.

    Raises:
        ValueError: A puzzle is none, has another size than the model, or no model for its size ships; or the model
            cannot be loaded. Nothing is printed then.
    """
    boards, _, failed = puzzles_in(args)
    sizes = [size_of(board.size) for board in boards]
    names = [args.model or model_for(size) for size in sizes]
    for name, known in shipped_sizes().items():
        check_sizes(name, known, [size for size, chosen in zip(sizes, names, strict=True) if chosen == name])
    counts = [count_solutions(board) for board in boards]
    if 0 in counts:
        raise ValueError(f"puzzle {counts.index(0) + 1} has no solution, {to_string(boards[counts.index(0)])}; mend it")

    # What follows needs torch, which takes seconds to import.
    import torch

    from dllm_rl.decoding import Decoding
    from dllm_rl.decoding import decode as decode_problems
    from dllm_rl.models.shipped import load
    from dllm_rl.sudoku import SudokuTask
    from llm_rl.training.quiet import quiet_libraries

    quiet_libraries()
    loaded = {name: load(name) for name in dict.fromkeys(names)}
    for name, (model, tokenizer) in loaded.items():
        wanted = [size for size, chosen in zip(sizes, names, strict=True) if chosen == name]
        check_sizes(name, sizes_of(name, model.config, tokenizer), wanted)
    filled = []
    for board, count, size, name in zip(boards, counts, sizes, names, strict=True):
        tokenizer, prompt = loaded[name].tokenizer, build_prompt(board, args.template)
        answers: Answers = "any" if count > 1 else "one"
        if args.max_gen_length is None:
            filled.append(shortest_answer(tokenizer, prompt, size, answers=answers))
        else:
            filled.append(pre_fill(prompt, tokenizer, args.max_gen_length, answers=answers))

    for name, puzzle in zip(names, filled, strict=True):
        model, tokenizer = loaded[name]
        batch = SudokuTask(tokenizer.pad_token_id, tokenizer.eos_token_id).batch([puzzle])
        generator = torch.Generator().manual_seed(args.seed)
        how = Decoding(args.strategy, tokens_per_step=args.tokens_per_step, guard=args.guard)
        record = decode_problems(model, batch, how, generator=generator)
        several = puzzle.layout.answers == "any"
        if several:
            print("The puzzle has several solutions; any valid grid is right.\n")
        solution = None if several else batch.layout.solution
        failed |= not show(batch.boards(record.states_of(0)), solution, args.delay)
        if args.guard is not None:
            end = ", and then a dead end: no token passes at the surest position" if record.dead_end[0] else ""
            print(f"{int(record.checks.sum())} checks left {int(record.rejected.sum())} cells masked for later{end}")
    return int(failed)
