"""Write the frozen puzzle sets, the sets of the package, or sets of prompts, chats or questions; or audit puzzle sets.

- `--kind puzzles`: `data/puzzles/`, CSV files by size and split with puzzles of all tiers (`sudoku_env.puzzle_sets`).
- `--kind package`: `sudoku_env/data/`, the puzzles behind `default_puzzles`.
- `--kind prompts`: lines of {"prompt": …}, the training format: a puzzle described in words, which singles solve, or
  that needs more (`--tier wings`).
- `--kind chat`: lines of {"prompt", "chosen", "rejected", "puzzle", "solution"} about such puzzles, for trainers of
  autoregressive models (`sudoku_env.chat.rows`).
- `--kind questions`: lines of {"question", "answer", "puzzle", "solution"} about such puzzles, with an expert's answer
  from the rule ladder (`sudoku_env.chat.questions`).
- `--kind word_problems`: lines of {"question", "answer", "result"}, arithmetic in words
  (`scripts.shared.word_problems`).

No test or validation grid occurs in training, nor any image of it under a symmetry (for 4×4: no grid). No word
problem has the arithmetic of another.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from llm_rl.core._options import option
from llm_rl.training import need_writable, parse, user_errors
from sudoku_env import Puzzles, build_prompt, chat_rows
from sudoku_env.chat import Form, question_rows
from sudoku_env.puzzle_sets import TIERS, audit_sets, draw_by_split, write_package_sets, write_sets, write_text

FOLDERS = {
    "puzzles": "data/puzzles", "package": "sudoku_env/data", "prompts": "runs/prompts", "chat": "runs/chat",
    "questions": "runs/questions", "word_problems": "runs/word_problems",
}  # fmt: skip
WORDING = {"prompts": "compact", "chat": "short"}


@dataclass
class DataArguments:
    """Arguments of `make_data.py`."""

    kind: Literal["puzzles", "package", "prompts", "chat", "questions", "word_problems"] = option(
        "puzzles", "What to write."
    )
    audit: bool = option(False, "Check the puzzle sets that are there, write nothing.")
    output_dir: str | None = option(None, f"Folder; by default by kind: {FOLDERS}.")
    seed: int = option(2026, "Random seed of the generator.")
    threads: int = option(1, "Threads of the generator, not for the package.")
    size: int = option(6, "Prompts and chats: board size.")
    clues_low: int = option(14, "Prompts and chats: fewest clues of a puzzle.")
    clues_high: int = option(18, "Prompts and chats: most clues of a puzzle.")
    tier: str | None = option(
        None,
        "Prompts and chats: puzzles of this tier, e.g. wings, instead of those that singles solve; with as "
        "few clues as its rules allow, so that the two options above are not used.",
    )
    template: str | None = option(
        None, f"Prompts and chats: wording, see sudoku_env.prompts.text.TEMPLATES; by default by kind: {WORDING}."
    )
    form: Form = option("brief", "Questions: full, steps with reasons; brief, conclusions; response, the grid alone.")
    train: int = option(3000, "Prompts to train on.")
    validation: int = option(1000, "Prompts for choosing hyperparameters.")
    test: int = option(2000, "Held-out prompts.")


(args,) = parse(DataArguments, description=__doc__)
folder = Path(args.output_dir or FOLDERS[args.kind])
need_writable("output_dir", folder)
counts = (args.train, args.validation, args.test)


def lines_of(puzzles: Puzzles) -> list[str]:
    """A line of JSON for each puzzle."""
    if args.kind == "questions":
        return [json.dumps(row) for row in question_rows(puzzles, args.form)]
    template = args.template or WORDING[args.kind]
    if args.kind == "chat":
        return [json.dumps(row) for row in chat_rows(puzzles, args.seed, template)]
    return [json.dumps({"prompt": build_prompt(board, template)}) for board in puzzles.boards]


def write_puzzle_lines() -> None:
    """Write a line for each puzzle of each split."""
    sets = draw_by_split(
        args.size,
        counts,
        clues=None if args.tier else (args.clues_low, args.clues_high),
        rule=args.tier or "singles",
        exact=args.tier is not None,
        seed=args.seed,
        threads=args.threads,
    )
    write_lines(f"sudoku{args.size}x{args.size}", {split: lines_of(puzzles) for split, puzzles in sets.items()})


def write_word_problems() -> None:
    """Write the word problems of each split."""
    from scripts.shared.word_problems import word_problem_sets  # which needs torch, as nothing else here does

    sets = word_problem_sets(counts, args.seed)
    write_lines("word_problems", {split: [json.dumps(row) for row in rows] for split, rows in sets.items()})


def write_lines(name: str, lines: dict[str, list[str]]) -> None:
    """Write the lines of each split and their checksums."""
    checksums = []
    for split, of_split in lines.items():
        path = folder / f"{name}_{split}.jsonl"
        write_text(path, "".join(f"{line}\n" for line in of_split))
        checksums.append(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n")
    write_text(folder / f"{name}.sha256", "".join(checksums))


if args.audit:
    problems = audit_sets(folder)
    raise SystemExit("\n".join(problems) or None)
with user_errors(OSError, ValueError):
    if args.kind == "puzzles":
        write_sets(folder, TIERS, seed=args.seed, threads=args.threads)
    elif args.kind == "package":
        write_package_sets(folder, seed=args.seed)
    elif args.kind == "word_problems":
        write_word_problems()
    else:
        write_puzzle_lines()
print("\n".join(f"{path} ({path.stat().st_size:,} bytes)" for path in sorted(folder.glob("*.*"))))
