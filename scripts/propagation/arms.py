"""One arm of the study on traces with one seed: its data, its training and its tests."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from transformers import set_seed

from dllm_rl import (
    Decoding,
    LladaForMaskedLM,
    evaluate,
)
from scripts.propagation.settings import (
    AUTOMATON,
    DECAY_SHARE,
    GIVEN,
    INPUTS,
    LENGTH,
    STATES,
    TEST_TRACES,
    TOKENS_PER_STEP,
    TRAININGS,
    VALIDATION_TRACES,
    WARMUP_SHARE,
    Training,
)
from scripts.propagation.task import Trace, TraceTask, draw_traces
from scripts.shared.tiny_llada import tiny_llada
from scripts.study.arm import trained, training_arguments
from scripts.study.config import EVERY_CELL
from sudoku_dllm.machine import machine
from sudoku_dllm.trials import write_job
from sudoku_dllm.trials.jobs import Job, Progress


def held_out() -> dict[str, list[Trace]]:
    """The held-out traces by set; no trace is in two sets."""
    found: dict[str, list[Trace]] = {}
    drawn: list[Trace] = []
    for seed, (name, given) in enumerate(GIVEN.items()):
        found[name] = draw_traces(AUTOMATON, TEST_TRACES, length=LENGTH, given=given, seed=seed, exclude=drawn)
        drawn += found[name]
    return found


def examples(count: int, seed: int) -> tuple[list[Trace], list[Trace]]:
    """Traces to train on, others for each seed, and those for validation, the same for all; none is a test."""
    held = [trace for traces in held_out().values() for trace in traces]
    validation = _as_in_training(VALIDATION_TRACES, len(GIVEN), held)
    return _as_in_training(count, 100 + seed, [*held, *validation]), validation


def _as_in_training(count: int, seed: int, exclude: list[Trace]) -> list[Trace]:
    return draw_traces(AUTOMATON, count, length=LENGTH, given=GIVEN["test"], seed=seed, exclude=exclude)


def splice(traces: list[Trace], count: int, seed: int) -> list[Trace]:
    """Further traces out of pieces: from each state on as some trace went on from the same state.

    It needs to be known that what follows depends on a state alone, as the label does, and is no symmetry.

    Args:
        traces: Traces of one length.
        count: Number of traces to make; they may repeat each other.
        seed: Random seed.
    """
    rng = np.random.default_rng(seed)
    onward: dict[int, list[tuple[int, int]]] = {}
    for trace in traces:
        for state, taken, following in zip(trace.states, trace.inputs, trace.states[1:], strict=False):
            onward.setdefault(state, []).append((taken, following))
    starts = [state for trace in traces for state in trace.states if state in onward]
    found: list[Trace] = []
    while len(found) < count:
        given = traces[rng.integers(len(traces))].given
        states, inputs = [starts[rng.integers(len(starts))]], list[int]()
        while len(states) < len(given) and (ways := onward.get(states[-1])):
            taken, following = ways[rng.integers(len(ways))]
            inputs.append(taken)
            states.append(following)
        if len(states) == len(given):
            found.append(Trace(tuple(states), tuple(inputs), given))
    return found


def small_model(seed: int) -> LladaForMaskedLM:
    """A random LLaDA of 0.1 million parameters."""
    set_seed(seed)
    vocabulary, mask_id = STATES + INPUTS + 1, TraceTask(STATES, INPUTS).mask_id
    sizes = {"d_model": 64, "n_layers": 3, "n_heads": 4, "rope_theta": 100.0, "max_sequence_length": 2 * LENGTH}
    return tiny_llada(vocabulary, mask_id, seed, **sizes)


def run_arm(training: Training, name: str, seed: int, folder: Path, progress: Progress = lambda share: None) -> None:
    """Train an arm with one seed, decode the tests, and write `result.json` and `outcomes.npz`.

    Args:
        training: The arm and its data.
        name: Its name.
        seed: Random seed of examples, model and training.
        folder: Where to write.
        progress: Called with the share of the updates that are made.
    """
    folder.mkdir(parents=True, exist_ok=True)
    model, arm = small_model(seed), training.arm
    traces, validation = examples(training.examples, seed)
    learned = traces + splice(traces, training.spliced, seed)
    task = TraceTask(STATES, INPUTS, every_state=arm.rule == EVERY_CELL)
    args, shares = training_arguments(arm, folder, seed), (WARMUP_SHARE, DECAY_SHARE)
    trainer, budget = trained(model, learned, task, args, arm.budget.resolve(None), shares, progress)
    task, outcomes, solved = TraceTask(STATES, INPUTS), dict[str, Any](), dict[str, float]()
    for kind, problems in {**held_out(), "validation": validation, "train": traces}.items():
        for tokens in TOKENS_PER_STEP:
            how, label = Decoding("margin", tokens_per_step=tokens, on_error="end"), f"{kind}/{tokens}"
            found = evaluate(model, problems, task, how)
            solved[label] = float(found.solved.mean())
            if kind in GIVEN:
                outcomes[label] = found.solved
            if tokens == 1:
                solved[f"{kind}/greedy_definite"] = found.greedy_definite
    result = {
        "arm": name,
        "seed": seed,
        "machine": machine(),
        "settings": training.settings,
        "cpu_seconds": budget.cpu_seconds,
        "updates": trainer.state.global_step,
        "puzzles_seen": budget.puzzles_after(trainer.state.global_step),
        "solved": solved,
    }
    write_job(folder, result, outcomes)


@dataclass(frozen=True)
class TraceJobs:
    """The arms as jobs that run side by side (`sudoku_dllm.trials.jobs.Comparison`).

    Attributes:
        quiet: Whether no bars are printed.
    """

    quiet: bool = True

    def run(self, job: Job, folder: Path, *, resume: bool, training: Progress, judging: Progress) -> None:
        """Train an arm with a seed, decode and write the result; see `Comparison`."""
        run_arm(TRAININGS[job.arm], job.arm, job.seed, folder, training)
