"""The page on several right answers is what its kept results say, with what finished comparisons left there."""

import re

import pytest

from scripts.several_answers.outcome_tables import GONE, minus_others, outcomes_in, ways_table
from sudoku_dllm.several.report import CEILINGS, valid
from sudoku_dllm.trials.record import Records, arm_of
from sudoku_dllm.trials.results import Results
from sudoku_dllm.trials.words import lead, percent
from tests.helpers.warm_process import ROOT, finished

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


def commands() -> dict[str, dict[str, list[str]]]:
    """The options of each training that the page names, by its folder in the study."""
    told = re.findall(r"python scripts/train_sudoku\.py ([^\n]*)", PAGE.read_text("utf-8").replace("\\\n", " "))
    each = [{name: words for name, *words in map(str.split, one.split("--")[1:])} for one in told]
    return {one["output_dir"][0].removeprefix("runs/several_answers").strip("/"): one for one in each}


@pytest.mark.parametrize("name", ["", "guarded", "4x4", "9x9", "longer"])
def test_commands_say_what_was_run(name) -> None:
    command, found = commands()[name], outcomes_in(STUDY, name)
    gone = {arm for arms in GONE.values() for arm in arms}
    trained = [job for job in found.results if job.arm not in {"base", *gone}]
    assert {job.arm for job in trained} == {*command["arms"]}
    assert {str(job.seed) for job in trained} == {*command["seeds"]}


@pytest.mark.parametrize(
    ("name", "title"),
    [("4x4", "4×4, 0 to 4 clues"), ("9x9", "9×9, 0 to 20 clues"), ("longer", "6×6, four times the time")],
)
def test_tables_of_other_boards_and_of_more_time_follow_from_their_results(name, title) -> None:
    numbers = {option: [*map(int, words)] for option, words in commands()[name].items() if words[0].isdigit()}
    clues, eval_tokens, (size,) = (numbers[option] for option in ("clues", "eval_tokens", "size"))
    found = outcomes_in(STUDY, name, size=size, clues=clues, eval_tokens=eval_tokens)
    told = f"## {title}\n\n{ways_table(found)}\n## {title}: differences\n\n{minus_others(found)}"
    assert told in (STUDY / "tables.md").read_text("utf-8")


def test_the_table_of_few_answers_follows_from_its_results() -> None:
    page, records = PAGE.read_text("utf-8"), Records(STUDY)
    titles = {"start": "start", "judged": "judged decisions", "sft": "SFT on the same grids"}
    titles |= {"digits": "SFT on them, digits renamed", "symmetries": "SFT on their images under all symmetries"}
    arms = {arm_of(job) for job in records.jobs() if job.startswith("no_answers/")}
    assert len(arms) == page[page.index("| boards | grids shown") :].split("\n\n")[0].count("\n") - 1
    for arm in arms:
        folder, _, name = arm.rpartition("/")
        found, (_, size, grids, _) = Results(records, [name], within=folder), folder.split("/")
        one, *more = (found.rate(name, f"{k}/valid") for k in (1, 2, 4))
        each = f" ({', '.join(map(percent, one.per_seed))})" if len(one.per_seed) > 1 else ""
        cells = [size.replace("x", "×"), grids.removeprefix("grids"), titles[name]]
        cells += [f"{found.mean(name, 'cpu_seconds'):,.0f}", percent(one.mean) + each, *(percent(k.mean) for k in more)]
        assert f"| {' | '.join(cells)} |" in page


def test_the_table_of_another_reading_order_follows_from_its_results() -> None:
    label, shuffled = "sft_least", "reading_order/sft_least"
    found, columns = Results(Records(STUDY), (label, shuffled)), [valid(k) for k in (1, 2, 4, 6, 9)]
    both = found.seeds(label, shuffled)
    rows = [
        [name, *(percent(found.column(arm, column, both).mean()) for column in columns), str(len(both))]
        for arm, name in ((label, "SFT on the least completion"), (shuffled, "the same, cells read in a random order"))
    ]
    rows.append(["minus", *(lead(found.difference(shuffled, label, column)) for column in columns), ""])
    told = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    assert told in (STUDY / "tables.md").read_text("utf-8").split("## The least completion, cells read in")[1]


def test_the_page_is_made_again_byte_by_byte(tmp_path) -> None:
    script = ROOT / "scripts" / "several_answers" / "study.py"
    words = ["--study", STUDY, "--page", tmp_path / "docs" / "page.md", "--tables", tmp_path / "tables.md"]
    finished(script, words, timeout=300)
    assert (tmp_path / "tables.md").read_text(encoding="utf-8") == (STUDY / "tables.md").read_text(encoding="utf-8")
    assert (tmp_path / "docs" / "page.md").read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8")
    assert (tmp_path / "docs" / "images" / "several_answers.png").stat().st_size
