"""The table and the picture of `scripts.signs.compare`; several runs, with other seeds or arms, make one of both.

python -m scripts.signs.report runs/signs_seed0 runs/signs_seed1 [--picture docs/images/signs.png]
python -m scripts.signs.report data/study/signs
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from llm_rl.training import load_pyplot, need_reports, parse, save_figure, user_errors, write_text_whole
from scripts.signs.task import best_blind_share, puzzles, summed_over_targets
from sudoku_dllm.trials import Records, estimate
from sudoku_dllm.trials.words import interval, markdown_table, signed

CONTROL = "more"
TITLES = {
    "ppo": "PPO",
    "grpo": "GRPO",
    "dpo": "DPO",
    "vapor": "VAPOR",
    CONTROL: "more of the start",
    "placebo": "placebo",
}


@dataclass
class Result:
    """What a model solves.

    Attributes:
        solved: The share of the completions of each held-out puzzle that solve it.
        steps: Optimizer steps of the arm.
        cpu_seconds: What they took, with the making of pairs.
    """

    solved: list[float]
    steps: int
    cpu_seconds: float

    @property
    def mean(self) -> float:
        """The share of all completions."""
        return float(np.mean(self.solved))


Results = dict[int, dict[str, Result]]
"""Seed → name of a model, the start first → its result."""


def read_results(runs: Sequence[Path]) -> tuple[Results, list[dict[str, Any]]]:
    """The seeds and models of several runs, and the held-out puzzles that they were judged on.

    Raises:
        FileNotFoundError: A run has no result.
        ValueError: Two runs hold other results for one model and seed, seeds have other models, or runs were judged on
            different puzzles.
    """
    found: dict[tuple[str, int], Result] = {}
    chosen = set()
    for run in runs:
        records = Records(run)
        if not (jobs := records.jobs()):
            raise FileNotFoundError(f"{run} holds no results; give run folders of finished runs")
        for job in jobs:
            kept, outcomes = records.result(job) or {}, records.outcomes(job)
            try:
                chosen.add((kept["settings"]["test_puzzles"], kept["settings"]["test_seed"]))
                name, seed = kept["arm"], kept["seed"]
                result = Result(outcomes["solved"].tolist(), kept["updates"], kept["cpu_seconds"])
            except KeyError as absent:
                raise ValueError(f"{run}: {job} has no {absent}; give runs of scripts.signs.compare") from absent
            if found.setdefault((name, seed), result) != result:
                raise ValueError(f"{run} holds another result of {name!r} with seed {seed} than a run before it")
    if len(chosen) > 1:
        raise ValueError(f"the runs were judged on different puzzles: {sorted(chosen)} (test_puzzles, test_seed)")
    known = ["start", *TITLES]
    names = sorted({name for name, _ in found}, key=lambda name: known.index(name) if name in known else len(known))
    seeds = sorted({seed for _, seed in found})
    if missing := [f"{name} with seed {seed}" for seed in seeds for name in names if (name, seed) not in found]:
        raise ValueError(f"the runs have no result of {', '.join(missing)}; give runs that have every model and seed")
    count, test_seed = chosen.pop()
    results = {seed: {name: found[name, seed] for name in names} for seed in seeds}
    return results, puzzles(count, test_seed, held_out=True)


def table(results: Results, rows: Sequence[dict[str, Any]]) -> str:
    """A line for each model: what it solves, and its lead over start and control; intervals over puzzles and seeds.

    Args:
        results: What the models solve.
        rows: The held-out puzzles, for what can be solved without reading the target.
    """
    names = list(next(iter(results.values())))
    solved = {name: np.array([found[name].solved for found in results.values()]) for name in names}  # (S, N) each
    others = [other for other in ("start", CONTROL) if other in names]
    lines = []
    for name in names:
        each = ", ".join(f"{100 * mean:.1f}" for mean in solved[name].mean(1))
        row = [TITLES.get(name, name), f"{100 * solved[name].mean():.1f}", each]
        for other in others:
            found = estimate(solved[name] - solved[other])
            told = f"{signed(found.mean)} {interval(found.puzzles)} {interval(found.seeds)}"
            row.append("" if name == other else told)
        steps, seconds = (
            np.mean([getattr(found[name], what) for found in results.values()]) for what in ("steps", "cpu_seconds")
        )
        sums = [summed_over_targets(rows, found[name].solved) for found in results.values()]
        lines.append([*row, ", ".join(f"{one:.2f}" for one in sums), f"{steps:,.0f}", f"{seconds:.0f}"])
    leads = [f"minus {TITLES.get(other, other)} (over puzzles, over seeds)" for other in others]
    text = markdown_table(
        ["", "solved %", "each seed", *leads, "summed over targets, each seed", "steps", "CPU seconds"], lines
    )
    return f"{text}\nThe best answers that do not depend on the target solve {100 * best_blind_share(rows):.1f} %.\n"


def plot(results: Results, rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Bars of what each model solves, with a dot for each seed and a line at what needs no look at the target."""
    plt = load_pyplot()
    figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
    names = list(next(iter(results.values())))
    for place, name in enumerate(names):
        means = [100 * found[name].mean for found in results.values()]
        color = "0.6" if name in ("start", CONTROL, "placebo") else "tab:blue"
        axes.bar(place, np.mean(means), 0.6, color=color, alpha=0.7)
        axes.plot(place + np.linspace(-0.1, 0.1, len(means)), means, "o", color="black", markersize=4)
    axes.set_xticks(range(len(names)), [TITLES.get(name, name).replace(" of ", "\nof ") for name in names])
    axes.axhline(100 * best_blind_share(rows), color="0.3", linestyle=":", linewidth=1)
    axes.set_ylabel("held-out puzzles solved, %")
    axes.spines[["top", "right"]].set_visible(False)
    save_figure(figure, path)
    plt.close(figure)


def report(results: Results, rows: Sequence[dict[str, Any]], run: Path) -> str:
    """Write `table.md` and `solved.png` to the run folder; the table."""
    text = table(results, rows)
    write_text_whole(run / "table.md", text)
    plot(results, rows, run / "solved.png")
    return text


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
