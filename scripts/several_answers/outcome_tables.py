"""Outcomes of the comparison on boards with several right answers as tables of a page."""

from pathlib import Path
from typing import Any

from sudoku_dllm.several.arguments import AFTER_LABEL, ARMS, RecipeArguments, ScriptArguments
from sudoku_dllm.several.judging import way
from sudoku_dllm.several.report import TITLES, Outcomes, ceiling_of, valid
from sudoku_dllm.several.setting import Setting
from sudoku_dllm.trials.arguments import BASE
from sudoku_dllm.trials.words import lead, markdown_table

LEADERS = {"judged": "Judged decisions", AFTER_LABEL: "The least completion, then judged decisions,"}


def outcomes_in(folder: Path, within: str = "", script: ScriptArguments | None = None, **recipe: Any) -> Outcomes:
    """The results of a comparison that lie in a folder, arms in their order.

    Args:
        folder: Folder of a study, of its runs or packed.
        within: Name of the comparison in the folder; by default that on 6×6.
        script: Its arguments; None is those of the default boards.
        **recipe: What it changes in the recipe.
    """
    args = RecipeArguments(report_to="none", use_cpu=True, **recipe)
    return Outcomes(script or ScriptArguments(), args, folder, (BASE, *ARMS), within=within)


def tables(outcomes: Outcomes) -> dict[str, str]:
    """The tables by their titles."""
    k = outcomes.args.tokens_per_step
    found = {
        "Valid grids, the order free": valid_table(outcomes, exclude_peers=False),
        "Valid grids, never two peers in a pass": valid_table(outcomes, exclude_peers=True),
    }
    for leader in outcomes.leaders:
        name = LEADERS[leader]
        found |= {
            f"{name} minus the others, the order free": differences_table(outcomes, leader),
            f"{name} minus the best control, each control decoded the better way": controls_table(outcomes, leader),
        }
    return found | {
        f"Valid grids at {k} cells a pass by clues, the order free": clues_table(outcomes, k),
        f"Passes of {k} cells, and {outcomes.script.draws} drawn decodes of the empty board": passes_table(outcomes, k),
    }


def a_pass(outcomes: Outcomes) -> list[str]:
    """Heads of the columns by cells a pass."""
    return [f"{cells} a pass" for cells in outcomes.script.eval_tokens]


def cost(outcomes: Outcomes, arm: str) -> list[str]:
    """Updates, CPU seconds and seeds of an arm."""
    each = outcomes.each(arm)
    updates = {f"{result['updates']:,}" for result in each}
    return [", ".join(sorted(updates)), f"{outcomes.spent(arm, use_cpu=True):.0f}", str(len(each))]


def valid_table(outcomes: Outcomes, *, exclude_peers: bool) -> str:
    """Per cent valid by arm and cells a pass, seeds together, with the ceiling."""
    script, rows = outcomes.script, []
    for arm in outcomes.arms:
        rates = [100 * outcomes.valid(arm, cells, exclude_peers).mean() for cells in script.eval_tokens]
        rows.append([TITLES[arm], *(f"{rate:.1f}" for rate in rates), *cost(outcomes, arm)])
    ceiling = ceiling_of(script, "no peers" if exclude_peers else "free") or {}
    told = [f"{ceiling[cells]:.1f}" if cells in ceiling else "" for cells in script.eval_tokens]
    rows.append(["ceiling: the marginals of random grids", *told, "", "", ""])
    return markdown_table(["trained by", *a_pass(outcomes), "updates", "CPU s", "seeds"], rows)


def differences_table(outcomes: Outcomes, leader: str) -> str:
    """The leader minus each other arm, of the seeds that both have."""
    rows = []
    for arm in outcomes.arms:
        if arm != leader:
            each = (outcomes.difference(leader, arm, valid(cells)) for cells in outcomes.script.eval_tokens)
            rows.append([TITLES[arm], *map(lead, each)])
    return markdown_table(["minus", *a_pass(outcomes)], rows)


def controls_table(outcomes: Outcomes, leader: str) -> str:
    """The leader, decoded freely, minus the best control at each number of cells a pass."""
    rows = []
    for cells in outcomes.script.eval_tokens:
        arm, exclude = outcomes.best_control(cells)
        ways = ((leader, way(cells)), (arm, way(cells, exclude)))
        passes = [f"{outcomes.column(name, f'{at}/passes').mean():.1f}" for name, at in ways]
        share = f"{100 * outcomes.valid(arm, cells, exclude).mean():.1f}"
        difference = lead(outcomes.difference(leader, arm, valid(cells), valid(cells, exclude)))
        rows.append([str(cells), f"{TITLES[arm]}{', no peers' * exclude}", share, difference, ", ".join(passes)])
    head = ["cells a pass", "best control", "valid", "minus it", "passes, of both"]
    return markdown_table(head, rows)


def clues_table(outcomes: Outcomes, k: int) -> str:
    """Per cent valid of the boards with so many clues, two numbers of clues together."""
    boards = Setting.load(outcomes.script, outcomes.args).test_boards()
    clues, (low, high) = (boards > 0).sum(1), outcomes.script.clues
    ranges = [(first, min(first + 1, high)) for first in range(low, high + 1, 2)]
    rows = []
    for arm in outcomes.arms:
        found = outcomes.valid(arm, k)  # (S, N)
        rates = (100 * found[:, (clues >= first) & (clues <= last)].mean() for first, last in ranges)
        rows.append([TITLES[arm], *(f"{rate:.1f}" for rate in rates)])
    return markdown_table(["trained by", *(f"{first} or {last} clues" for first, last in ranges)], rows)


def passes_table(outcomes: Outcomes, k: int) -> str:
    """What passes are like, with what cells drawn at random would give, and how many grids are left."""
    rows = []
    for arm in outcomes.arms:
        joint, *shares = outcomes.passes_like(arm, k)
        told = [f"{share:.1f} ({floor:.1f})" for share, floor in zip(shares[::2], shares[1::2], strict=True)]
        grids = [f"{outcomes.empty_board(arm, name):.1f}" for name in ("distinct", "patterns")]
        rows.append([TITLES[arm], f"{joint:.1f}", *told, f"{100 * outcomes.empty_board(arm, 'valid'):.1f}", *grids])
    head = ["trained by", "joint", "peers (random)", "definite (random)", "valid", "distinct grids", "up to digits"]
    return markdown_table(head, rows)
