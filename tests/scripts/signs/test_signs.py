"""The task of `scripts/signs`, and its comparison as a user runs it, in small."""

import random
from itertools import permutations, product
from pathlib import Path

import numpy as np
import pytest

from scripts.shared.signs import (
    ANSWER_TOKENS,
    LARGEST,
    best_blind_share,
    dealt_anew,
    expression,
    is_right,
    puzzles,
    solved,
    start_rows,
    summed_over_targets,
    tokenizer,
    value,
)
from scripts.signs.report import read_results, table
from sudoku_dllm.trials.record import job_name, pack, write_job
from tests.helpers.warm_process import run_script

SCRIPT = Path(__file__).parents[3] / "scripts" / "signs" / "compare.py"
REPORT = SCRIPT.with_name("report.py")


@pytest.mark.parametrize(
    ("completion", "right"),
    [
        ("<answer> + 7 - 4 - 2 </answer>", True),
        ("<answer> - 4 + 7 - 2 </answer>", True),
        ("<answer> + 7 - 4 + 2 </answer>", False),
        ("<answer> + 7 - 2 - 2 - 2 </answer>", False),
        ("<answer> + 7 - 4 </answer>", False),
        ("+ 7 - 4 - 2", False),
        ("<answer> + 7 - 4 - 2", False),
        ("<answer> 7 - 4 - 2 </answer>", False),
        ("<answer> +- 7 - 4 - 2 </answer>", False),
        ("<answer> </answer>", False),
        ("", False),
    ],
)
def test_the_verifier(completion: str, right: bool) -> None:
    assert is_right(completion, [4, 7, 2], 1) == right


def test_every_puzzle_has_an_answer_and_chance_is_about_one_in_ten() -> None:
    rows, chance = puzzles(60, 3, held_out=False), []
    for row in rows:
        values = [
            value(" ".join(f"{sign} {digit}" for sign, digit in zip(signs, digits, strict=True)))
            for digits in permutations(row["digits"])
            for signs in product("+-", repeat=3)
        ]
        chance.append(values.count(row["target"]) / len(values))
    assert min(chance) > 0 and 0.07 < sum(chance) / len(chance) < 0.2


def test_training_and_held_out_puzzles_share_no_digits() -> None:
    train, test = ({tuple(sorted(row["digits"])) for row in puzzles(300, 0, held)} for held in (False, True))
    assert not train & test and len(test) > 40


def test_the_start_writes_expressions_of_one_length_without_a_look_at_the_target() -> None:
    rows = puzzles(20, 0, held_out=False)
    for row, start in zip(rows, start_rows(rows, 0), strict=True):
        inner = start["chosen"].split()[1:-1]
        assert sorted(map(int, inner[1::2])) == sorted(row["digits"])
        assert len(tokenizer()(start["chosen"])["input_ids"]) + 1 == ANSWER_TOKENS
        assert tokenizer().decode(tokenizer()(start["chosen"])["input_ids"]) == start["chosen"]
    other = [{**row, "target": LARGEST - row["target"]} for row in rows]
    assert [row["chosen"] for row in start_rows(other, 0)] == [row["chosen"] for row in start_rows(rows, 0)]
    assert expression([1, 2], random.Random(0)).count(" ") == 3


def test_the_placebo_says_as_often_right_for_each_puzzle_and_nothing_else() -> None:
    right, wrong = "<answer> + 7 - 4 - 2 </answer>", "<answer> + 7 + 4 - 2 </answer>"
    completions = [right, wrong, wrong, wrong, wrong, wrong, right, right]
    digits, target = [[4, 7, 2]] * 8, [1] * 4 + [5] * 4
    completions[4:6] = ["<answer> + 7 + 2 - 4 </answer>"] * 2
    verdicts = dealt_anew(random.Random(0))
    assert solved(completions, digits, target) == [1, 0, 0, 0, 1, 1, 0, 0]
    dealt = [verdicts(completions, digits, target) for _ in range(400)]
    assert {(sum(each[:4]), sum(each[4:])) for each in dealt} == {(1, 2)}
    means = [sum(each[place] for each in dealt) / 400 for place in range(8)]
    assert all(abs(mean - 1 / 4) < 0.1 for mean in means[:4]) and all(abs(mean - 1 / 2) < 0.1 for mean in means[4:])


def test_without_a_look_at_the_target_sums_over_targets_are_one_at_most() -> None:
    # 1, 2 and 4 make 1, 3, 5 and 7, each in one way; 2, 2 and 1 make 1 in two ways of 4, and 3 and 5.
    rows = [{"digits": [1, 2, 4], "target": target} for target in (1, 3, 5, 7)]
    rows += [{"digits": [2, 1, 2], "target": target} for target in (1, 1, 3, 5)]
    assert best_blind_share(rows) == (4 * 1 / 4 + 4 * 2 / 4) / 8
    assert summed_over_targets(rows, [1, 0, 0, 0, 1, 1, 0, 0]) == 1
    assert summed_over_targets(rows, [1, 1, 1, 0.5, 0.5, 0, 0, 0]) == (3.5 + 0.25) / 2


def compare(folder: Path, *arms: str, **options: float) -> dict[str, float]:
    chosen = {"num_hidden_layers": 2, "completions": 32, "train_puzzles": 800, "start_learning_rate": 0.005, **options}
    words = [word for name, number in chosen.items() for word in (f"--{name}", str(number))]
    words += ["--jobs", "0", "--seeds", "0", "--output_dir", str(folder)]
    done = run_script(SCRIPT, ["--arms", *arms, *words])
    assert done.returncode == 0, done.stderr[-3000:]
    assert (folder / "table.md").read_text("utf-8") in done.stdout
    found, rows = read_results([folder])
    assert {len(one["solved"]) for one in found.outcomes.values()} == {len(rows)} == {chosen["test_puzzles"]}
    return {name: found.rate(name, "solved").mean for name in found.arms}


