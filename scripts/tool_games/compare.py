"""GRPO on games with tools against more supervised training, at equal CPU time (`scripts.tool_games.task`).

A Llama from scratch, by default of a million parameters, learns 4×4 Sudoku by tools from the ladder's games, in which a
share of the digits is asked for by `hint`. From there both arms train for the same CPU seconds: `grpo` on games of its
own, which pay 1 for a solved grid less what hints cost, `more` on more of the ladder's games. Judged on held-out grids,
sampled with the same random numbers and greedily. The run folder receives each result, `table.csv` and the starts,
which `--starts` takes from there another time.

    python -m scripts.tool_games.compare [--seeds 0 1 2 --learning_rate 1e-4 --cpu_seconds 240]
"""

import copy
import csv
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaForCausalLM, PrinterCallback, set_seed

from llm_rl import GRPOArguments, GRPOTrainer, supervised_trainer
from llm_rl.training import (
    Budget,
    BudgetCallback,
    RunArguments,
    RunFolder,
    fail,
    need_model,
    parse,
    quiet_libraries,
    rows_after,
    train_to_budget,
    trapezoid,
    user_errors,
    whole_folder,
)
from scripts.short_training import short_training
from scripts.tiny_llama import tiny_llama
from scripts.tool_games.task import CALL_TOKENS, CALLS, SIZE, games, hints, make_game, solved, tokenizer, trajectories
from sudoku_dllm.machine import machine
from sudoku_dllm.trials import job_name, write_job

ARMS = ("grpo", "more")
MEASURES = {
    "solved": "reward/solved",
    "reward": "reward/environment_reward",
    "hints": "reward/hints",
    "turns": "turns",
    "calls": "tool_calls",
}
"""What is told of a model, and its name among the metrics of an evaluation."""


@dataclass
class CompareArguments:
    """The puzzles, the model, the start, the arms and their budget."""

    seeds: list[int] = field(default_factory=lambda: [0, 1, 2], metadata={"help": "Random seeds of start and arms."})
    arms: list[str] = field(default_factory=lambda: list(ARMS), metadata={"help": f"Which of {', '.join(ARMS)}."})
    clues_low: int = field(default=13, metadata={"help": "Least number of givens."})
    clues_high: int = field(default=14, metadata={"help": "Greatest number of givens."})
    hint_share: float = field(default=0.2, metadata={"help": "Digits of the ladder's games that a hint stands before."})
    hint_cost: float = field(default=0.25, metadata={"help": "What a hint of grade 1 costs, in blanks."})
    train_puzzles: int = field(default=8000, metadata={"help": "Games to learn from, and puzzles to play."})
    test_puzzles: int = field(default=250, metadata={"help": "Held-out puzzles."})
    hidden_size: int = field(default=128, metadata={"help": "Width of the model."})
    num_hidden_layers: int = field(default=5, metadata={"help": "Depth of the model."})
    starts: str | None = field(default=None, metadata={"help": "Run folder whose starts are taken; None: made."})
    start_steps: int = field(default=300, metadata={"help": "Supervised steps of the start."})
    start_learning_rate: float = field(default=2e-3, metadata={"help": "Rate of the start, which falls to 0."})
    batch_size: int = field(default=32, metadata={"help": "Games in a batch of supervised training."})
    cpu_seconds: float = field(default=240.0, metadata={"help": "What each arm may spend, in CPU seconds."})
    learning_rate: float = field(default=1e-4, metadata={"help": "Rate of GRPO; it rises and falls again."})
    control_learning_rate: float = field(default=1e-3, metadata={"help": "The same of more supervised training."})
    completions: int = field(default=64, metadata={"help": "Games of a GRPO step."})
    num_generations: int = field(default=8, metadata={"help": "Games of one puzzle, which are compared."})
    output_dir: str = field(default="runs/tool_games", metadata={"help": "Run folder."})
    overwrite_output_dir: bool = field(default=False, metadata={"help": "Replace a run in the folder."})
    resume_from_checkpoint: str | None = field(default=None, metadata={"help": "Not supported: arms are short."})


def common(batch_size: int, seed: int) -> dict[str, Any]:
    """What the arguments of all trainers share."""
    return short_training(run, batch_size, seed, given.learning_rate)


def make_start(seed: int) -> LlamaForCausalLM:
    """A model that has seen games of the ladder; kept in the run folder."""
    if given.starts is not None:
        with user_errors(OSError):
            return LlamaForCausalLM.from_pretrained(start_folder(Path(given.starts), seed))
    model = tiny_llama(
        len(words),
        seed,
        hidden_size=given.hidden_size,
        intermediate_size=3 * given.hidden_size,
        num_hidden_layers=given.num_hidden_layers,
        max_position_embeddings=2048,
        initializer_range=0.02,
        bos_token_id=None,
        eos_token_id=words.eos_token_id,
        pad_token_id=words.pad_token_id,
    )
    settings = {**common(given.batch_size, seed), "max_steps": given.start_steps, "warmup_steps": 20}
    settings["learning_rate"] = given.start_learning_rate
    trainer = supervised_trainer(model, RunArguments(**settings), lessons, words)
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    with whole_folder(start_folder(run, seed)) as partial:
        model.save_pretrained(partial)
    return model


