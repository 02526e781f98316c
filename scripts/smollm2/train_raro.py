"""RARO on SmolLM2-135M: questions with expert answers, from a small supervised start, judged on held-out questions.

Makes the start if it is not there (LoRA on expert answers and on critiques in the critic's format) and trains it with
`llm_rl.raro.RAROTrainer`, which never sees whether an answer is right; both are judged by a verifier on questions that
do not occur in training. `--data` is `word_problems` (arithmetic, `scripts.smollm2.word_problems`), `sudoku` (4×4,
`sudoku_env.chat.questions`; with `--form brief` experts reason by the rule ladder), or a folder with train.jsonl,
validation.jsonl and test.jsonl, lines of {"question", "answer"}, which the critic alone judges. The run folder receives
the arguments, `metrics.jsonl` with the held-out curve, `curve.png`, the trained model, `results.json` and
`report.html`. Defaults are for the first kind on a CPU; where they depart from docs/raro.md, `--help` says so.

    python -m scripts.smollm2.train_raro [recipe.yaml] [--start runs/smollm2/raro_start --seed 1 …]
    python -m scripts.smollm2.train_raro [recipe.yaml] --resume_from_checkpoint last
    python -m scripts.smollm2.train_raro --data sudoku --form brief --max_completion_length 90 …
    python -m scripts.smollm2.train_raro --judge runs/smollm2/raro_start runs/smollm2/raro_seed*/model --test_rows 512
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from llm_rl import GRPOArguments, GRPOTrainer, RAROArguments, RAROTrainer, start_rows
from llm_rl.raro.prompts import PromptFormat
from llm_rl.rollout.rewards import RewardFunction
from llm_rl.training import fail, need_model, parse, user_errors
from scripts.smollm2.recipe import (
    CRITIC_TEMPLATE,
    VERIFIERS,
    RecipeDefaults,
    StartArguments,
    choose_folder,
    judge_models,
    train_and_judge,
)
from scripts.smollm2.word_problems import SPLITS, Sizes, result_reward, word_problem_sets
from sudoku_env.chat import question_rows
from sudoku_env.puzzle_sets import draw_by_split


@dataclass
class RaroTaskArguments(StartArguments):
    """Arguments of the start and of the questions."""

    data: str = field(default="word_problems", metadata={"help": "word_problems, sudoku, or a folder of JSON lines."})
    question_seed: int = field(default=2026, metadata={"help": "Random seed of the ready-made questions."})
    train_rows: int = field(default=1600, metadata={"help": "Ready-made questions for the start, RL and the control."})
    curve_rows: int = field(default=48, metadata={"help": "Held-out questions for the curve."})
    test_rows: int = field(default=128, metadata={"help": "Held-out questions for the table."})
    steps_low: int = field(default=2, metadata={"help": "Word problems: fewest steps."})
    steps_high: int = field(default=2, metadata={"help": "Word problems: most steps."})
    largest_number: int = field(default=12, metadata={"help": "Word problems: the most to add or take away."})
    largest_count: int = field(default=60, metadata={"help": "Word problems: the largest count."})
    start_labels: str = field(default="true", metadata={"help": "Labels of the start's critiques: true or random."})
    tie_share: float = field(default=0.33, metadata={"help": "Share of ties among the start's critiques."})
    critiques: int = field(default=2, metadata={"help": "Critiques of the start for each answer."})
    foreign_low: float = field(
        default=1.0, metadata={"help": "Their faulty answers are at least in this part foreign."}
    )
    foreign_high: float = field(default=1.0, metadata={"help": "And they are at most in this part foreign."})
    form: str = field(default="response", metadata={"help": "Sudoku: full, brief or response, the grid alone."})
    judge: list[str] = field(
        default_factory=list,
        metadata={"help": "Folders of models to judge, by the verifiers alone and with the same draws; no training."},
    )
    greedy: bool = field(default=False, metadata={"help": "Judge greedy decoding as well, beside sampling."})
    sft_steps: int = field(default=150, metadata={"help": "Optimizer steps of the start."})
    sft_batch_size: int = field(default=16, metadata={"help": "Answers and critiques in a batch of the start."})


@dataclass
class RecipeArguments(RecipeDefaults, RAROArguments):
    """Arguments of RARO with this script's defaults."""

    output_dir: str = field(default="runs/train_raro", metadata={"help": "Run folder."})
    max_steps: int = field(default=24, metadata={"help": "Optimizer steps."})
    critic_pairs: int | None = field(default=12, metadata={"help": "Pairs that the critic trains on, half replayed."})
    critic_generations: int = field(default=8, metadata={"help": "The critic's completions of each pair."})
    critic_equal_pairs: bool = field(
        default=False, metadata={"help": "Whether these pairs may have equal answers, docs/raro.md: true."}
    )
    policy_judgements: int = field(default=2, metadata={"help": "Critiques of an answer, docs/raro.md: 1."})
    temperature: float = field(
        default=1.5, metadata={"help": "Temperature of sampling; at 1 the start's samples hardly differ."}
    )
    max_completion_length: int = field(default=56, metadata={"help": "Longest answer in tokens."})
    max_critic_completion_length: int | None = field(default=40, metadata={"help": "Longest critique in tokens."})
    lambda_pol: float = field(default=0.5, metadata={"help": "Weight of the policy's objective, docs/raro.md: 1/9."})
    lambda_crit: float = field(default=0.5, metadata={"help": "Weight of the critic's objective, docs/raro.md: 8/9."})
    unparsable_reward: float | None = field(
        default=0.0, metadata={"help": "Reward of a critique without label, docs/raro.md: none."}
    )
    overlength_reward: float | None = field(
        default=0.0, metadata={"help": "Reward of over-length text, docs/raro.md: none."}
    )
    kl_weight: float = field(default=0.0, metadata={"help": "Weight of the divergence, docs/raro.md: 1e-3."})
    prompt_format: PromptFormat = field(default="text", metadata={"help": "text is shorter than chat."})
    policy_system: str = field(default="", metadata={"help": "The policy's system prompt; empty: none."})
    critic_system: str = field(default="", metadata={"help": "The critic's system prompt; empty: none."})
    critic_template: str = field(default=CRITIC_TEMPLATE, metadata={"help": "The critic's user turn."})
    eval_steps: float | None = field(default=8, metadata={"help": "Steps between two points of the curve."})


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of JSON lines.

    Raises:
        ValueError: A line is no question with its answer; the message names the file and the line.
    """
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            rows.append(json.loads(line))
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: not JSON ({error})") from None
        if not isinstance(rows[-1], dict) or not {"question", "answer"} <= rows[-1].keys():
            raise ValueError(f"{path}, line {number}: expected an object with question and answer, got {line[:80]}")
    return rows


task, args = parse(RaroTaskArguments, RecipeArguments, description=__doc__)
counts = (task.train_rows, task.curve_rows, task.test_rows)
files = {split: Path(task.data) / f"{split}.jsonl" for split in SPLITS}
ready_made = task.data in ("sudoku", "word_problems")
if not ready_made and (missing := [str(path) for path in files.values() if not path.is_file()]):
    fail(f"--data is {task.data!r}: no such files {missing}; or choose word_problems or sudoku")
if task.judge and not ready_made:
    fail(f"--judge needs a verifier, and --data {task.data} has none; choose word_problems or sudoku")
for model in task.judge:
    need_model("judge", model)
folder = None if task.judge else choose_folder(task, args)
rows: Mapping[str, Sequence[Mapping[str, Any]]]
verifiers: dict[RewardFunction, str]
with user_errors(OSError, ValueError):
    if task.data == "sudoku":
        sets = draw_by_split(4, counts, clues=(13, 14), rule="singles", exact=False, seed=task.question_seed)
        rows = {split: question_rows(puzzles, task.form) for split, puzzles in sets.items()}
        verifiers = VERIFIERS
    elif task.data == "word_problems":
        steps, sizes = (task.steps_low, task.steps_high), Sizes(task.largest_number, task.largest_count)
        rows = word_problem_sets(counts, task.question_seed, steps, sizes)
        verifiers = {result_reward: "right answers"}
    else:
        rows = {split: read_rows(path) for split, path in files.items()}
        verifiers = {}

if task.judge:
    policy_rows = args.rows(rows["test"])
    alone = GRPOArguments(
        output_dir=args.output_dir,
        seed=args.seed,
        temperature=args.temperature,
        max_completion_length=args.max_completion_length,
        per_device_eval_batch_size=args.per_device_eval_batch_size,
        report_to="none",
        use_cpu=args.use_cpu,
    )
    judge_models(
        task,
        task.judge,
        policy_rows,
        lambda model, tokenizer: GRPOTrainer(model, list(verifiers), alone, policy_rows, tokenizer),
        [f"reward/{verifier.__name__}" for verifier in verifiers],
    )
    raise SystemExit

panels = {f"verified/{verifier.__name__}": title for verifier, title in verifiers.items()} | {
    "policy/reward_mean": "policy reward",
    "critic/accuracy": "critic accuracy",
    "critic/tie_rate": "tie rate",
}


def new_trainer(
    model: Any, tokenizer: Any, rows: Mapping[str, Sequence[Any]], callbacks: list[TrainerCallback] | None
) -> RAROTrainer:
    """RARO with the verifiers for the log."""
    return RAROTrainer(
        model,
        args,
        rows["train"],
        tokenizer,
        verifiers=list(verifiers),
        eval_dataset=rows["validation"],
        callbacks=callbacks,
    )


with user_errors(ValueError):
    expert_rows = start_rows(
        rows["train"],
        args.prompts,
        args.reasoning_tags,
        labels=task.start_labels,
        tie_share=task.tie_share,
        critiques=task.critiques,
        foreign=(task.foreign_low, task.foreign_high),
    )
shown = ("policy/reward_mean", "critic/accuracy")
assert folder is not None
asked = {"asked": args.rows(rows["test"]), "verifiers": list(verifiers)}
train_and_judge("RARO", task, args, folder, rows, expert_rows, new_trainer, panels, shown, **asked)
