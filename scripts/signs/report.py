"""The table and the picture of `scripts.signs.compare`; several runs, with other seeds or arms, make one of both.

python -m scripts.signs.report runs/signs_seed0 runs/signs_seed1 [--picture docs/images/signs.png]
python -m scripts.signs.report data/study/signs
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from llm_rl.training import load_pyplot, need_reports, parse, save_figure, user_errors
from scripts.shared.signs import best_blind_share, puzzles, summed_over_targets
from sudoku_dllm.trials import Records
from sudoku_dllm.trials.results import Results
from sudoku_dllm.trials.trial_report import SOLVED
from sudoku_dllm.trials.words import interval, markdown_table, percent, signed

CONTROL = "more"
TITLES = {
    "ppo": "PPO",
    "grpo": "GRPO",
    "dpo": "DPO",
    "vapor": "VAPOR",
    CONTROL: "more of the start",
    "placebo": "placebo",
}


def read_results(runs: Sequence[Path]) -> tuple[Results, list[dict[str, Any]]]:
    """The seeds and models of several runs, and the held-out puzzles that they were judged on.

    Raises:
        FileNotFoundError: A run has no result.
        ValueError: Two runs hold other results for one model and seed, seeds have other models, or runs were judged on
            different puzzles.
    """
    for run in runs:
        if not Records(run).jobs():
            raise FileNotFoundError(f"{run} holds no results; give run folders of finished runs")
    results = Results([Records(run) for run in runs], ["start", *TITLES])
    try:
        settings = [result["settings"] for result in results.results.values()]
        chosen = sorted({(each["test_puzzles"], each["test_seed"]) for each in settings})
    except KeyError as absent:
        raise ValueError(f"results have no {absent}; give runs of scripts.signs.compare") from absent
    if len(chosen) != 1:
        raise ValueError(f"the runs were judged on different puzzles: {chosen} (test_puzzles, test_seed)")
    count, test_seed = chosen[0]
    return results.whole(), puzzles(count, test_seed, held_out=True)


def table(results: Results, rows: Sequence[dict[str, Any]]) -> str:
    """A line for each model: what it solves, and its lead over start and control; intervals over puzzles and seeds.

    Args:
        results: What the models solve.
        rows: The held-out puzzles, for what can be solved without reading the target.
    """
    others, lines = [other for other in ("start", CONTROL) if other in results.arms], []
    for name in results.arms:
        rate = results.rate(name, SOLVED)
        row = [TITLES.get(name, name), percent(rate.mean), ", ".join(map(percent, rate.per_seed))]
        for other in others:
            found = results.difference(name, other, SOLVED)
            told = f"{signed(found.mean)} {interval(found.puzzles)} {interval(found.seeds)}"
            row.append("" if name == other else told)
        sums = [summed_over_targets(rows, solved.tolist()) for solved in results.column(name, SOLVED)]
        cost = [f"{results.mean(name, 'updates'):,.0f}", f"{results.mean(name, 'cpu_seconds'):.0f}"]
        lines.append([*row, ", ".join(f"{one:.2f}" for one in sums), *cost])
    leads = [f"minus {TITLES.get(other, other)} (over puzzles, over seeds)" for other in others]
    text = markdown_table(
        ["", "solved %", "each seed", *leads, "summed over targets, each seed", "steps", "CPU seconds"], lines
    )
    return f"{text}\nThe best answers that do not depend on the target solve {100 * best_blind_share(rows):.1f} %.\n"


def plot(results: Results, rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Bars of what each model solves, with a dot for each seed and a line at what needs no look at the target."""
    plt = load_pyplot()
    figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
    for place, name in enumerate(results.arms):
        means = [100 * mean for mean in results.rate(name, SOLVED).per_seed]
        color = "0.6" if name in ("start", CONTROL, "placebo") else "tab:blue"
        axes.bar(place, np.mean(means), 0.6, color=color, alpha=0.7)
        axes.plot(place + np.linspace(-0.1, 0.1, len(means)), means, "o", color="black", markersize=4)
    titles = [TITLES.get(name, name).replace(" of ", "\nof ") for name in results.arms]
    axes.set_xticks(range(len(titles)), titles)
    axes.axhline(100 * best_blind_share(rows), color="0.3", linestyle=":", linewidth=1)
    axes.set_ylabel("held-out puzzles solved, %")
    axes.spines[["top", "right"]].set_visible(False)
    save_figure(figure, path)
    plt.close(figure)


@dataclass
class Arguments:
    """The runs, and where to write."""

    runs: list[Path] = field(metadata={"help": "Run folders of scripts.signs.compare, or results packed from them."})
    picture: Path | None = field(default=None, metadata={"help": "PNG to write."})


def main() -> None:
    """The command line."""
    (chosen,) = parse(Arguments, description=__doc__, places=("runs",))
    need_reports()
    with user_errors(OSError, ValueError):
        results, rows = read_results(chosen.runs)
        print(table(results, rows), end="")
        if chosen.picture:
            plot(results, rows, chosen.picture)


if __name__ == "__main__":
    main()
