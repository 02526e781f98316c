"""The table of a trial: what each model solves, and its lead over the start and the control, with both intervals."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from llm_rl.training.command_line import fail
from sudoku_dllm.trials.record import Records
from sudoku_dllm.trials.results import Results
from sudoku_dllm.trials.words import lead, markdown_table, percent

if TYPE_CHECKING:
    from sudoku_dllm.trials.trial import Trial

START, SOLVED = "start", "solved"


def chosen_arms(asked: Sequence[str] | None, known: Mapping[str, str]) -> list[str]:
    """The arms that are asked for, all of them for None; an unknown one ends the program."""
    chosen = list(known) if asked is None else list(asked)
    if unknown := [arm for arm in chosen if arm not in known]:
        fail(f"--arms {unknown[0]} is unknown; choose some of {', '.join(known)}")
    if not chosen or len(set(chosen)) < len(chosen):
        fail(f"--arms {' '.join(chosen)} must name at least one, and none twice")
    return chosen


def table(records: Records, trial: type["Trial"]) -> str:
    """A line for each model, in Markdown, of results with the same seeds for each, or a ValueError."""
    results = Results(records, [START, *trial.ARMS]).whole()
    names = results.arms
    columns = {trial.ARMS.get(name, name): list[str]() for name in names}

    # What is solved of each problem, and its leads.
    head = [""]
    if all(SOLVED in outcomes for outcomes in results.outcomes.values()):
        others = [other for other in (START, trial.CONTROL) if other in names]
        head += ["solved %", "each seed", *(f"minus {trial.ARMS.get(other, other)}" for other in others)]
        for name, row in zip(names, columns.values(), strict=True):
            rate = results.rate(name, SOLVED)
            leads = ["" if name == other else lead(results.difference(name, other, SOLVED)) for other in others]
            row += [percent(rate.mean), ", ".join(map(percent, rate.per_seed)), *leads]

    # Figures with each seed's, and the cost.
    head += [*trial.FIGURES.values(), "updates", "CPU s"]
    for name, row in zip(names, columns.values(), strict=True):
        for figure in trial.FIGURES:
            values = [one[figure] for one in results.each(name)]
            each = f"{np.mean(values):.3g} ({', '.join(f'{value:.3g}' for value in values)})"
            row.append("–" if np.isnan(values).all() else each)
        row += [f"{results.mean(name, cost):,.0f}" for cost in ("updates", "cpu_seconds")]
    return markdown_table(head, [[title, *row] for title, row in columns.items()])
