"""The page on several right answers is what its kept results say, and what another order shows."""

import shlex
from pathlib import Path

import numpy as np
import pytest

from scripts.several_answers.further import command_of
from scripts.several_answers.outcome_tables import GONE, STUDIED, outcomes_in
from scripts.several_answers.reading_order import LABEL, SHUFFLED, table
from sudoku_dllm.several.report import CEILINGS
from sudoku_dllm.trials.record import Records, write_job
from tests.helpers.warm_process import finished

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "several_answers.md"
STUDY = ROOT / "data" / "study" / "several_answers"


@pytest.mark.parametrize(
    ("boards", "heading", "row"),
    [
        ((4, 0, 4), "4×4, the empty", "| margin, mean over 0–4"),
        ((6, 1, 8), "6×6, 1–8 clues", "| margin | most probable"),
    ],
)
def test_ceilings_are_those_of_their_page(boards, heading, row) -> None:
    page = (ROOT / "data" / "study" / "ceilings" / "tables.md").read_text(encoding="utf-8")
    table = page[page.index(f"## {heading}") :].split("\n## ")[0]
    (found,) = (line for line in table.splitlines() if line.startswith(row))
    assert [float(cell.split()[0]) for cell in found.split("|")[3:-1]] == [*CEILINGS[boards].values()]


def test_commands_say_what_was_run() -> None:
    """Words of the command that an argument parser reads as the arms and seeds that lie in the folder."""
    words = shlex.split(command_of(outcomes_in(STUDY), {"size": 9}, "9x9").replace("\\\n", " "))
    assert words[:2] == ["python", "scripts/train_sudoku.py"]
    assert words[words.index("--seeds") + 1 : words.index("--test_boards")] == ["0", "1", "2", "3", "4"]
    assert words[words.index("--size") + 1] == "9" and words[words.index("--eval_tokens") + 1 :][:2] == ["1", "2"]
    assert words[-2:] == ["--output_dir", "runs/several_answers/9x9"]
    arms = words[words.index("--arms") + 1 : words.index("--seeds")]
    gone = {arm for arms in GONE.values() for arm in arms}
    assert gone < {*outcomes_in(STUDY).arms} and set(arms) == {*outcomes_in(STUDY).arms} - gone - {"base"}


def test_the_page_is_made_again_byte_by_byte(tmp_path) -> None:
    script = ROOT / "scripts" / "several_answers" / "study.py"
    words = ["--study", STUDY, "--page", tmp_path / "docs" / "page.md", "--tables", tmp_path / "tables.md"]
    finished(script, words, timeout=300)
    assert (tmp_path / "tables.md").read_text(encoding="utf-8") == (STUDY / "tables.md").read_text(encoding="utf-8")
    assert (tmp_path / "docs" / "page.md").read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8")
    assert (tmp_path / "docs" / "images" / "several_answers.png").stat().st_size


def test_the_table_compares_seeds_that_both_have(tmp_path) -> None:
    for arm, seed, solved in ((LABEL, 0, [1, 0]), (LABEL, 1, [0, 0]), (SHUFFLED, 0, [1, 1])):
        outcomes = {f"{k}/free/valid": np.array(solved, bool) for k in STUDIED["eval_tokens"]}
        write_job(tmp_path / arm / f"seed{seed}", {"arm": arm}, outcomes)
    least, other, minus = (line.split(" | ") for line in table(Records(tmp_path)).splitlines()[2:])
    assert (least[1], other[1], least[-1].split()[0]) == ("50.0", "100.0", "1")
    assert minus[1].startswith("+50.0 ")
    assert not table(Records(tmp_path / "nothing"))
