"""The report of the study on traces: tables and a picture, made from the results alone."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llm_rl.training import load_pyplot, save_figure, write_text_whole
from scripts.propagation.settings import (
    BUDGET_SECONDS,
    CONTROLS,
    EXAMPLES,
    GIVEN,
    INPUTS,
    LENGTH,
    MAIN,
    RATE_CHOICE,
    STATES,
    TEST_TRACES,
    TOKENS_PER_STEP,
    TRAININGS,
)
from scripts.study.results import checked_result
from sudoku_dllm.trials import Estimate, Records, arm_of, estimate
from sudoku_dllm.trials.words import lead, markdown_table, share

Results = dict[str, dict[int, dict[str, Any]]]
"""Arm → seed → result."""
CELLS = [(kind, tokens) for kind in GIVEN for tokens in TOKENS_PER_STEP]
COMPARED = (
    ("sft_definite", "sft"),
    ("log_f_ce_definite_4", "sft"),
    ("log_f_4", "sft"),
    ("ce_definite_4", "sft"),
    ("ce_4", "sft"),
    ("placebo_4", "sft"),
    ("sft_definite", "placebo_4"),
    ("log_f_ce_definite_4", "placebo_4"),
    ("log_f_4", "placebo_4"),
    ("ce_definite_4", "ce_4"),
    ("log_f_4", "ce_4"),
    ("log_f_ce_definite_4", "ce_definite_4"),
    ("log_f_ce_definite_4", "sft_definite"),
    ("log_f_4", "placebo_4_half_rate"),
    ("log_f_4", "ce_4_half_rate"),
    ("ce_definite_4", "ce_4_half_rate"),
)
"""Which arm is compared with which."""
UNLABELLED = ("sft", "ce_4", "placebo_4")
"""The arms that are not told what is definite."""
PICTURE = "propagation.png"

HEADER = f"""# Few examples of a task without symmetries: what the definite positions teach

Made by `python -m scripts.propagation.study`; do not edit. [Your own task](../../../docs/own_task.md) says what the
task is and what to read from this page.

