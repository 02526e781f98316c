"""PPO, GRPO, DPO and VAPOR at equal CPU time where only a verifier says what is right (`scripts.signs.task`).

A Llama from scratch, by default of a million parameters, learns to write expressions that are right by chance alone.
From there each arm trains for the same CPU seconds: `grpo` and `ppo` on the verifier, `dpo` on pairs of a right and a
wrong completion that the start was sampled for, `vapor` on both, `more` on more of what the start learned from;
`placebo` is `grpo` with each puzzle's verdicts dealt anew among its completions. The time that making pairs takes is
the arm's own. Judged by the share of completions that solve held-out puzzles, sampled with the same random numbers.
The run folder receives the result of each model and seed, and what `scripts.signs.report` makes of them.

    python -m scripts.signs.compare [--seeds 0 1 2 --cpu_seconds 240 --arms ppo grpo dpo vapor more]
"""

import copy
import random
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from transformers import LlamaForCausalLM, PrinterCallback, set_seed

from llm_rl import (
    DPOArguments,
    DPOTrainer,
    GRPOArguments,
    GRPOTrainer,
    PPOArguments,
    PPOTrainer,
    VAPORArguments,
    VAPORTrainer,
    sample_and_score,
    supervised_trainer,
)
from llm_rl.training import (
    Budget,
    BudgetCallback,
    RunArguments,
    RunFolder,
    fail,
    need_reports,
    parse,
    quiet_libraries,
    rows_after,
    train_to_budget,
    trapezoid,
)
from scripts.short_training import short_training
from scripts.signs.report import Result, read_results, report, write_result
from scripts.signs.task import ANSWER_TOKENS, TAGS, dealt_anew, puzzles, solved, start_rows, tokenizer
from scripts.tiny_llama import tiny_llama
from sudoku_dllm.machine import machine

ARMS = ("ppo", "grpo", "dpo", "vapor", "more", "placebo")
RATES = {"ppo": 3e-4, "grpo": 3e-4, "dpo": 1e-5, "vapor": 1e-4, "more": 1e-3, "placebo": 3e-4}
"""Learning rates, the best of those tried with seed 0 on other held-out puzzles (docs/log.md)."""


@dataclass
class CompareArguments:
    """The model, the start, the arms and their budget."""

    seeds: list[int] = field(default_factory=lambda: [0, 1, 2], metadata={"help": "Random seeds of start and arms."})
    arms: list[str] = field(default_factory=lambda: list(ARMS), metadata={"help": f"Which of {', '.join(ARMS)}."})
    cpu_seconds: float = field(default=240.0, metadata={"help": "What each arm may spend, in CPU seconds."})
    start_steps: int = field(default=600, metadata={"help": "Supervised steps of the start."})
    start_batch_size: int = field(default=64, metadata={"help": "Expressions in a batch of the start."})
    start_learning_rate: float = field(default=1e-3, metadata={"help": "Rate of the start, which falls to 0."})
    hidden_size: int = field(default=160, metadata={"help": "Width of the model."})
    num_hidden_layers: int = field(default=4, metadata={"help": "Depth of the model."})
    rates: list[str] = field(
        default_factory=list, metadata={"help": f"Rates of arms in place of those chosen for them {RATES}: grpo=1e-4 …"}
    )
    completions: int = field(default=128, metadata={"help": "Completions of a step; pairs are half as many."})
    num_generations: int = field(default=8, metadata={"help": "Completions of a prompt, where they are compared."})
    train_puzzles: int = field(default=4000, metadata={"help": "Puzzles to train on."})
    test_puzzles: int = field(default=500, metadata={"help": "Held-out puzzles."})
    test_seed: int = field(default=1, metadata={"help": "Random seed of the held-out puzzles; rates were chosen on 2."})
    test_generations: int = field(default=8, metadata={"help": "Completions of each held-out puzzle."})
    output_dir: str = field(default="runs/signs", metadata={"help": "Run folder."})
    overwrite_output_dir: bool = field(default=False, metadata={"help": "Replace a run in the folder."})
    resume_from_checkpoint: str | None = field(default=None, metadata={"help": "Not supported: arms are short."})


def common(batch_size: int, seed: int, learning_rate: float) -> dict[str, Any]:
    """What the arguments of all trainers share."""
    return short_training(run, batch_size, seed, learning_rate)


def rollout(seed: int, learning_rate: float = 0.0, **changes: Any) -> dict[str, Any]:
    """The same for trainers that sample."""
    return {**common(given.completions, seed, learning_rate), "max_completion_length": ANSWER_TOKENS, **changes}


def make_start(seed: int) -> LlamaForCausalLM:
    """A model that writes expressions of the digits, whatever the target."""
    model = tiny_llama(
        len(words),
        seed,
        hidden_size=given.hidden_size,
        intermediate_size=2 * given.hidden_size,
        num_hidden_layers=given.num_hidden_layers,
        max_position_embeddings=64,
        initializer_range=0.02,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=0,
    )
    settings = common(given.start_batch_size, seed, given.start_learning_rate)
    settings |= {"max_steps": given.start_steps, "warmup_steps": 20}
    trainer = supervised_trainer(model, RunArguments(**settings), start_rows(train, seed), words)
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    return model