def start_folder(folder: Path, seed: int) -> Path:
    """Where the start of a seed lies."""
    return folder / f"start_seed{seed}"


def player(model: Any, puzzles: list[dict[str, Any]], seed: int) -> GRPOTrainer:
    """The trainer on games, which judges too; only what the environment pays has a weight."""
    args = GRPOArguments(
        **common(given.completions, seed),
        num_generations=given.num_generations,
        max_completion_length=CALL_TOKENS,
        max_turns=2 * (SIZE**2 - given.clues_low),
        loss_type="dapo",
        reward_weights=[0.0, 0.0, 1.0],
        per_device_eval_batch_size=250,
        show_supervised=False,
    )
    plays: dict[str, Any] = {"environment_factory": make_game(given.hint_cost), "call_format": CALLS}
    return GRPOTrainer(model, [solved, hints], args, puzzles, words, **plays)


def judged(model: Any, seed: int) -> dict[str, float]:
    """`MEASURES` of sampled games of the held-out puzzles, and "solved_greedily"."""
    judge = player(model, test, seed)
    judge.remove_callback(PrinterCallback)
    sampled, greedy = judge.evaluate(test), judge.evaluate(test, greedy=True)
    found = {name: sampled[f"eval_{metric}"] for name, metric in MEASURES.items()}
    return {**found, "solved_greedily": greedy["eval_reward/solved"], "hints_greedily": greedy["eval_reward/hints"]}


def make_trainer(arm: str, model: Any, seed: int) -> Any:
    """The trainer of an arm."""
    if arm == "grpo":
        return player(model, train, seed)
    settings = {**common(given.batch_size, seed), "learning_rate": given.control_learning_rate}
    return supervised_trainer(model, RunArguments(**settings), lessons, words)


def keep(name: str, seed: int, steps: int, line: dict[str, float]) -> None:
    """Write and tell the result of a model, and the table of those so far with a line for each."""
    about = {"arm": name, "seed": seed, "machine": machine(), "settings": asdict(given)}
    write_job(run / job_name(name, seed=seed), {**about, "steps": steps, **line}, {})
    results[name, seed] = line
    with (run / "table.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["seed", "model", *line])
        for (model, seed_of), each in results.items():
            table.writerow([seed_of, model, *(f"{value:.4g}" for value in each.values())])
    told = ", ".join(f"{key} {value:.3f}" for key, value in line.items())
    print(f"  {name}, {steps} steps: {told}", flush=True)


(given,) = parse(CompareArguments, description=__doc__)
if unknown := [arm for arm in given.arms if arm not in ARMS]:
    fail(f"--arms {unknown[0]} is unknown; choose some of {', '.join(ARMS)}")
if given.resume_from_checkpoint is not None:
    fail("--resume_from_checkpoint is not supported: an arm takes minutes; start again with the seeds that are missing")
if given.starts is not None:
    for seed in given.seeds:
        need_model("starts", str(start_folder(Path(given.starts), seed)))
folder = RunFolder(given, inputs=[] if given.starts is None else [given.starts])
quiet_libraries()
torch.set_num_threads(1)
run, words = folder.open(asdict(given)), tokenizer()
clues = given.clues_low, given.clues_high
rows = games(given.train_puzzles, 0, held_out=False, clues=clues, hints=given.hint_share)
lessons = trajectories(rows)
train, test = (
    [{name: row[name] for name in ("prompt", "puzzle")} for row in part]
    for part in (rows, games(given.test_puzzles, 1, held_out=True, clues=clues))
)
results: dict[tuple[str, int], dict[str, float]] = {}
for seed in given.seeds:
    began = time.process_time()
    start = make_start(seed)
    took = time.process_time() - began
    size = sum(weight.numel() for weight in start.parameters())
    print(f"seed {seed}, {size:,} parameters, {took:.0f} CPU seconds for the start", flush=True)
    keep("start", seed, 0, judged(start, seed))
    for arm in given.arms:
        set_seed(seed)
        model = copy.deepcopy(start)
        trainer = make_trainer(arm, model, seed)
        trainer.remove_callback(PrinterCallback)
        budget = BudgetCallback(Budget("cpu_seconds", given.cpu_seconds), rows_after(trainer))
        train_to_budget(trainer, budget, trapezoid(0.05, 0.3))
        keep(arm, seed, trainer.state.global_step, judged(model, seed))
