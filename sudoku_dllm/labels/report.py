"""What the comparison of labels prints and draws: the plan, the table, comparisons, one picture."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dllm_rl.decoding import Evaluation
from dllm_rl.models.shipped import model_folder
from llm_rl.training.reports import load_pandas, load_pyplot
from llm_rl.training.storage import save_figure
from sudoku_dllm.labels.arguments import REFERENCE_SECONDS, UPDATES, ScriptArguments
from sudoku_dllm.labels.arm import budget_of, read_evaluations
from sudoku_dllm.labels.data import Setting
from sudoku_dllm.trials.arguments import BASE
from sudoku_dllm.trials.jobs import Job
from sudoku_dllm.trials.record import RESULT
from sudoku_dllm.trials.reporting import UNITS
from sudoku_dllm.trials.statistics import Estimate, PassesNeeded, Sweep, estimate, passes_needed, ratio_contributions
from sudoku_dllm.trials.words import fewest, half_widths, points, text_table
from sudoku_env.order import random_order_floor

SECONDS_A_PASS = 4e-9
"""CPU seconds that a parameter costs in decoding one puzzle for one step, measured on cores of 2023; for the plan."""
TITLES = {
    "base": "base",
    "sft": "SFT",
    "sft_definite": "SFT, loss on definite cells alone",
    "ce": "cross-entropy at the policy's states",
    "placebo": "objective, every cell counted as definite",
    "objective": "objective: log f + cross-entropy on definite cells",
}
COLORS = {
    "base": "#b0b0b0",
    "sft": "#6b8fb5",
    "sft_definite": "#2a9d6f",
    "ce": "#8c7bb0",
    "placebo": "#c9a227",
    "objective": "#d1495b",
}
THIN = {"lw": 1, "ecolor": "#404040"}
Key = tuple[str, str, int]


class Outcomes:
    """The results of the arms, read from the run folder.

    Args:
        setting: Base, puzzles and arguments.
        run: Folder of the run.
        jobs: Arms with their seeds; all have a result.
    """

    def __init__(self, setting: Setting, run: Path, jobs: Sequence[Job]) -> None:
        self.setting = setting
        self.results: dict[Job, dict[str, Any]] = {}
        self.evaluations: dict[Job, dict[Key, Evaluation]] = {}
        for job in jobs:
            folder = job.folder(run)
            self.results[job] = json.loads((folder / RESULT).read_text(encoding="utf-8"))
            self.evaluations[job] = read_evaluations(folder)
        self.arms = list(dict.fromkeys(job.arm for job in jobs))
        self.floors = {
            name: random_order_floor(
                np.stack([puzzle.layout.puzzle for puzzle in puzzles]),
                np.stack([puzzle.layout.solution for puzzle in puzzles]),
                seed=setting.args.seed,
            )
            for name, puzzles in setting.tests.items()
        }

    def of(self, arm: str, key: Key) -> list[Evaluation]:
        """The evaluations of an arm, one a seed."""
        return [found[key] for job, found in self.evaluations.items() if job.arm == arm]

    def solved(self, arm: str, key: Key) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Whether each puzzle was solved, float64 `(S, N)`; the base has a row for each seed of the others."""
        rows = np.stack([each.solved for each in self.of(arm, key)]).astype(float)
        seeds = max(sum(job.arm == name for job in self.results) for name in self.arms)
        return np.repeat(rows, seeds, axis=0) if arm == BASE and seeds > 1 else rows

    def difference(self, first: str, second: str, key: Key) -> Estimate:
        """Difference of solve rates, first − second, paired by puzzle and by seed."""
        return estimate(self.solved(first, key) - self.solved(second, key))

    def spent(self, arm: str) -> float:
        """Seconds that an arm trained for, mean over seeds: of the CPU, or of the clock on an accelerator."""
        clock = "cpu_seconds" if self.setting.args.use_cpu else "seconds"
        return float(np.mean([result[clock] for job, result in self.results.items() if job.arm == arm]))

    def passes(self, name: str, k: int) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Forward passes of a whole decode of each puzzle, float64 `(N,)`, at k tokens a step."""
        puzzles = self.setting.tests[name]
        masked = (self.setting.judged_as.batch(puzzles).responses == puzzles[0].layout.mask_id).sum(1).numpy()
        return np.ceil(masked / k)

    def passes_needed(self, arm: str, reference: str, name: str) -> PassesNeeded:
        """The passes in which an arm solves as many puzzles as another at the fewest tokens a step."""
        script = self.setting.script
        ways = [(name, script.strategies[0], k) for k in script.eval_tokens]
        passes = np.stack([self.passes(name, k) for k in script.eval_tokens])  # (P, N)
        solved = np.stack([self.solved(arm, way) for way in ways], axis=1)  # (S, P, N)
        return passes_needed([Sweep(passes, each) for each in solved], self.solved(reference, self.leading(name)))

    def order(self, arm: str, name: str) -> float:
        """`greedy_definite` by the first strategy at the fewest tokens a step, mean over seeds."""
        found = self.of(arm, self.leading(name))
        return float(np.mean([each.greedy_definite for each in found]))

    def order_difference(self, first: str, second: str, name: str) -> Estimate:
        """Difference of `greedy_definite`, over all live states together, by the delta method."""
        one, other = (
            np.stack(
                [ratio_contributions(each.greedy_definite_count, each.greedy_judged) for each in self.of(arm, key)]
            )
            for arm, key in ((first, self.leading(name)), (second, self.leading(name)))
        )
        return estimate(one - other)

    def leading(self, name: str) -> Key:
        """The way of decoding a set that comes first."""
        script = self.setting.script
        return name, script.strategies[0], min(script.eval_tokens)

    @property
    def leader(self) -> str:
        """The arm that the others are compared with: the objective, or the last one."""
        return "objective" if "objective" in self.arms else self.arms[-1]

    @property
    def others(self) -> list[str]:
        """The arms that were trained beside it."""
        return [arm for arm in self.arms if arm not in (self.leader, BASE)]

    def keys(self) -> list[Key]:
        """All sets, strategies and tokens a step."""
        script = self.setting.script
        return [(name, how, k) for name in self.setting.tests for how in script.strategies for k in script.eval_tokens]

    def long_table(self) -> Any:
        """One row for each arm, seed, set, strategy and number of tokens a step, as `table.csv` has it.

        `solved`, `greedy_definite` and `random_floor` are shares, `solved_ci95` is half of the interval over puzzles;
        `forward_passes` are those of a decode to its end.
        """
        rows = []
        for job, result in self.results.items():
            for key in self.keys():
                found = self.evaluations[job][key]
                name, how, k = key
                summary = found.summary()
                rows.append(
                    {
                        "arm": job.arm,
                        "seed": job.seed,
                        "test_set": name,
                        "strategy": how,
                        "tokens_per_step": k,
                        "solved": summary["solved"],
                        "solved_ci95": summary["solved_ci95"],
                        "puzzles": len(found.solved),
                        "forward_passes": float(self.passes(name, k).mean()),
                        "greedy_definite": summary["greedy_definite"],
                        "random_floor": self.floors[name],
                        "updates": result["updates"],
                        "puzzles_seen": result["puzzles_seen"],
                        "cpu_seconds": result["cpu_seconds"],
                    }
                )
        return load_pandas().DataFrame(rows)


def plan(setting: Setting, jobs: Sequence[Job], left: Sequence[Job], processes: int, parameters: int) -> str:
    """What will happen, what it does not show, and how long what is left to do takes."""
    script = setting.script
    clues = [int((puzzle.layout.puzzle > 0).sum()) for puzzle in setting.train]
    lines = [f"Base: {script.model.rsplit('/', 1)[-1]}, {parameters:,} parameters. From it are trained:"]
    for arm in dict.fromkeys(job.arm for job in jobs):
        if budget := budget_of(setting, arm):
            lines.append(f"  {arm:12s} {budget.amount:6,g} {UNITS[budget.by]}  {TITLES[arm]}")
    lines.append(f"each on the same {len(setting.train):,} puzzles with {min(clues)} to {max(clues)} clues.")
    for name, puzzles in setting.tests.items():
        found = [int((puzzle.layout.puzzle > 0).sum()) for puzzle in puzzles]
        lines.append(
            f"Tested on {len(puzzles):,} of {name}, {min(found)} to {max(found)} clues; no grid of them is trained on."
        )
    if script.images == 1:
        lines.append(
            "No symmetry is used: this stands for data that has none. On Sudoku images of the puzzles undo the gain"
            " (--images 60 --rates sft=4e-3; docs/results.md)."
        )
    else:
        lines.append(
            f"Every arm trains on {script.images} images of each puzzle under symmetries ({script.symmetries})."
        )
    minutes = expected_minutes(setting, left, processes, parameters)
    if minutes:
        lines.append(
            f"{max(processes, 1)} at a time: about {minutes} minute{'s' * (minutes > 1)} on cores that do nothing else."
        )
    return "\n".join(lines)


def expected_minutes(setting: Setting, jobs: Sequence[Job], processes: int, parameters: int) -> int | None:
    """Whole minutes on CPU; None on an accelerator, and where updates of another base are counted."""
    script = setting.script
    seconds = script.train_seconds
    if seconds is None and script.model == model_folder(ScriptArguments.model):
        seconds = REFERENCE_SECONDS * setting.args.max_steps / UPDATES["objective"]
    if seconds is None or not setting.args.use_cpu:
        return None
    blanks = [sum(int((puzzle.layout.puzzle == 0).sum()) for puzzle in puzzles) for puzzles in setting.tests.values()]
    passes = sum(blanks) * sum(1 / k for k in script.eval_tokens) * len(script.strategies)
    judged = passes * parameters * SECONDS_A_PASS
    training = sum(seconds for job in jobs if job.arm != BASE)
    return math.ceil((training + judged * len(jobs)) / max(processes, 1) / 60)


def closing_text(outcomes: Outcomes) -> str:
    """The table by set and tokens a step, the order, and the comparisons of the last arm with the others."""
    script, parts = outcomes.setting.script, []
    for name in outcomes.setting.tests:
        for how in script.strategies:
            parts.append(_solved_text(outcomes, name, how))
    leader, others = outcomes.leader, outcomes.others
    width = max((len(arm) for arm in others), default=0)
    for name in outcomes.setting.tests:
        if others:
            parts.append(f"{name}, {leader} minus …, in points (95 % over puzzles; with several seeds also over seeds)")
        for other in others:
            each = [
                f"{k}: {points(outcomes.difference(leader, other, (name, script.strategies[0], k)))}"
                for k in script.eval_tokens
            ]
            order = points(outcomes.order_difference(leader, other, name))
            parts.append(f"  {other.ljust(width)}  " + "   ".join(each) + f"   greedy_definite {order}")
        if len(script.eval_tokens) > 1 and others:
            parts.append(_passes_text(outcomes, name, "sft" if "sft" in others else others[0]))
        parts.append("")
    return "\n".join(parts)


def _solved_text(outcomes: Outcomes, name: str, how: str) -> str:
    script = outcomes.setting.script
    count = len(outcomes.setting.tests[name])
    head = [f"{k} token{'s' * (k > 1)}" for k in script.eval_tokens]
    seconds = "CPU s" if outcomes.setting.args.use_cpu else "seconds"
    rows = [["", *head, seconds, "greedy_definite"]]
    for arm in outcomes.arms:
        rates = [f"{100 * outcomes.solved(arm, (name, how, k)).mean():.1f}" for k in script.eval_tokens]
        rows.append([arm, *rates, f"{outcomes.spent(arm):.0f}", f"{100 * outcomes.order(arm, name):.1f}"])
    heads, *lines = text_table([14, *[10] * len(head), 10, 16], rows)
    title = f"{name}: per cent of {count:,} puzzles solved, decoded by {how} at so many tokens a step"
    heads += f" (random order {100 * outcomes.floors[name]:.1f})"
    return "\n".join([title, heads, *lines]) + "\n"


def _passes_text(outcomes: Outcomes, name: str, reference: str) -> str:
    k = min(outcomes.setting.script.eval_tokens)
    words = [f"{arm} {fewest(outcomes.passes_needed(arm, reference, name))}" for arm in outcomes.arms]
    return (
        f"  forward passes a puzzle for what {reference} solves at {k} token{'s' * (k > 1)} a step: {', '.join(words)}"
    )


def draw(outcomes: Outcomes, path: Path) -> None:
    """Draw the share of puzzles that each arm solves, by tokens a step, one panel a test set.

    Args:
        outcomes: The results.
        path: PNG to write; an existing file is replaced whole or not at all.
    """
    plt = load_pyplot()
    script = outcomes.setting.script
    names, how = list(outcomes.setting.tests), script.strategies[0]
    figure, axes = plt.subplots(
        1, len(names), figsize=(5.5 * len(names) + 1, 4.2), constrained_layout=True, sharey=True, squeeze=False
    )
    width = 0.8 / len(outcomes.arms)
    for axis, name in zip(axes[0], names, strict=True):
        for place, arm in enumerate(outcomes.arms):
            tables = [outcomes.solved(arm, (name, how, k)) for k in script.eval_tokens]
            found = [estimate(table) for table in tables]
            x = np.arange(len(tables)) + (place - (len(outcomes.arms) - 1) / 2) * width
            heights = [100 * each.mean for each in found]
            half = [half_widths(each)[0] for each in found]
            axis.bar(x, heights, width * 0.92, yerr=half, color=COLORS[arm], label=TITLES[arm], error_kw=THIN)
            for one, height, above in zip(x, heights, half, strict=True):
                axis.annotate(f"{height:.0f}", (one, height + above), ha="center", va="bottom", fontsize=8)
        count = len(outcomes.setting.tests[name])
        axis.set_xticks(
            range(len(script.eval_tokens)), [f"{k} token{'s' * (k > 1)} a step" for k in script.eval_tokens]
        )
        axis.set_title(f"{name} ({count:,} puzzles)")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0, 0].set_ylabel("puzzles solved (%)")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    save_figure(figure, path)
    plt.close(figure)
