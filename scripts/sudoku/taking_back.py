"""What taking tokens back repairs: a base trained further in several ways, and decodes with and without it.

From one base and one list of puzzles a model is trained for each arm (`scripts.sudoku.second_stage`) and seed, all for
the same CPU seconds. Each decodes held-out puzzles by largest margin with several numbers of tokens a step, and then so
that tokens are taken back, with the threshold that is best on validation puzzles. Prints and writes `table.csv`.

Puzzles come from files of prompts, or with `--drawn` from the generator, of any difficulty: what is trained on is of
the train split of grids, what is judged of the others, so that no grid occurs twice, up to the symmetries of Sudoku.

Without taking back there are also, of the validation puzzles that fail, the mean number of wrong cells and the median
probability that the model gives to wrong and to right cells when it looks at its complete answer. A puzzle counts as
repaired if the same model with the same tokens a step fails it without taking back and solves it with; as broken the
other way round.

    python -m scripts.sudoku.taking_back configs/taking_back.yaml --seeds 0 1 2
    python -m scripts.sudoku.taking_back configs/taking_back9x9.yaml
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer
from transformers.utils import logging

import dllm_rl  # noqa: F401  (registers LLaDA)
from dllm_rl.decoding import decode
from dllm_rl.evaluation import Evaluation, evaluate
from dllm_rl.policy import logits_at
from dllm_rl.strategies import STRATEGIES
from dllm_rl.sudoku import SudokuTask
from dllm_rl.taking_back import TakeBack
from llm_rl.training.budget import Budget
from llm_rl.training.command_line import (
    USER_ERRORS,
    fail,
    need_file,
    need_model,
    need_reports,
    need_writable,
    parse,
    user_errors,
)
from llm_rl.training.reports import load_pandas
from llm_rl.training.storage import write_text_whole
from scripts.sudoku.endless import EndlessPuzzles
from scripts.sudoku.of_split import first_of_split
from scripts.sudoku.second_stage import ARMS, train_arm
from sudoku_dllm.held_out import check_held_out
from sudoku_dllm.machine import machine
from sudoku_env.board import Board
from sudoku_env.errors import SudokuError
from sudoku_env.generator import generate
from sudoku_env.prompts.text import build_prompt
from sudoku_env.prompts.tokens import PreFilled, pre_fill
from sudoku_env.puzzles import read_prompts
from sudoku_env.symmetries import symmetric_prompts

KNOWN = ("base", *ARMS)


@dataclass
class Arguments:
    """Arguments of `taking_back.py`."""

    model: str = field(default="data/models/llada-sudoku6x6", metadata={"help": "Folder of base and tokenizer."})
    data: str = field(default="data/sudoku6x6_train.jsonl", metadata={"help": "Prompts to train on."})
    images: int = field(default=10, metadata={"help": "Prompts made of each by symmetries of Sudoku; 1: itself."})
    validation: str = field(
        default="data/sudoku6x6_few_validation.jsonl", metadata={"help": "Prompts that choose thresholds."}
    )
    test: str = field(default="data/sudoku6x6_few_test.jsonl", metadata={"help": "Prompts to judge by."})
    validation_puzzles: int = field(default=200, metadata={"help": "The first so many; 0 is all."})
    test_puzzles: int = field(default=500, metadata={"help": "The first so many; 0 is all."})
    max_gen_length: int = field(default=40, metadata={"help": "Response length in tokens."})
    drawn: int = field(
        default=0, metadata={"help": "Train on so many puzzles of the generator, with symmetries; 0: on the file's."}
    )
    size: int = field(default=9, metadata={"help": "Board size of drawn puzzles."})
    clues: list[int] = field(default_factory=lambda: [22, 34], metadata={"help": "Fewest and most clues, to train."})
    judged_clues: list[int] = field(
        default_factory=lambda: [22, 30], metadata={"help": "Fewest and most clues of drawn puzzles to judge by."}
    )
    cpu_seconds: float = field(default=100.0, metadata={"help": "CPU time of each training, on one thread."})
    batch_size: int = field(default=32, metadata={"help": "Puzzles an update."})
    learning_rate: float = field(default=1e-3, metadata={"help": "Highest rate; it falls to 0."})
    tokens_per_step: list[int] = field(
        default_factory=lambda: [1, 2, 4], metadata={"help": "Positions filled from one forward pass."}
    )
    remask_threshold: list[float] = field(
        default_factory=lambda: [0.1, 0.3, 0.5], metadata={"help": "Tokens below it are masked again."}
    )
    edit_threshold: list[float] = field(
        default_factory=lambda: [0.5, 0.7, 0.9], metadata={"help": "Tokens are replaced by others above it."}
    )
    max_passes: int = field(default=40, metadata={"help": "Most forward passes of a decode that takes tokens back."})
    arms: list[str] = field(
        default_factory=lambda: ["sft", "corrupted", "self_correction", "objective"],
        metadata={"help": f"Some of {', '.join(KNOWN)}; base is the model as it is."},
    )
    judge_only: bool = field(
        default=False, metadata={"help": "Train nothing: judge the models that output_dir holds already."}
    )
    seeds: list[int] = field(default_factory=lambda: [0], metadata={"help": "Random seeds of the trainings."})
    output_dir: str = field(default="runs/taking_back", metadata={"help": "Folder of models and table."})


(args,) = parse(Arguments, description=__doc__)
if unknown := set(args.arms) - set(KNOWN):
    fail(f"--arms {sorted(unknown)} are unknown; choose among {', '.join(KNOWN)}")
for option in () if args.drawn else ("data", "validation", "test"):
    need_file(option, getattr(args, option))
need_model("model", args.model)
need_writable("output_dir", args.output_dir)
need_reports()
with user_errors(ValueError):
    SETTINGS: list[TakeBack] = [
        *(TakeBack(args.max_passes, remask_threshold=value) for value in args.remask_threshold),
        *(TakeBack(args.max_passes, edit_threshold=value) for value in args.edit_threshold),
    ]
logging.disable_progress_bar()
torch.set_num_threads(1)
margin = STRATEGIES["margin"]
DRAWN_SEED = 7_000
"""Random seed of drawn puzzles; those of validation and test have the next ones."""


def filled(path: str, count: int, images: int = 1) -> list[PreFilled]:
    """The first puzzles of a file, and images of them."""
    prompts = read_prompts(path)[: count or None]
    if images > 1:
        prompts = symmetric_prompts(prompts, images, template="compact")
    return [pre_fill(prompt, tokenizer, args.max_gen_length) for prompt in prompts]


def fill(board: Board) -> PreFilled:
    """A drawn board, pre-filled."""
    return pre_fill(build_prompt(board, "compact"), tokenizer, args.max_gen_length)


def drawn(split: str, count: int, seed: int) -> list[PreFilled]:
    """Puzzles of the generator whose grids are of a split that is not trained on."""
    low, high = args.judged_clues
    pool = generate(16 * count, size=args.size, clues=(low, high), rule=None, seed=seed)
    boards = first_of_split([(pool.boards, pool.solutions)], split, count, args.size)
    return [fill(board) for board in boards]


with user_errors(*USER_ERRORS, SudokuError):
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    task = SudokuTask(tokenizer.pad_token_id, tokenizer.eos_token_id)
    if args.drawn:
        low, high = args.clues
        source = EndlessPuzzles(fill, task, size=args.size, clues=(low, high), rule=None, seed=DRAWN_SEED)
        train = [] if args.judge_only else [fill(source.board(index)) for index in range(args.drawn)]
        validation = drawn("validation", args.validation_puzzles, DRAWN_SEED + 1)
        test = drawn("test", args.test_puzzles, DRAWN_SEED + 2)
    else:
        train = [] if args.judge_only else filled(args.data, 0, args.images)
        validation, test = (
            filled(args.validation, args.validation_puzzles),
            filled(args.test, args.test_puzzles),
        )
    check_held_out(train, {"--validation": validation, "--test": test})
folder = Path(args.output_dir)
folder.mkdir(parents=True, exist_ok=True)
write_text_whole(folder / ("judged.json" if args.judge_only else "arguments.json"), json.dumps(asdict(args), indent=2))


def trained(name: str, seed: int) -> torch.nn.Module:
    """The base after the training of an arm, kept in a folder of its own."""
    if name == "base":
        return AutoModelForMaskedLM.from_pretrained(args.model)
    home = folder / f"{name}-{seed}" / "model"
    if args.judge_only:
        with user_errors(*USER_ERRORS):
            return AutoModelForMaskedLM.from_pretrained(home)
    model = AutoModelForMaskedLM.from_pretrained(args.model).float()
    home.parent.mkdir(parents=True, exist_ok=True)
    spent = train_arm(
        name,
        model,
        train,
        task,
        home.parent,
        budget=Budget("cpu_seconds", args.cpu_seconds),
        seed=seed,
        batch_size=args.batch_size,
        learning_rate=args.learning_rate,
        max_passes=args.max_passes,
    )
    print(json.dumps({"arm": name, "seed": seed, **spent}), flush=True)
    model.save_pretrained(home)
    tokenizer.save_pretrained(home)
    return model


def judged(model: torch.nn.Module, puzzles: list[PreFilled], count: int, how: TakeBack | None) -> Evaluation:
    """Decodes by largest margin, to the end."""
    return evaluate(model, puzzles, task, strategy=margin, tokens_per_step=count, take_back=how, on_error="continue")


def belief(model: torch.nn.Module, count: int) -> dict[str, float]:
    """What a model makes of its own complete answers to the validation puzzles, those that it fails.

    The mean number of wrong cells of an answer, and the median probability of the tokens in wrong and in right cells.
    """
    problems = task.batch(validation)
    record = decode(model, problems, margin, tokens_per_step=count)
    failed = ~(record.right == record.judged).all(1)
    at = record.judged & failed[:, None]
    with torch.no_grad():
        logits, _ = logits_at(
            model, *problems.prompts_of(torch.arange(len(problems))), record.responses, at, problems.mask_id
        )
    own = logits.softmax(-1).gather(1, record.responses[at][:, None]).squeeze(1)
    right = record.right[at]
    return {
        "wrong_cells": float((~right).sum() / failed.sum()),
        "p_wrong": float(own[~right].median()),
        "p_right": float(own[right].median()),
    }


def rows(arm: str, seed: int, model: torch.nn.Module) -> Iterator[dict[str, Any]]:
    """What a model solves, without taking back and with, for each number of tokens a step."""
    for count in args.tokens_per_step:
        plain = judged(model, test, count, None)
        yield row(arm, seed, count, None, plain, plain) | belief(model, count)
        for kind in ("remask_threshold", "edit_threshold"):
            some = [how for how in SETTINGS if getattr(how, kind) is not None]
            if some:
                best = max(some, key=lambda how: judged(model, validation, count, how).solved.mean())
                yield row(arm, seed, count, best, judged(model, test, count, best), plain)


def row(arm: str, seed: int, count: int, how: TakeBack | None, found: Evaluation, plain: Evaluation) -> dict[str, Any]:
    """A line of the table; shares are percentages, and repaired is of the puzzles that fail without taking back."""
    failed = ~plain.solved
    return {
        "arm": arm,
        "seed": seed,
        "tokens_per_step": count,
        "remask_threshold": how and how.remask_threshold,
        "edit_threshold": how and how.edit_threshold,
        "solved": 100 * found.solved.mean(),
        "passes": found.forward_passes.mean(),
        "repaired": 100 * found.solved[failed].mean() if how and failed.any() else np.nan,
        "broken": 100 * (~found.solved)[~failed].mean() if how and not failed.all() else np.nan,
    }


pd = load_pandas()
table = []
for seed in args.seeds:
    for arm in args.arms:
        for line in rows(arm, seed, trained(arm, seed).eval()):
            table.append(line)
            print(json.dumps(line), flush=True)
        pd.DataFrame(table).to_csv(folder / "table.csv", index=False)
held_out = f"drawn, {args.judged_clues} clues" if args.drawn else args.test
print(f"\n{held_out}: {len(test)} puzzles, seeds {args.seeds}\n{machine()}\n")
print(pd.DataFrame(table).to_string(float_format="{:.1f}".format))