def sampled(model: Any, rows: list[dict[str, Any]], seed: int, count: int) -> Iterator[tuple[list[Any], list[float]]]:
    """So many completions of each row and whether they are right, `completions` at a time."""
    set_seed(seed)
    size = max(1, given.completions // count)
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        found = sample_and_score(model, part, solved, words, num_generations=count, max_completion_length=ANSWER_TOKENS)
        yield found.samples, found.rewards.tolist()


def solve_shares(model: Any, seed: int) -> list[float]:
    """The share of each held-out puzzle's completions that solve it."""
    set_seed(seed)
    count = given.test_generations
    scores = [score for _, each in sampled(model, test, seed, count) for score in each]
    return [sum(scores[first : first + count]) / count for first in range(0, len(scores), count)]


def make_pairs(model: Any, seed: int) -> list[dict[str, Any]]:
    """A right and a wrong completion of puzzles for which the model wrote both; takes a third of the budget at most."""
    found: list[dict[str, Any]] = []
    began = time.process_time()
    for samples, scores in sampled(model, train, seed, given.num_generations):
        for first in range(0, len(samples), given.num_generations):
            group = range(first, min(first + given.num_generations, len(samples)))
            right, wrong = ([i for i in group if scores[i] == score] for score in (1.0, 0.0))
            if right and wrong:
                texts = (
                    words.decode(samples[i].completion_ids, skip_special_tokens=True) for i in (right[0], wrong[0])
                )
                found.append({**samples[first].row, **dict(zip(("chosen", "rejected"), texts, strict=True))})
        if time.process_time() - began > given.cpu_seconds / 3:
            break
    if not found:
        fail("the start writes no right completion, so that there are no pairs; raise --start_steps")
    return found


def make_trainer(arm: str, model: Any, pairs: list[dict[str, Any]], seed: int) -> Any:
    """The trainer of an arm."""
    rate = rates[arm]
    if arm == "ppo":
        ppo = PPOArguments(**rollout(seed, rate), num_ppo_epochs=2, vf_coef=0.5, cliprange_value=None)
        return PPOTrainer(model, solved, ppo, train, words)
    if arm in ("grpo", "placebo"):
        reward = solved if arm == "grpo" else dealt_anew(random.Random(seed))
        grpo = GRPOArguments(**rollout(seed, rate, num_generations=given.num_generations, loss_type="dr_grpo"))
        return GRPOTrainer(model, reward, grpo, train, words)
    if arm == "dpo":
        return DPOTrainer(
            model, DPOArguments(**common(min(given.completions // 2, len(pairs)), seed, rate)), pairs, words
        )
    if arm == "vapor":
        vapor = VAPORArguments(
            **rollout(seed, rate, num_generations=given.num_generations),
            verifiable_term_split=TAGS,
            preference_term_split=TAGS,
            ratio_base="old",
            ratio_level="token",
            clip_on="verifiable",
            advantage_scale="std",
            pref_loss_weight=0.05,
        )
        return VAPORTrainer(model, solved, vapor, pairs, words)
    more = RunArguments(**common(given.start_batch_size, seed, rate))
    return supervised_trainer(model, more, start_rows(train, seed + 1), words)


(given,) = parse(CompareArguments, description=__doc__)
if unknown := [arm for arm in given.arms if arm not in ARMS]:
    fail(f"--arms {unknown[0]} is unknown; choose some of {', '.join(ARMS)}")
if given.resume_from_checkpoint is not None:
    fail("--resume_from_checkpoint is not supported: an arm takes minutes; start again with the seeds that are missing")
rates = dict(RATES)
for word in given.rates:
    arm, _, number = word.partition("=")
    try:
        rates[arm] = float(number)
    except ValueError:
        rates[arm] = 0.0
    if arm not in ARMS or not 0 < rates[arm] < 1:
        fail(f"--rates {word}: give ARM=RATE, e.g. grpo=1e-4, with an arm of {', '.join(ARMS)} and a rate below 1")
need_reports()
folder = RunFolder(given)
quiet_libraries()
torch.set_num_threads(1)
run, words = folder.open(asdict(given)), tokenizer()
train, test = (
    puzzles(given.train_puzzles, 0, held_out=False),
    puzzles(given.test_puzzles, given.test_seed, held_out=True),
)
about = {"machine": machine(), "settings": asdict(given)}
for seed in given.seeds:
    start = make_start(seed)
    solves = Result(solve_shares(start, seed), 0, 0.0)
    write_result(run, "start", seed, solves, **about)
    size = sum(weight.numel() for weight in start.parameters())
    print(f"seed {seed}, {size:,} parameters: start solves {solves.mean:.3f}", flush=True)
    for arm in given.arms:
        set_seed(seed)
        model, began = copy.deepcopy(start), time.process_time()
        pairs = make_pairs(model, seed) if arm in ("dpo", "vapor") else []
        trainer = make_trainer(arm, model, pairs, seed)
        trainer.remove_callback(PrinterCallback)
        left = given.cpu_seconds - (time.process_time() - began)
        budget = BudgetCallback(Budget("cpu_seconds", max(left, 0.1)), rows_after(trainer))
        train_to_budget(trainer, budget, trapezoid(0.05, 0.3))
        took = time.process_time() - began
        solves = Result(solve_shares(model, seed), trainer.state.global_step, took)
        write_result(run, arm, seed, solves, **about)
        print(f"  {arm}: {solves.mean:.3f} after {solves.steps} steps, {took:.0f} CPU seconds", flush=True)
if given.arms:
    print(f"\n{report(*read_results([run]), run)}\nRun folder: {run}")
