"""Tables of studies, and those of pages, say what the results of the repository say."""

import re
from pathlib import Path

import numpy as np
import pytest

from scripts.raro.digits import Digits
from scripts.referee.report import overview, pages
from sudoku_dllm.labels.arguments import RecipeArguments, ScriptArguments
from sudoku_dllm.trials.arguments import SOURCE
from sudoku_dllm.trials.record import Records
from sudoku_dllm.trials.results import Results
from sudoku_dllm.trials.statistics import estimate
from sudoku_dllm.trials.words import lead, passes, percent, share

ROOT = Path(__file__).parents[3]
DOCS, STUDIES = ROOT / "docs", ROOT / "data" / "study"
RARO = DOCS / "raro.md"
REFEREE_TASKS = ("boards", "published", "countdown", "countdown_form", "unique", "unique_9x9")
REFEREE_NUMBERS = ("boards_1", "boards_2", "boards_4", "boards_9")
REFEREE_NINETY = ("boards_lower", "boards_passes", "boards_divergence", "boards_dispo")
REFEREE_LONGER = ("boards_longer", "boards_longer_first", "boards_longer_passes")
REFEREE_RUNS = (*REFEREE_TASKS, *REFEREE_NINETY, *REFEREE_NUMBERS, *REFEREE_LONGER)
REFEREE_RATES = tuple(f"{task}_rates" for task in (*REFEREE_TASKS, "boards_longer"))
ARMS = ("start", "raro", "more")


def below(page: str, heading: str) -> list[list[str]]:
    """The cells of the first table below a heading."""
    lines = page[page.index(heading) :].split("\n\n", 2)[1].strip().splitlines()
    return [[cell.strip() for cell in line.strip("|").split(" |")] for line in [lines[0], *lines[2:]]]


@pytest.mark.slow
@pytest.mark.parametrize("study", ["causes", "several_tokens", "beyond_singles"])
def test_what_arms_of_a_study_solve_their_differences_and_passes(study) -> None:
    """A cell has the figure and below it the lead over the arm that has none; a row `A − B` leads alone."""
    for part in (STUDIES / study / "tables.md").read_text("utf-8").split("\n## ")[1:]:
        (_, *heads), *rows = below(part, "### Solved")
        reference = next(arm for arm, *cells in rows if "[" not in cells[0])
        arms = [arm for arm, *_ in rows if "−" not in arm]
        found = Results(Records(STUDIES / study), arms, within=part.split()[0])
        steps = [re.search(r"\d+(?= a step)", head) for head in heads]
        ways = [f"margin k={step.group()}".removesuffix(" k=1") if step else "margin" for step in steps]
        for arm, *cells in rows:
            one, other = arm.split(" − ") if "−" in arm else (arm, reference)
            for head, way, cell in zip(heads, ways, cells, strict=True):
                start = f"{head.split(',')[0].replace(' ', '_')}/{way}"
                name = (f"{start}/greedy_definite", f"{start}/greedy_cells") if "`" in head else f"{start}/solved"
                told = [] if "−" in arm else [percent(found.rate(one, name).mean)]
                told += [lead(found.difference(one, other, name))] if one != other else []
                assert cell == "<br>".join(told), (part.split()[0], arm, head)
        for arm, cell, *_ in below(part, "### Passes")[1:]:
            swept = [f"test/{way}" for way in dict.fromkeys(ways)]
            assert cell == passes(found.passes_needed(arm, swept, (reference, "test/margin/solved")))


def test_what_arms_of_the_study_on_traces_solve_and_their_differences() -> None:
    page, records = (STUDIES / "propagation" / "tables.md").read_text("utf-8"), Records(STUDIES / "propagation")
    names = [f"{puzzles}/{tokens}" for puzzles in ("test", "hard_test") for tokens in (1, 4)]
    solved, differences = ([[*row] for row in below(page, head)[1:]] for head in ("## Solved", "## Differences"))
    found = Results(records, [arm.strip("`") for arm, *_ in solved])
    for arm, *cells in solved:
        assert cells == [share(found.rate(arm.strip("`"), name)) for name in names]
    for pair, *cells in differences:
        one, other = pair.replace("`", "").split(" − ")
        assert cells == [lead(found.difference(one, other, name)) for name in names]


def test_the_comparison_of_labels_is_the_study_of_few_examples() -> None:
    """The recipe of `make train`, and its rates, are those that the study reports five seeds of."""
    records = Records(STUDIES / "causes")
    script, recipe = ScriptArguments(), vars(RecipeArguments())
    rates = {arm: rate for arm, rate in script.RATES.items() if arm != SOURCE}  # whose arm the study has not
    results = {arm: records.result(f"few_examples/{arm}/seed0") or {} for arm in (*rates, "objective")}
    told = {arm: result["settings"]["arguments"] for arm, result in results.items()}
    assert all(recipe[name] == value for name, value in told["objective"].items())
    assert {arm: told[arm]["learning_rate"] for arm in rates} == rates
    assert told["sft"]["per_device_train_batch_size"] == script.control_batch_size
    settings = results["objective"]["settings"]
    shares = (settings["train_puzzles"], settings["warmup_share"], settings["decay_share"])
    assert shares == (script.max_puzzles, script.warmup_share, script.decay_share)