Traces of {LENGTH} states of an automaton of {STATES} states and {INPUTS} inputs; a model of 0.1 million parameters from
scratch, {EXAMPLES} traces to train on, other ones for each seed, and updates that cost about {BUDGET_SECONDS} CPU
seconds in each arm. Per cent of {TEST_TRACES:,} held-out traces with every state right, decoded by margin. `test` has
{GIVEN["test"][0]} to {GIVEN["test"][1]} written states, as in training, `hard_test` {GIVEN["hard_test"][0]}. Intervals
are 95 %: first over traces, then over seeds; differences are paired, and bold where both intervals exclude zero.
"""


def load(runs: Path) -> tuple[Results, dict[str, dict[int, dict[str, NDArray[np.bool_]]]]]:
    """The results that are there, and whether each test trace was solved: arm → seed → "set/tokens" → `(N,)`.

    Raises:
        StudyConfigError: A result was made with other settings.
    """
    results: Results = {}
    outcomes: dict[str, dict[int, dict[str, NDArray[np.bool_]]]] = {}
    records = Records(runs)
    jobs = records.jobs()
    for name, training in TRAININGS.items():
        for job in jobs:
            if arm_of(job) == name and (result := checked_result(records, job, training.settings)) is not None:
                results.setdefault(name, {})[result["seed"]] = result
                outcomes.setdefault(name, {})[result["seed"]] = records.outcomes(job)
    return results, outcomes


class Comparison:
    """Solve rates and their differences.

    Args:
        outcomes: Arm → seed → "set/tokens" → bool `(N,)`.
    """

    def __init__(self, outcomes: dict[str, dict[int, dict[str, NDArray[np.bool_]]]]) -> None:
        self.outcomes = outcomes

    def solved(self, arm: str, cell: tuple[str, int]) -> Estimate:
        """Solve rate of an arm on a set at so many tokens a step."""
        return estimate(self._table(arm, cell, sorted(self.outcomes[arm])))

    def difference(self, first: str, second: str, cell: tuple[str, int]) -> Estimate:
        """Difference of solve rates, first - second, paired by trace and by seed."""
        seeds = sorted({*self.outcomes[first]} & {*self.outcomes[second]})
        return estimate(self._table(first, cell, seeds) - self._table(second, cell, seeds))

    def _table(self, arm: str, cell: tuple[str, int], seeds: Sequence[int]) -> NDArray[np.float64]:
        kind, tokens = cell
        return np.stack([self.outcomes[arm][seed][f"{kind}/{tokens}"] for seed in seeds]).astype(float)


def write_report(runs: Path, path: Path) -> None:
    """Write the report, and its picture to `images/` beside it.

    Args:
        runs: Folder of the results.
        path: Markdown to write; an existing file is replaced.

    Raises:
        StudyConfigError: A result was made with other settings.
    """
    results, outcomes = load(runs)
    found, main = Comparison(outcomes), [name for name in MAIN if name in results]
    parts = [HEADER]
    if main:
        machines = sorted({result["machine"] for by_seed in results.values() for result in by_seed.values()})
        (path.parent / "images").mkdir(parents=True, exist_ok=True)
        _draw(found, main, path.parent / "images" / PICTURE)
        seeds = sorted({seed for name in main for seed in results[name]})
        parts += [
            f"Seeds {seeds}. {'; '.join(machines)}.\n",
            f"## Solved\n\n{_solved_table(found, main)}",
            f"![Solved test traces by arm](images/{PICTURE})\n",
            f"## Differences\n\n{_difference_table(found, list(results))}",
            f"## Training\n\nOne token a step; means over seeds.\n\n{_training_table(results, main)}",
            f"## Rates\n\n{RATE_CHOICE}\n",
        ]
    if controls := [name for name in CONTROLS if name in results]:
        parts.append(f"## Controls\n\nFor {EXAMPLES} traces and one budget where not said.\n")
        parts.append(_control_table(results, controls))
    write_text_whole(path, "\n".join(parts))


def _solved_table(found: Comparison, arms: Sequence[str]) -> str:
    rows = [[f"`{arm}`", *(share(found.solved(arm, cell)) for cell in CELLS)] for arm in arms]
    return markdown_table(["", *map(_title, CELLS)], rows)


def _difference_table(found: Comparison, arms: Sequence[str]) -> str:
    rows = [
        [f"`{first}` − `{second}`", *(lead(found.difference(first, second, cell)) for cell in CELLS)]
        for first, second in COMPARED
        if first in arms and second in arms
    ]
    return markdown_table(["", *map(_title, CELLS)], rows)


def _training_table(results: Results, arms: Sequence[str]) -> str:
    rows = []
    for arm in arms:
        each = list(results[arm].values())
        shares = [_mean(each, f"{kind}") for kind in ("train/1", "test/1", "test/greedy_definite")]
        cost = [f"{each[0]['updates']:,.0f}", f"{np.mean([one['cpu_seconds'] for one in each]):.0f}"]
        rows.append([f"`{arm}`", *cost, *shares])
    head = ["", "updates", "CPU seconds", "solved of the examples", "of the tests", "surest position definite"]
    return markdown_table(head, rows)


def _control_table(results: Results, controls: Sequence[str]) -> str:
    rows = []
    for name in controls:
        each = list(results[name].values())
        cells = [_mean(each, f"{kind}/{tokens}") for kind, tokens in CELLS]
        rows.append([f"`{name}`", str(len(each)), *cells, _mean(each, "train/1")])
    return markdown_table(["", "seeds", *map(_title, CELLS), "of the examples"], rows)


def _draw(found: Comparison, arms: Sequence[str], path: Path) -> None:
    """Bars of what each arm solves of `test`, with both intervals, and a dot for each seed."""
    plt = load_pyplot()
    figure, axes = plt.subplots(1, len(TOKENS_PER_STEP), figsize=(11, 4), sharey=True, constrained_layout=True)
    for axis, tokens in zip(axes, TOKENS_PER_STEP, strict=True):
        for place, arm in enumerate(arms):
            rate = found.solved(arm, ("test", tokens))
            low, high = rate.seeds or rate.puzzles
            bars = [[100 * (rate.mean - low)], [100 * (high - rate.mean)]]
            axis.bar(place, 100 * rate.mean, yerr=bars, capsize=4, color="C7" if arm in UNLABELLED else "C0")
            axis.plot([place] * len(rate.per_seed), [100 * one for one in rate.per_seed], "k.", alpha=0.5)
        axis.set(title=f"{tokens} token{'s' * (tokens > 1)} a step", xticks=range(len(arms)), ylim=(0, 100))
        axis.set_xticklabels(arms, rotation=25, ha="right")
        axis.grid(axis="y", alpha=0.3)
    axes[0].set_ylabel("held-out traces solved (%)")
    save_figure(figure, path)
    plt.close(figure)


def _title(cell: tuple[str, int]) -> str:
    return f"{cell[0].replace('_', ' ')}, {cell[1]} a step"


def _mean(each: Sequence[dict[str, Any]], label: str) -> str:
    return f"{100 * np.mean([one['solved'][label] for one in each]):.1f}"
