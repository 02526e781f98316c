"""What the comparison of labels prints and draws: the table, comparisons, one picture."""

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dllm_rl.decoding.evaluation import half_width
from llm_rl.training.reports import load_pandas, load_pyplot
from sudoku_dllm.labels.data import Setting
from sudoku_dllm.run_page.page import Table
from sudoku_dllm.trials.arguments import BASE
from sudoku_dllm.trials.jobs import Job
from sudoku_dllm.trials.record import Records
from sudoku_dllm.trials.reporting import save_drawing
from sudoku_dllm.trials.results import Name, Results
from sudoku_dllm.trials.words import fewest, percent, points, share, text_table
from sudoku_env.order import random_order_floor

TITLES = {
    "base": "base",
    "sft": "SFT",
    "sft_definite": "SFT, loss on definite cells alone",
    "ce": "cross-entropy at the policy's states",
    "placebo": "objective, every cell counted as definite",
    "objective": "objective: log f + cross-entropy on definite cells",
    "source": "both terms of the objective as its source has them",
}
COLORS = dict(zip(TITLES, ("#b0b0b0", "#6b8fb5", "#2a9d6f", "#8c7bb0", "#c9a227", "#d1495b", "#7a1f3d"), strict=True))
THIN = {"lw": 1, "ecolor": "#404040"}
Key = tuple[str, str, int]
"""A set of puzzles, a strategy, tokens a step."""
WHOLE = "whole_passes"
DEFINITE_FIRST = "definite cells first"
"""What tables call `greedy_definite`."""


def a_step(k: int) -> str:
    """So many tokens a step, in words."""
    return f"{k} token{'s' * (k > 1)} a step"


def column(key: Key, outcome: str = "solved") -> str:
    """The name of an outcome of decodes (`Evaluation`)."""
    return "/".join((*map(str, key), outcome))


def definite(key: Key) -> tuple[str, str]:
    """The outcomes whose ratio is `greedy_definite`, over all live states together."""
    return column(key, "greedy_definite_count"), column(key, "greedy_judged")


