"""The one rule that pairs two arms, by hand."""

from pathlib import Path

import numpy as np
import pytest

from llm_rl.training.reports import load_pyplot
from sudoku_dllm.trials.jobs import Job
from sudoku_dllm.trials.record import Records, pack, write_job
from sudoku_dllm.trials.reporting import save_drawing
from sudoku_dllm.trials.results import Results

SOLVED = {("base", 7): [1, 0, 0, 0], ("new", 0): [1, 1, 1, 0], ("new", 1): [1, 1, 0, 0], ("old", 1): [0, 1, 0, 0],
          ("old", 2): [0, 0, 0, 1], ("other", 0): [1, 1, 1, 1]}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for (arm, seed), solved in SOLVED.items():
        found = {"solved": np.array(solved, bool), "forward_passes": np.full(4, 2), "blanks": np.array([4, 4, 2, 2])}
        found |= {f"{way}/{name}": found[name] for way in "ab" for name in ("solved", "forward_passes")}
        found["b/forward_passes"] = np.full(4, 1 + seed)
        write_job(tmp_path / "run" / "six" / arm / f"seed{seed}", {"cost": {"seconds": 1.0 + seed}}, found)
    return tmp_path / "run"


def test_arms_are_paired_by_problem_and_by_the_seeds_that_both_have(folder) -> None:
    found = Results(Records(folder), ["old", "new", "base", "none"], within="six")
    assert found.arms == ["old", "new", "base"] and found.seeds("new", "old") == [1] == found.seeds("old", "new")
    assert found.missing == [Job("old", 0), Job("new", 2)]
    # Of new and old seed 1 alone: solved by new and not by old 1 of 4.
    assert (gap := found.difference("new", "old", "solved")).mean == 1 / 4 and gap.seeds is None
    # The base's row stands for both seeds of new: 2 of 4 more, then 1 of 4.
    gap = found.difference("new", "base", "solved")
    assert gap.per_seed == (0.5, 0.25) and gap.seeds is not None
    assert gap.puzzles[1] - gap.mean == pytest.approx(1.96 * np.std([0, 1, 0.5, 0], ddof=1) / 2, rel=1e-3)
    assert found.best("solved") == "new" and Results(Records(folder), ["base"], within="six").best("solved") == "base"
    assert found.seeds("base") == [7] and found.rate("base", "solved").seeds is None
    # Pooled: 3 and 2 solved of 12 blanks.
    assert found.rate("new", ("solved", "blanks")).per_seed == pytest.approx((3 / 12, 2 / 12))
    assert found.mean("old", "cost", "seconds") == 2.5


@pytest.mark.parametrize(("width", "rows"), [(16, 1), (6, 3)])
def test_a_legend_is_within_its_figure_and_of_one_row_where_that_fits(tmp_path, width, rows) -> None:
    figure, axis = load_pyplot().subplots(figsize=(width, 4), layout="constrained")
    for number in range(6):
        axis.plot([0, 1], label=f"training of its own, {number}")
    save_drawing(figure, axis, tmp_path / "drawing.png")
    box, texts = figure.legends[0].get_window_extent(), figure.legends[0].get_texts()
    assert box.x0 >= 0 and box.x1 <= figure.bbox.x1
    assert len({round(text.get_window_extent().y0) for text in texts}) == rows


def test_seeds_are_read_in_the_order_asked_for_and_what_lacks_is_told(folder, tmp_path) -> None:
    found = Results(Records(folder), ["base", "new", "old"], within="six", seeds=[2, 1])
    assert list(found.results) == [Job("old", 2), Job("new", 1), Job("old", 1)] and found.missing == [Job("new", 2)]
    with pytest.raises(ValueError, match="no result of new with seed 2; run those first"):
        found.whole()
    pack(folder, tmp_path / "packed")
    both = Results([Records(folder), Records(tmp_path / "packed")], ["other"], within="six")
    assert both.whole().column("other", "solved").tolist() == [[1.0] * 4]
    write_job(tmp_path / "again" / "six/other/seed0", {"cost": 1}, {})
    with pytest.raises(ValueError, match="another result of 'other' with seed 0"):
        Results([Records(folder), Records(tmp_path / "again")], ["other"], within="six")


def test_passes_are_those_of_the_seeds_that_arm_and_goal_have(folder) -> None:
    """With seed 1 new solves half by two passes in either way, and old, the goal, a quarter."""
    found = Results(Records(folder), ["new", "old", "other"], within="six")
    needed = found.passes_needed("new", ["a", "b"], ("old", "solved"))
    assert needed is not None and (needed.passes, needed.seeds) == (2.0, None)
    assert found.passes_needed("old", ["a", "b"], 0.75).passes == np.inf
    assert found.passes_needed("other", ["a", "b"], ("old", "solved")) is None
    assert found.sweep("new", ["a", "b"]).passes.tolist() == [[2.0] * 4, [1.5] * 4]