def test_arms_without_pairs(tmp_path: Path) -> None:
    sizes = {"hidden_size": 16, "start_steps": 2, "test_puzzles": 20, "cpu_seconds": 0.2}
    results = compare(tmp_path, "ppo", "grpo", "more", "placebo", **sizes)
    assert list(results) == ["start", "ppo", "grpo", "more", "placebo"] and all(
        0 <= rate <= 1 for rate in results.values()
    )


@pytest.mark.slow
def test_arms_with_pairs_of_the_starts_own_completions(tmp_path: Path) -> None:
    results = compare(tmp_path, "dpo", "vapor", hidden_size=64, start_steps=200, test_puzzles=100, cpu_seconds=4)
    assert list(results) == ["start", "dpo", "vapor"] and results["start"] > 0


def test_an_unknown_arm_is_named(tmp_path: Path) -> None:
    done = run_script(SCRIPT, ["--arms", "sarsa", "--output_dir", tmp_path])
    assert done.returncode == 2 and "--arms sarsa is unknown" in done.stderr


@pytest.mark.parametrize("word", ["sarsa=1e-3", "grpo", "grpo=fast", "grpo=-2", "grpo=inf"])
def test_rates_that_are_none_are_named(tmp_path: Path, word: str) -> None:
    done = run_script(SCRIPT, ["--rates", word, "--output_dir", tmp_path / "run"])
    assert done.returncode == 2 and not (tmp_path / "run").exists()
    assert f"rates {word}: give ARM=RATE" in done.stderr


Found = dict[int, dict[str, list[float]]]
"""Seed → model → what it solves of each puzzle."""


def write(run: Path, found: Found, *, test_seed: int = 5) -> Path:
    settings = {"test_puzzles": 2, "test_seed": test_seed}
    for seed, by_name in found.items():
        for name, shares in by_name.items():
            result = {"arm": name, "seed": seed, "settings": settings, "updates": 10 * seed, "cpu_seconds": 2.0}
            write_job(run / job_name(name, seed=seed), result, {"solved": np.array(shares)})
    return run


def test_the_table_has_leads_over_start_and_control_with_both_intervals(tmp_path: Path) -> None:
    first = {"start": [0.0, 0.5], "grpo": [0.5, 1.0], "more": [0.0, 0.5]}
    second = {"start": [0.0, 0.0], "grpo": [1.0, 1.0], "more": [0.5, 0.5]}
    found, _ = read_results([write(tmp_path, {0: first, 1: second})])
    rows = [{"digits": [1, 2, 4], "target": 7}, {"digits": [4, 2, 1], "target": 1}]
    start, grpo, more, _, blind = table(found, rows).splitlines()[2:]
    assert start.startswith("| start | 12.5 | 25.0, 0.0 |  | -25.0 ")
    # Leads of 50 and 100 points: 75 on average, a standard error of 25 with 1 degree of freedom.
    assert "| GRPO | 87.5 | 75.0, 100.0 | +75.0 [+75.0, +75.0] [-242.7, +392.7] | +50.0 " in grpo
    assert grpo.endswith("| 1.50, 2.00 | 5 | 2 |") and blind.endswith(" solve 25.0 %.")
    assert more.split(" | ")[1:5] == ["37.5", "25.0, 50.0", more.split(" | ")[3], ""]


def test_runs_of_several_seeds_or_arms_make_one_table_and_picture(tmp_path: Path) -> None:
    every: Found = {seed: {"start": [0.5, seed], "grpo": [1.0, seed], "placebo": [0.0, 0.5]} for seed in (0, 1)}
    whole = table(*read_results([write(tmp_path / "whole", every)]))
    runs = [write(tmp_path / str(seed), {seed: found}) for seed, found in every.items()]
    done = run_script(REPORT, [*runs, "--picture", tmp_path / "signs.png"])
    assert done.returncode == 0 and done.stdout == whole and (tmp_path / "signs.png").stat().st_size
    arms = ({"start", "placebo"}, {"start", "grpo"})
    parts = [{seed: {arm: found[arm] for arm in each} for seed, found in every.items()} for each in arms]
    assert table(*read_results([write(tmp_path / f"part{n}", part) for n, part in enumerate(parts)])) == whole
    pack(tmp_path / "whole", tmp_path / "packed")
    assert table(*read_results([tmp_path / "packed"])) == whole


def test_runs_that_do_not_go_together_are_refused(tmp_path: Path) -> None:
    one = write(tmp_path / "one", {0: {"start": [0.0, 0.5]}})

    def refused(other: Path) -> str:
        done = run_script(REPORT, [one, other])
        assert done.returncode == 2
        return done.stderr

    assert "holds another result of 'start' with seed 0" in refused(
        write(tmp_path / "same", {0: {"start": [0.5, 0.5]}})
    )
    more = {"start": [0.0, 0.5], "grpo": [0.0, 1.0]}
    assert "no result of grpo with seed 0" in refused(write(tmp_path / "arms", {1: more}))
    judged = refused(write(tmp_path / "puzzles", {1: more}, test_seed=6))
    assert "judged on different puzzles: [(2, 5), (2, 6)]" in judged
    assert "none holds no results" in refused(tmp_path / "none")
    write_job(tmp_path / "study" / "start" / "seed1", {"arm": "start", "settings": {}}, {})
    assert "results have no 'test_puzzles'; give runs of scripts.signs.compare" in refused(tmp_path / "study")
