"""What the comparison prints and draws: a table with its leads, one picture."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dllm_rl.decoding.settings import NamedCheck
from llm_rl.training.reports import load_pandas, load_pyplot
from sudoku_dllm.several.arguments import AFTER_LABEL, RecipeArguments, ScriptArguments
from sudoku_dllm.several.judging import cells_of, way
from sudoku_dllm.trials.record import Records
from sudoku_dllm.trials.reporting import save_drawing
from sudoku_dllm.trials.results import Results
from sudoku_dllm.trials.words import percent, points, text_table

LOOKS = {
    "base": ("start", "#8a8a8a"),
    "sft": ("SFT on random grids", "#6b8fb5"),
    "sft_canonical": ("SFT on the solver's first completion", "#2a9d6f"),
    "sft_least": ("SFT on the least completion", "#7fbf9f"),
    "sft_own": ("SFT on own valid decodes", "#8c7bb0"),
    "ce": ("cross-entropy at visited states", "#5f6caf"),
    "policy_gradient": ("group-relative policy gradient", "#c9a227"),
    "source": ("the source's objective, both terms", "#b5651d"),
    "judged": ("judged decisions", "#d1495b"),
    "judged_after_label": ("SFT on the least completion, then judged decisions", "#7a1f3d"),
    "imitation": ("imitation of own guarded decodes", "#3a9fbf"),
    "imitation_after_label": ("SFT on the least completion, then imitation", "#1f5f7a"),
    "kept": ("what the check keeps", "#e07b39"),
    "judged_after_imitation": ("imitation, then judged decisions", "#a04fb0"),
}
"""Title and color of each arm."""
TITLES = {arm: title for arm, (title, _) in LOOKS.items()}
CEILINGS = {
    (4, 0, 4): {1: 100.0, 2: 58.1, 4: 24.9, 8: 13.0, 16: 4.3},
    (6, 1, 8): {1: 100.0, 2: 27.9, 4: 6.9, 6: 3.6, 9: 0.8},
}
"""Per cent valid of a model with the marginals of random grids, by cells a pass, decoded by margin with the most
probable digits (data/study/ceilings/tables.md); of boards by their size and their fewest and most clues."""
SHARES = (
    ("joint", "live"),
    ("peer_pairs", "pairs"),
    ("peer_floor", "pairs"),
    ("definite", "filled"),
    ("definite_floor", "filled"),
)
"""Columns of `Judged` whose ratios say what passes are like."""
COUNTED = ("checks", "rejected", "dead_end")
"""Columns of `Guarded` alone."""
ONE_ANSWER = "one_answer/valid"
"""The outcome of held-out boards that have one answer, without a check, at the trained cells a pass."""
CHECKED: dict[NamedCheck | None, str] = {
    None: "no check at decoding",
    "rules": "the rules at decoding",
    "completable": "the solver at decoding",
}


def valid(cells: int, guard: NamedCheck | None = None) -> str:
    """The outcome that says whether boards were completed validly."""
    return f"{way(cells, guard)}/valid"


class Outcomes(Results):
    """The results of the arms, read from the run folder, or from one that `sudoku_dllm.trials.packing` made of it.

    Args:
        script: What was trained, and how it was judged.
        args: The recipe of judged decisions.
        run: The folder.
        arms: See `Results`, as `seeds` and `within` are.
    """

    def __init__(
        self,
        script: ScriptArguments,
        args: RecipeArguments,
        run: Path,
        arms: Iterable[str],
        seeds: Sequence[int] | None = None,
        within: str = "",
    ) -> None:
        super().__init__(Records(run), arms, within=within, seeds=seeds)
        self.script, self.args = script, args

    def judged_by(self, guard: NamedCheck | None) -> list[str]:
        """The arms that were decoded with a guard; results of before there were any have none."""
        names = {valid(cells, guard) for cells in cells_of(self.script, guard)}
        without = {job.arm for job, found in self.outcomes.items() if not names <= found.keys()}
        return [arm for arm in self.arms if arm not in without]

    def row(self, arm: str, guard: NamedCheck | None = None) -> list[str]:
        """An arm's line of a table by cells a pass: per cent valid, by the rules in how many passes.

        By the solver, which leaves nothing invalid, passes / checks, and how many grids were drawn of the empty board.
        """
        told = []
        for at in (way(cells, guard) for cells in cells_of(self.script, guard)):
            names = ["valid", "passes", *["checks"] * (guard is not None)]
            rate, passes, *checks = (self.mean_of(arm, f"{at}/{name}") for name in names)
            if guard == "completable":
                told.append(f"{passes:.1f} / {checks[0]:.0f}" + f" ({percent(rate)} %)" * (rate < 1))
            else:
                told.append(percent(rate) + f" in {passes:.1f}" * (guard is not None))
        return [*told, f"{self.empty_board(arm, 'distinct', guard):.1f}"] if guard == "completable" else told

    def mean_of(self, arm: str, outcome: str) -> float:
        """The mean of an outcome over seeds and boards."""
        return float(self.column(arm, outcome).mean())

    def one_answer(self, arm: str) -> str:
        """Per cent of the boards with one answer that an arm completes at the trained cells a pass, without a check."""
        return percent(self.mean_of(arm, ONE_ANSWER))

    def passes_like(self, arm: str, cells: int) -> list[float]:
        """`SHARES` of an arm, decoded without a check, in per cent."""
        at = way(cells)
        return [100 * self.rate(arm, (f"{at}/{count}", f"{at}/{total}")).mean for count, total in SHARES]

    def empty_board(self, arm: str, name: str, guard: str = "") -> float:
        """What the drawn decodes of the empty board came to, mean over seeds."""
        return self.mean(arm, "empty_board" + f"_{guard}" * bool(guard), name)

    @property
    def leading_cells(self) -> int:
        """Cells a pass by which trainings are told apart without a check: as many as were trained for, or the most."""
        steps, k = self.script.eval_tokens, self.args.tokens_per_step
        return k if k in steps else steps[-1]

    @property
    def leaders(self) -> list[str]:
        """The arms that the others are compared with: judged decisions, without a label and after one, or the last."""
        return [arm for arm in ("judged", AFTER_LABEL) if arm in self.arms] or self.arms[-1:]

    def long_table(self) -> Any:
        """One row for each arm, seed, number of cells a pass and way, as `table.csv` has it; shares, not per cent."""
        rows = []
        ways = [(guard, cells, self.judged_by(guard)) for guard in CHECKED for cells in cells_of(self.script, guard)]
        for job, result in self.results.items():
            for guard, cells, arms in ways:
                if job.arm not in arms:
                    continue
                found, at = self.outcomes[job], way(cells, guard)
                row = {"arm": job.arm, "seed": job.seed, "cells_a_pass": cells, "guard": guard or "none"}
                row |= {"valid": float(found[f"{at}/valid"].mean()), "boards": len(found[f"{at}/valid"])}
                row["forward_passes"] = float(found[f"{at}/passes"].mean())
                row |= {name: float(np.mean(found.get(f"{at}/{name}", 0))) for name in COUNTED}
                rows.append(row | {name: result[name] for name in ("updates", "puzzles_seen", "cpu_seconds")})
        return load_pandas().DataFrame(rows)


def screen(outcomes: Outcomes) -> str:
    """What a run ends with on a terminal: one table, and what it shows in two sentences."""
    script, k, at = outcomes.script, outcomes.args.tokens_per_step, outcomes.leading_cells
    free, checked = script.eval_tokens, cells_of(script, "rules")
    by_rules, solver = k if k in checked else checked[0], script.size**2
    rules, passes = valid(by_rules, "rules"), f"{way(solver, 'completable')}/passes"
    arms = outcomes.judged_by("completable")

    # The table: a row for each arm, columns for decoders with no check, the rules, the solver.
    width = max(len(TITLES[arm]) for arm in arms)
    head = ["cells a pass", *map(str, free), str(by_rules), "all"]
    rows = [
        [TITLES[arm], *outcomes.row(arm), percent(outcomes.mean_of(arm, rules)), f"{outcomes.mean_of(arm, passes):.1f}"]
        for arm in arms
    ]
    over = f"{'':{width}}{'no check':>{7 * len(free)}}{'the rules':>12}{'the solver':>13}"
    table = text_table([width, *[7] * len(free), 12, 13], [head, *rows])

    # What it shows: the best training, and that a check at decoding needs none.
    base, best = arms[0], outcomes.best(valid(at))
    other = "sft" if "sft" in arms and best != "sft" else base
    lead = points(outcomes.difference(best, other, valid(at)))
    alone, needed = percent(outcomes.mean_of(base, rules)), f"{outcomes.mean_of(base, passes):.1f}"
    lines = [
        f"Per cent of {script.test_boards:,} held-out boards completed validly; the solver leaves none out: its passes",
        f"\n{over}",
        *table,
        f"\nWithout a check, {at} cells a pass, the best training is {TITLES[best]}:",
        f"{lead} points from {TITLES[other]} (95 %).",
        f"Of boards with one answer it completes {outcomes.one_answer(best)} % at {k}, the {TITLES[base]} "
        f"{outcomes.one_answer(base)} %.",
        f"With a check nothing need be trained: the {TITLES[base]} completes {alone} % by the rules, and all boards by",
        f"the solver, in {needed} passes.",
    ]
    return "\n".join(lines)


def ceiling_of(script: ScriptArguments) -> dict[int, float] | None:
    """What a model of random grids completes (data/study/ceilings/tables.md); None for boards without figures."""
    return CEILINGS.get((script.size, *script.clues))  # type: ignore[arg-type]


def draw(outcomes: Outcomes, path: Path, looks: Mapping[str, tuple[str, str]] = LOOKS) -> None:
    """Draw per cent valid by cells a pass to a PNG, and what is known of the ways with a guard: of the solver's passes.

    Arms have the titles and colors of `looks`.
    """
    plt = load_pyplot()
    script = outcomes.script
    valid_of = "valid grids (% of {:,} boards, {}–{} clues)".format(script.test_boards, *script.clues)
    guards = [guard for guard in CHECKED if outcomes.judged_by(guard)]
    figure, row = plt.subplots(1, len(guards), figsize=(1 + 5 * len(guards), 4.6), squeeze=False, layout="constrained")
    for axis, guard in zip(row[0], guards, strict=True):
        cells, in_passes = cells_of(script, guard), guard == "completable"
        name, scale, most = ("passes", 1, math.inf) if in_passes else ("valid", 100, 1.0)
        arms = outcomes.judged_by(guard)
        for aside, arm in zip(2 ** np.linspace(-0.12, 0.12, len(arms)), arms, strict=True):  # bars side by side
            label, color = looks[arm]
            found = [outcomes.rate(arm, f"{way(k, guard)}/{name}") for k in cells]
            axis.errorbar(
                aside * np.array(cells),
                [scale * each.mean for each in found],
                yerr=scale * np.array([each.bar(most) for each in found]).T,
                color=color,
                linewidth=2.4 if arm in outcomes.leaders else 1.4,
                marker="o",
                markersize=4,
                label=label,
            )
        if (ceiling := ceiling_of(script)) and guard is None:
            label = "ceiling of a model of random grids"
            axis.plot([*ceiling], [*ceiling.values()], color="black", linestyle=":", label=label)
        axis.set_xscale("log", base=2)
        axis.set_xticks(cells, [str(k) for k in cells])
        axis.set(title=CHECKED[guard], xlabel="cells a pass")
        axis.set_ylim(0, None if in_passes else 102)
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25)
        axis.set_ylabel("forward passes, all grids being valid" if in_passes else valid_of)
    save_drawing(figure, row[0, 0], path)
