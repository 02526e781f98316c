"""Several answers of a demonstration's model to each held-out question, as `scripts.judge_answers` reads them.

Writes `answers.jsonl` and, beside the model, its tokenizer; prints the command that lets its critic choose among the
answers.

    python -m scripts.raro.answers runs/raro_digits --seed 0 [--arm raro --count 16]
"""

import json
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path

import torch
from transformers import set_seed

from llm_rl import sample_and_score
from llm_rl.raro import extract_answer
from llm_rl.training import need_file, parse, user_errors, write_text_whole
from scripts.raro.demonstration import Demonstration
from scripts.raro.digits import Digits, DigitsArguments
from sudoku_dllm.trials.jobs import Job
from sudoku_dllm.trials.training import MODEL
from sudoku_dllm.trials.trial_report import START

CRITIC = ("prompt_format", "critic_system", "critic_template", "max_critic_completion_length")


@dataclass
class AnswersArguments:
    """Whose answers, and how many."""

    run: Path = field(metadata={"help": "Run folder of a demonstration."})
    arm: str = field(default=START, metadata={"help": "Whose model: the start's, or an arm's."})
    seed: int = field(default=0, metadata={"help": "Random seed of the model, and of what is sampled."})
    count: int = field(default=16, metadata={"help": "Answers to each question."})

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(f"count={self.count} must be 1 or greater")


def write_answers(trial: Demonstration, folder: Path, seed: int, count: int) -> Path:
    """Sample answers of the model in a folder to the held-out questions; returns the file.

    Args:
        trial: The task.
        folder: The model's folder, to which its tokenizer is written.
        seed: Random seed.
        count: Answers to each question.
    """
    trial.words.save_pretrained(folder)
    set_seed(seed)
    scored = sample_and_score(
        trial.load(folder), trial.asked(trial.rows["test"]), trial.right, trial.words, num_generations=count,
        max_completion_length=trial.answer_length,
    )  # fmt: skip
    answers = [
        extract_answer(trial.words.decode(sample.completion_ids, skip_special_tokens=True)) or ""
        for sample in scored.samples
    ]
    right = [bool(reward) for reward in scored.rewards.tolist()]
    lines = [
        {"question": row["question"], "answers": answers[first : first + count], "right": right[first : first + count]}
        for first, row in zip(range(0, len(answers), count), trial.rows["test"], strict=True)
    ]
    path = folder.parent / "answers.jsonl"
    write_text_whole(path, "".join(json.dumps(line) + "\n" for line in lines))
    return path


def main() -> None:
    """Sample, and say how to go on."""
    (args,) = parse(AnswersArguments, description=__doc__, places=("run",))
    need_file("run", args.run / "arguments.json")
    folder = Job(args.arm, args.seed).folder(args.run) / MODEL
    need_file("arm", folder / "config.json")
    with user_errors(ValueError, TypeError, OSError):
        trial = Digits(DigitsArguments(**json.loads((args.run / "arguments.json").read_text("utf-8"))))
    torch.set_num_threads(1)
    path = write_answers(trial, folder, args.seed, args.count)
    settings = trial.settings(args.seed, path.parent)
    words = [sys.executable, "-m", "scripts.judge_answers", "--model", str(folder), "--answers", str(path)]
    for name in CRITIC:
        words += [f"--{name}", str(getattr(settings, name))]
    print(f"{path}\n{shlex.join(words)}")


if __name__ == "__main__":
    main()