def test_the_table_of_raro_on_signed_digits_follows_from_its_results() -> None:
    found = Results(Records(STUDIES / "raro_digits" / "answers256"), ("start", *Digits.ARMS))
    page = RARO.read_text("utf-8")
    for arm in found.arms:
        leads = ["" if arm == other else lead(found.difference(arm, other, "solved")) for other in ("start", "more")]
        told = [Digits.ARMS.get(arm, arm), percent(found.rate(arm, "solved").mean), *leads]
        assert f"| {' | '.join(told)} |" in page, arm


@pytest.mark.parametrize("run", ["answers16", "answers64", "answers1024", "again", "silent_critic", "no_reasoning"])
def test_raro_on_signed_digits_under_other_conditions(run) -> None:
    records = Records(STUDIES / "raro_digits" / run)
    arms = [arm for arm in (*ARMS, "match") if arm in {result["arm"] for result in records.results().values()}]
    found = Results(records, arms)
    critic = np.mean([one["critic/accuracy_distinct"] for one in found.each("start")])
    told = [f"{critic:.2f}", *(percent(found.rate(arm, "solved").mean) for arm in arms), *[""] * (4 - len(arms))]
    told.append(lead(found.difference("raro", "more", "solved")))
    assert f"| {' | '.join(told)} |" in RARO.read_text("utf-8")


@pytest.mark.parametrize("run", ["signs", "smollm2"])
def test_tables_whose_programs_have_left_say_what_the_results_say(run) -> None:
    records = Records(STUDIES / run)
    found = Results(records, dict.fromkeys(result["arm"] for result in records.results().values()))
    text = (DOCS / "trainers.md").read_text("utf-8")
    for arm in found.arms:
        rate = found.rate(arm, "solved")
        assert f"| {percent(rate.mean)} | {', '.join(map(percent, rate.per_seed))} |" in text, arm


def test_what_all_starts_of_raro_on_signed_digits_have_together() -> None:
    page = RARO.read_text("utf-8")
    runs = [Results(Records(STUDIES / "raro_digits" / name), ARMS) for name in ("answers256", "again")]
    critics = [one["critic/accuracy_distinct"] for run in runs for one in run.each("start")]
    solved = {arm: np.concatenate([run.column(arm, "solved") for run in runs]) for arm in ARMS}
    gains = {arm: estimate(solved["raro"] - solved[arm]) for arm in ("start", "more")}
    for found in gains.values():
        ends = [f"{100 * low:.1f} to {100 * high:.1f}" for low, high in (found.puzzles, found.seeds or (0.0, 0.0))]
        assert f"{100 * found.mean:+.1f}" in page and all(each in page for each in ends)
    told = f"correlation {np.corrcoef(critics, gains['start'].per_seed)[0, 1]:.2f}"
    assert len(critics) == 8 and told in page


def test_the_tables_of_the_referee_follow_from_its_results() -> None:
    page, folder = (DOCS / "referee.md").read_text("utf-8"), STUDIES / "referee"
    briefly = (REFEREE_TASKS, ("boards_dispo",), REFEREE_NUMBERS, REFEREE_LONGER)
    blocks = [overview([folder / name for name in names]) for names in briefly]
    assert all(block in page for block in blocks)
    assert (folder / "trained.md").read_text("utf-8").endswith(f"\n{pages([folder / name for name in REFEREE_RUNS])}")


def test_a_study_is_two_files_and_what_is_made_of_them() -> None:
    kept = {path.relative_to(STUDIES).as_posix() for path in STUDIES.rglob("*") if path.name != "report.html"}
    kept = {path for path in kept if not path.endswith(("/tables.md", "/trained.md", ".png", "/images"))}
    raro_runs = ["again", *(f"answers{number}" for number in (16, 64, 256, 1024))]
    raro_runs += ["longer", "no_reasoning", "silent_critic", "supervised"]
    studies = ["beyond_singles", "causes", "propagation", "rates", "several_answers", "several_tokens", "signs"]
    studies += ["smollm2", "tool_games", *(f"raro_digits/{run}" for run in raro_runs)]
    studies += [f"referee/{name}" for name in (*REFEREE_RUNS, *REFEREE_RATES)]
    told = {"ceilings", "growth", "kill_test", "referee"}  # by programs that train nothing: tables alone
    named = {f"{name}{file}" for name in studies for file in ("", "/records.jsonl", "/outcomes.npz")}
    assert kept - told <= named | {"raro_digits"}
    for name in studies:
        records = Records(STUDIES / name)
        assert records.jobs() and all(records.result(job) for job in records.jobs())