class Outcomes(Results):
    """The results of the arms, read from the run folder; all jobs have one."""

    def __init__(self, setting: Setting, run: Path, jobs: Sequence[Job]) -> None:
        arms, seeds = (list(dict.fromkeys(each)) for each in zip(*((job.arm, job.seed) for job in jobs), strict=True))
        super().__init__(Records(run), arms, seeds=seeds)
        self.setting = setting
        self.floors = {
            name: random_order_floor(
                np.stack([puzzle.layout.puzzle for puzzle in puzzles]),
                np.stack([puzzle.layout.solution for puzzle in puzzles]),
                seed=setting.args.seed,
            )
            for name, puzzles in setting.tests.items()
        }
        # A decode that is judged ends at its first error; what counts is what a whole one takes.
        for key in self.keys():
            for found in self.outcomes.values():
                found[column(key, WHOLE)] = self.passes(key[0], key[2])

    def passes(self, name: str, k: int) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Forward passes of a whole decode of each puzzle, float64 `(N,)`, at k tokens a step."""
        puzzles = self.setting.tests[name]
        masked = (self.setting.judged_as.batch(puzzles).responses == puzzles[0].layout.mask_id).sum(1).numpy()
        return np.ceil(masked / k)

    def passes_for(self, arm: str, reference: str, name: str) -> str:
        """The passes in which an arm solves as many puzzles as another at the fewest tokens a step, in words."""
        script = self.setting.script
        ways = ["/".join((name, script.strategies[0], str(k))) for k in script.eval_tokens]
        needed = self.passes_needed(arm, ways, (reference, column(self.leading(name))), (WHOLE, "solved"))
        assert needed is not None, "all arms have the same seeds"
        return fewest(needed)

    def order(self, name: str) -> tuple[str, str]:
        """The outcomes that make `greedy_definite` by the first strategy at the fewest tokens a step."""
        return definite(self.leading(name))

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
                name, how, k = key
                found = self.outcomes[job]
                solved, parts = found[column(key)], [found[part].sum() for part in definite(key)]
                rows.append(
                    {
                        "arm": job.arm,
                        "seed": job.seed,
                        "test_set": name,
                        "strategy": how,
                        "tokens_per_step": k,
                        "solved": float(solved.mean()),
                        "solved_ci95": half_width(solved),
                        "puzzles": len(solved),
                        "forward_passes": float(found[column(key, WHOLE)].mean()),
                        "greedy_definite": parts[0] / parts[1] if parts[1] else math.nan,
                        "random_floor": self.floors[name],
                        "updates": result["updates"],
                        "puzzles_seen": result["puzzles_seen"],
                        "cpu_seconds": result["cpu_seconds"],
                    }
                )
        return load_pandas().DataFrame(rows)


def tables(outcomes: Outcomes, name: str) -> list[Table]:
    """Of one test set: what is solved by tokens a step, with cost and order, and the leader's lead over the others."""
    script, use_cpu = outcomes.setting.script, outcomes.setting.args.use_cpu
    steps, first, order = script.eval_tokens, script.strategies[0], outcomes.order(name)
    by_step = [a_step(k) for k in steps]
    note = (
        f"± 95 % over puzzles and, with several seeds, over seeds. {DEFINITE_FIRST.capitalize()} is the share of "
        f"states whose surest cell is definite; in random order it is {100 * outcomes.floors[name]:.1f}."
    )
    found = []
    for how in script.strategies:
        rows = [
            [
                arm,
                *(share(outcomes.rate(arm, column((name, how, k)))) for k in steps),
                f"{outcomes.spent(arm, use_cpu=use_cpu):.0f}",
                percent(outcomes.rate(arm, order).mean),
            ]
            for arm in outcomes.arms
        ]
        title = f"{name}: per cent of {len(outcomes.setting.tests[name]):,} puzzles solved, decoded by {how}"
        header = ["arm", *by_step, "CPU s" if use_cpu else "seconds", DEFINITE_FIRST]
        found.append(Table(title, header, rows, note))
    leader, others = outcomes.leader, outcomes.others
    if not others:
        return found
    shown: list[Name] = [*(column((name, first, k)) for k in steps), order]
    leads = [[f"− {arm}", *(points(outcomes.difference(leader, arm, one)) for one in shown)] for arm in others]
    passes = ""
    if len(steps) > 1:
        reference = "sft" if "sft" in others else others[0]
        each = ", ".join(f"{arm} {outcomes.passes_for(arm, reference, name)}" for arm in outcomes.arms)
        passes = f"Forward passes a puzzle for what {reference} solves at {a_step(min(steps))}: {each}."
    return [*found, Table(f"{name}: {leader} minus …, in points", ["", *by_step, DEFINITE_FIRST], leads, passes)]


def closing_text(outcomes: Outcomes) -> str:
    """The tables of all test sets for a terminal."""
    parts = []
    for table in (table for name in outcomes.setting.tests for table in tables(outcomes, name)):
        lines = [table.header, *table.rows]
        widths = [2 + max(map(len, cells)) for cells in zip(*lines, strict=True)]
        parts += [table.title, *text_table(widths, lines), textwrap.fill(table.note, 100), ""]
    return "\n".join(parts)


def draw(outcomes: Outcomes, path: Path) -> None:
    """Draw the share of puzzles that each arm solves, by tokens a step, one panel a test set, to a PNG."""
    plt = load_pyplot()
    script = outcomes.setting.script
    names, how = list(outcomes.setting.tests), script.strategies[0]
    figure, axes = plt.subplots(
        1, len(names), figsize=(5.5 * len(names) + 1, 4.2), constrained_layout=True, sharey=True, squeeze=False
    )
    width = 0.8 / len(outcomes.arms)
    for axis, name in zip(axes[0], names, strict=True):
        for place, arm in enumerate(outcomes.arms):
            found = [outcomes.rate(arm, column((name, how, k))) for k in script.eval_tokens]
            x = np.arange(len(found)) + (place - (len(outcomes.arms) - 1) / 2) * width
            heights = [100 * each.mean for each in found]
            half = 100 * np.array([each.bar() for each in found]).T
            axis.bar(x, heights, width * 0.92, yerr=half, color=COLORS[arm], label=TITLES[arm], error_kw=THIN)
            for one, height, above in zip(x, heights, half[1], strict=True):
                axis.annotate(f"{height:.0f}", (one, height + above), ha="center", va="bottom", fontsize=8)
        count = len(outcomes.setting.tests[name])
        axis.set_xticks(range(len(script.eval_tokens)), map(a_step, script.eval_tokens))
        axis.set_title(f"{name} ({count:,} puzzles)")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0, 0].set_ylabel("puzzles solved (%)")
    save_drawing(figure, axes[0, 0], path)
