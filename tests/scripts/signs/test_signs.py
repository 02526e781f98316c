"""The task of `scripts/signs`, and its comparison as a user runs it, in small."""

import json
import random
from itertools import permutations, product
from pathlib import Path

import pytest

from scripts.signs.task import ANSWER_TOKENS, LARGEST, expression, is_right, puzzles, start_rows, tokenizer, value
from tests.helpers.warm_process import run_script

SCRIPT = Path(__file__).parents[3] / "scripts" / "signs" / "compare.py"


@pytest.mark.parametrize(
    ("completion", "right"),
    [
        ("<answer> 7 + 5 + 2 - 4 </answer>", True),
        ("<answer> 7 - 4 + 5 + 2 </answer>", True),
        ("<answer> 7 + 5 + 2 + 4 </answer>", False),
        ("<answer> 7 + 7 - 2 - 2 </answer>", False),
        ("<answer> 7 + 5 - 2 </answer>", False),
        ("7 + 5 + 2 - 4", False),
        ("<answer> 7 + 5 + 2 - 4", False),
        ("<answer> + 7 5 </answer>", False),
        ("", False),
    ],
)
def test_the_verifier(completion: str, right: bool) -> None:
    assert is_right(completion, [4, 7, 2, 5], 10) == right


def test_every_puzzle_has_an_answer_and_chance_is_about_one_in_ten() -> None:
    rows, chance = puzzles(60, 3, held_out=False), []
    for row in rows:
        values = [
            value(" ".join([str(a), f"{x} {b}", f"{y} {c}", f"{z} {d}"]))
            for a, b, c, d in permutations(row["digits"])
            for x, y, z in product("+-", repeat=3)
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
        assert sorted(map(int, inner[::2])) == sorted(row["digits"])
        assert len(tokenizer()(start["chosen"])["input_ids"]) + 1 == ANSWER_TOKENS
        assert tokenizer().decode(tokenizer()(start["chosen"])["input_ids"]) == start["chosen"]
    other = [{**row, "target": LARGEST - row["target"]} for row in rows]
    assert [row["chosen"] for row in start_rows(other, 0)] == [row["chosen"] for row in start_rows(rows, 0)]
    assert expression([1, 2], random.Random(0)).count(" ") == 2


def compare(folder: Path, *arms: str, **options: float) -> dict[str, float]:
    chosen = {"num_hidden_layers": 2, "completions": 32, "train_puzzles": 800, "start_learning_rate": 0.005, **options}
    words = [word for name, number in chosen.items() for word in (f"--{name}", str(number))]
    done = run_script(SCRIPT, ["--seeds", "0", "--arms", *arms, *words, "--output_dir", folder])
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, float] = json.loads((folder / "results.json").read_text("utf-8"))["0"]
    return found


def test_arms_without_pairs(tmp_path: Path) -> None:
    sizes = {"hidden_size": 16, "start_steps": 2, "test_puzzles": 20, "cpu_seconds": 0.2}
    results = compare(tmp_path, "ppo", "grpo", "more", **sizes)
    assert list(results) == ["start", "ppo", "grpo", "more"] and all(0 <= rate <= 1 for rate in results.values())


@pytest.mark.slow
def test_arms_with_pairs_of_the_starts_own_completions(tmp_path: Path) -> None:
    results = compare(tmp_path, "dpo", "vapor", hidden_size=64, start_steps=200, test_puzzles=100, cpu_seconds=4)
    assert list(results) == ["start", "dpo", "vapor"] and results["start"] > 0


def test_an_unknown_arm_is_named(tmp_path: Path) -> None:
    done = run_script(SCRIPT, ["--arms", "sarsa", "--output_dir", tmp_path])
    assert done.returncode == 2 and "--arms sarsa is unknown" in done.stderr


@pytest.mark.parametrize("word", ["sarsa=1e-3", "grpo", "grpo=fast", "grpo=2"])
def test_rates_that_are_none_are_named(tmp_path: Path, word: str) -> None:
    done = run_script(SCRIPT, ["--rates", word, "--output_dir", tmp_path / "run"])
    assert done.returncode == 2 and not (tmp_path / "run").exists()
    assert f"--rates {word}: give ARM=RATE" in done.stderr
