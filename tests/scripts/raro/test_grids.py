"""The task of `scripts/raro/grids.py`, and its comparison as a user runs it, in small."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from llm_rl.raro.start import LABELS
from scripts.raro.demonstration import MAIN_ARMS
from scripts.raro.grids import BLANK, Grids, GridsArguments
from tests.helpers.warm_process import run_script

SCRIPT = Path(__file__).parents[3] / "scripts" / "raro" / "grids.py"
UNITS = [
    *({4 * row + column for column in range(4)} for row in range(4)),
    *({4 * row + column for row in range(4)} for column in range(4)),
    *({4 * (2 * i + a) + 2 * j + b for a in range(2) for b in range(2)} for i in range(2) for j in range(2)),
]


def trial(**changes: Any) -> Grids:
    return Grids(GridsArguments(**{"expert_answers": 40, "test_questions": 30, "completions": 16, **changes}))


def test_a_grid_is_right_if_no_unit_has_a_digit_twice_and_the_clues_stand() -> None:
    made = trial()
    rows = made.rows["train"]
    for row in rows[:10]:
        words = row["answer"].split()
        for place, digit in product(range(16), "1234"):
            changed = [*words[:place], digit, *words[place + 1 :]]
            by_hand = all(len({changed[cell] for cell in unit}) == 4 for unit in UNITS)
            by_hand &= all(clue in (BLANK, word) for clue, word in zip(row["question"].split(), changed, strict=True))
            assert made.is_right(" ".join(changed), row) == by_hand == (digit == words[place])
    bare = {"question": " ".join([BLANK] * 16)}
    for wrong in ("", "1 2 3 4", " ".join(["1"] * 16), rows[0]["answer"] + " 1", rows[0]["answer"].replace("1", "5")):
        assert not made.is_right(wrong, bare)
    assert made.right([rows[0]["answer"], "1"], question=[bare["question"]] * 2) == [1.0, 0.0]


def test_the_expert_is_right_on_boards_that_are_not_held_out() -> None:
    made = trial()
    rows = made.rows
    assert all(made.is_right(row["answer"], row) for split in rows.values() for row in split)
    assert not {row["question"] for row in rows["train"]} & {row["question"] for row in rows["test"]}
    assert len(rows["train"]) == 40 and len(rows["test"]) == 30
    clues = {16 - row["question"].split().count(BLANK) for split in rows.values() for row in split}
    assert clues <= {1, 2, 3, 4, 5}


def test_labels_name_the_expert() -> None:
    found, expert = set(), ""
    for row in trial().start_rows(0):
        if row["chosen"] not in LABELS:  # the policy's, before its critiques
            expert = row["chosen"]
            continue
        first, second = row["prompt"].split(" first ")[1].strip().removesuffix(" expert").split(" second ")
        same = (first == expert, second == expert)
        assert row["chosen"] == {(True, False): LABELS[0], (False, True): LABELS[1], (True, True): LABELS[2]}[same]
        found.add(row["chosen"])
    assert found == set(LABELS)


def test_what_is_refused() -> None:
    for wrong in ({"clues": [5, 1]}, {"clues": [1]}, {"rates": ["raro=0"]}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            GridsArguments(**wrong)


def test_the_arms_of_the_table_in_small(tmp_path: Path) -> None:
    words = ["--start_steps", "3", "--max_steps", "1", "--expert_answers", "24", "--test_questions", "12"]
    words += ["--completions", "16", "--hidden_size", "16", "--num_hidden_layers", "1", "--batch_size", "8"]
    done = run_script(SCRIPT, [*words, "--seeds", "0", "--jobs", "0", "--output_dir", str(tmp_path / "run")])
    assert done.returncode == 0, done.stderr[-3000:]
    table = (tmp_path / "run" / "table.md").read_text("utf-8")
    assert table in done.stdout and all(Grids.ARMS[arm] in table for arm in MAIN_ARMS)
