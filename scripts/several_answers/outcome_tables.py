"""Outcomes of the comparison on boards with several right answers as tables of a page."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dllm_rl.decoding.settings import NamedCheck
from sudoku_dllm.several.arguments import AFTER_LABEL, RecipeArguments, ScriptArguments
from sudoku_dllm.several.judging import cells_of, way
from sudoku_dllm.several.report import CHECKED, LOOKS, Outcomes, ceiling_of, valid
from sudoku_dllm.trials.arguments import BASE
from sudoku_dllm.trials.words import lead, markdown_table, share

GONE = {
    "sft_least": {"sft_nearest": ("SFT on the completion nearest to a pattern", "#145c3f")},
    "judged": {
        "judged_positions": ("judged decisions, gradient of positions alone", "#e58e9a"),
        "judged_tokens": ("judged decisions, gradient of tokens alone", "#f0b7a0"),
    },
}
"""Arms that commit 73cb6d0 trains and whose records are kept, by the arm that they follow: title and color."""
KEPT = {name: look for arm, own in LOOKS.items() for name, look in {arm: own, **GONE.get(arm, {})}.items()}
TITLES = {arm: title for arm, (title, _) in KEPT.items()}
FREE, RULES, SOLVER = (f"Valid grids, {way}" for way in CHECKED.values())
GUARDED = "guarded"
"""The folder of what was trained anew to be judged with checks at decoding."""
WORTH = "What a check is worth, at decoding and in training"
USED = "Where the check is used, and by what decoder"
COMPARED: dict[NamedCheck | None, tuple[tuple[str, str], ...]] = {
    None: (
        *(("imitation", arm) for arm in ("sft_least", "judged", "kept")),
        *(("judged_after_imitation", arm) for arm in ("judged", "imitation")),
        ("imitation_after_label", "sft_least"),
    ),
    "rules": (*(("imitation", arm) for arm in ("sft_least", "judged")), ("judged_after_imitation", "judged")),
}
"""Which trainings are subtracted from which, by the check at decoding."""


def studied(**options: Any) -> ScriptArguments:
    """The boards of the study and how they are decoded, in place of the defaults, which are of a comparison of minutes.

    Args:
        **options: What another comparison has in their place.
    """
    return ScriptArguments(**{"test_boards": 400, "eval_tokens": [1, 2, 4, 6, 9], "draws": 200, **options})


def outcomes_in(folder: Path, within: str = "", **options: Any) -> Outcomes:
    """The results of a comparison that lie in a folder, arms in their order.

    Args:
        folder: Folder of a study, of its runs or packed.
        within: Name of the comparison in the folder; by default that on 6×6.
        **options: See `studied`.
    """
    args = RecipeArguments(report_to="none", use_cpu=True)
    return Outcomes(studied(**options), args, folder, KEPT, within=within)


def guarded_tables(outcomes: Outcomes) -> dict[str, str]:
    """The tables of trainings that were judged with checks at decoding too, by their titles."""
    found = {WORTH: worth_table(outcomes), f"{FREE}, trained anew": ways_table(outcomes)}
    if {"sft", "imitation"} <= {*outcomes.arms}:
        found[USED] = used_table(outcomes)
    found |= {RULES: ways_table(outcomes, "rules"), SOLVER: ways_table(outcomes, "completable")}
    for guard, pairs in COMPARED.items():
        found[f"Differences, {CHECKED[guard]}, trained anew"] = differences_table(outcomes, pairs, guard)
    return found


def tables(outcomes: Outcomes) -> dict[str, str]:
    """The tables of the study, decoded without a check, by their titles."""
    k = outcomes.args.tokens_per_step
    return {
        FREE: ways_table(outcomes),
        "Differences, no check at decoding": minus_others(outcomes),
        f"Passes of {k} cells, and {outcomes.script.draws} drawn decodes of the empty board": passes_table(outcomes, k),
    }


def worth_table(outcomes: Outcomes) -> str:
    """Decoders by columns, trainings by rows: per cent valid at the trained number of cells, passes by the solver."""
    k, solver = outcomes.args.tokens_per_step, way(outcomes.script.size**2, "completable")
    rows = []
    for arm in outcomes.judged_by("completable"):
        valid_of = [share(outcomes.rate(arm, valid(k, guard))) for guard in (None, "rules")]
        passes, checks = (outcomes.mean_of(arm, f"{solver}/{name}") for name in ("passes", "checks"))
        drawn = (outcomes.empty_board(arm, "distinct", guard) for guard in ("", "completable"))
        rows.append([TITLES[arm], *valid_of, f"{passes:.2f} / {checks:.0f}", " / ".join(f"{one:.0f}" for one in drawn)])
    free, ruled, solved = CHECKED.values()
    head = ["trained by", f"{free}, {k} cells", f"{ruled}, {k} cells", f"{solved}, all cells: passes / checks"]
    return markdown_table([*head, "different grids, no check / the solver"], rows)


def used_table(outcomes: Outcomes) -> str:
    """The check in nothing, at decoding, in training and in both; who trains without it has random grids to learn."""
    k, solver, rows = outcomes.args.tokens_per_step, outcomes.script.size**2, []
    at: dict[NamedCheck | None, int] = {None: k, "rules": k, "completable": solver}
    for arm, names in {"sft": ("in nothing", "at decoding"), "imitation": ("in training", "in both")}.items():
        cells = [outcomes.row(arm, guard)[cells_of(outcomes.script, guard).index(many)] for guard, many in at.items()]
        rows += [[names[0], TITLES[arm], cells[0], "", ""], [names[1], TITLES[arm], "", *cells[1:]]]
    heads = [f"{CHECKED[guard]}, {'all' if many == solver else many} cells" for guard, many in at.items()]
    return markdown_table(["the check is used", "trained by", *heads], rows)


def a_pass(cells: Sequence[int]) -> list[str]:
    """Heads of the columns by cells a pass."""
    return [f"{k} a pass" for k in cells]


def cost(outcomes: Outcomes, arm: str) -> list[str]:
    """Updates, CPU seconds and seeds of an arm."""
    each = outcomes.each(arm)
    updates = {f"{result['updates']:,}" for result in each}
    return [", ".join(sorted(updates)), f"{outcomes.spent(arm, use_cpu=True):.0f}", str(len(each))]


def ways_table(outcomes: Outcomes, guard: NamedCheck | None = None) -> str:
    """What one way of decoding gives, by arm and cells a pass, seeds together (`Outcomes.row`); ceiling, costs once."""
    cells, judged = cells_of(outcomes.script, guard), outcomes.judged_by(guard)
    aside = {None: ["updates", "CPU s", "seeds"], "rules": [], "completable": ["different"]}[guard]
    rows = [[TITLES[arm], *outcomes.row(arm, guard), *(cost(outcomes, arm) if guard is None else [])] for arm in judged]
    if (ceiling := ceiling_of(outcomes.script)) and guard is None:
        told = [f"{ceiling[k]:.1f}" if k in ceiling else "" for k in cells]
        rows.append(["ceiling: the marginals of random grids", *told, "", "", ""])
    return markdown_table(["trained by", *a_pass(cells), *aside], rows)


def minus_others(outcomes: Outcomes) -> str:
    """Judged decisions minus each other training, and behind the label minus the label alone."""
    pairs = [("judged", arm) for arm in outcomes.arms if arm not in (BASE, "judged", AFTER_LABEL)]
    return differences_table(outcomes, [*pairs, (AFTER_LABEL, "sft_least")])


def differences_table(outcomes: Outcomes, pairs: Sequence[tuple[str, str]], guard: NamedCheck | None = None) -> str:
    """The first of each pair minus the second, of the seeds that both have, where both are there."""
    cells, rows = cells_of(outcomes.script, guard), []
    for pair in (pair for pair in pairs if {*pair} <= {*outcomes.arms}):
        each = (lead(outcomes.difference(*pair, valid(k, guard))) for k in cells)
        rows.append([" − ".join(TITLES[arm] for arm in pair), *each])
    return markdown_table(["minus", *a_pass(cells)], rows)


def passes_table(outcomes: Outcomes, k: int) -> str:
    """What passes are like, with what cells drawn at random would give, and how many grids are left."""
    rows = []
    for arm in outcomes.arms:
        joint, *shares = outcomes.passes_like(arm, k)
        told = [f"{share:.1f} ({floor:.1f})" for share, floor in zip(shares[::2], shares[1::2], strict=True)]
        grids = [f"{100 * outcomes.empty_board(arm, 'valid'):.1f}", f"{outcomes.empty_board(arm, 'distinct'):.1f}"]
        rows.append([TITLES[arm], f"{joint:.1f}", *told, *grids])
    head = ["trained by", "joint", "peers (random)", "definite (random)", "valid", "distinct grids"]
    return markdown_table(head, rows)
