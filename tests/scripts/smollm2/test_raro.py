"""The trial on word problems, as a user runs it, on a Llama of some thousand parameters."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from llm_rl.raro import trainer as raro_trainer
from scripts.smollm2.raro import RaroTrialArguments, WordProblems
from sudoku_dllm.trials import Records
from tests.helpers.warm_process import run_script
from tests.scripts.smollm2.scripted import Scripted

SCRIPT = Path(__file__).parents[3] / "scripts" / "smollm2" / "raro.py"
SMALL = {"train_rows": 8, "test_rows": 6, "sft_steps": 2, "sft_batch_size": 2, "completions": 4, "num_generations": 2}
SMALL |= {"critic_pairs": 2, "critic_generations": 2}


def run(base: Path, folder: Path, **options: Any) -> str:
    """Run the trial with seed 0 in one process; what it prints."""
    given = {"model": base, "seeds": 0, "jobs": 0, "output_dir": folder, **SMALL, **options}
    done = run_script(SCRIPT, [word for name, value in given.items() for word in (f"--{name}", value)], timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_both_arms_begin_with_the_start(base: Path, tmp_path: Path) -> None:
    """In the first update the rate is still 0."""
    run(base, tmp_path, max_steps=1)
    records = Records(tmp_path)
    assert records.jobs() == ["more/seed0", "raro/seed0", "start/seed0"]
    results = [records.result(job) or {} for job in records.jobs()]
    assert [result["updates"] for result in results] == [1, 1, 0]
    for name in WordProblems.FIGURES:
        assert len({str(result[name]) for result in results}) == 1
    first, second, third = (records.outcomes(job)["solved"] for job in records.jobs())
    assert np.array_equal(first, third) and np.array_equal(second, third)


def test_without_labels_there_is_no_accuracy(base: Path, tmp_path: Path) -> None:
    """A critique of one token never ends."""
    said = run(base, tmp_path, max_steps=2, max_critic_completion_length=1)
    head, _, start, raro, more = (tmp_path / "table.md").read_text("utf-8").splitlines()
    assert head.split(" | ")[5:8] == ["critic accuracy", "policy reward", "tie rate"] and head in said
    for line, updates in ((start, 0), (raro, 2), (more, 2)):
        assert line.split(" | ")[5] == "–" and line.split(" | ")[8] == str(updates)


def test_figures_and_outcomes_by_hand(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every other answer is the expert's, and a critic that always says the same is right in one of two orders."""
    trial = WordProblems(RaroTrialArguments(model=str(base), output_dir=str(tmp_path), **SMALL))
    rows = trial.rows["test"]

    def answer(prompt: str) -> str:
        if "Answer 1:" in prompt:
            return "[Answer 1]"
        number, row = next((number, row) for number, row in enumerate(rows) if row["question"] in prompt)
        return "It is 1,000." if number % 2 else row["answer"]

    engine = Scripted(trial.words, answer)
    monkeypatch.setattr(raro_trainer, "TokenBudgetEngine", lambda *args, **options: engine)
    figures, outcomes = trial.judge(trial.load(base), 0, tmp_path)
    assert outcomes["solved"].tolist() == [1, 0, 1, 0, 1, 0]
    assert figures == {"critic/accuracy": 0.5, "policy/reward_mean": 0.5, "critic/tie_rate": 0.0}


def test_the_start_learns_an_answer_and_two_critiques_of_each_question(base: Path, tmp_path: Path) -> None:
    trial = WordProblems(RaroTrialArguments(model=str(base), output_dir=str(tmp_path), train_rows=90, test_rows=30))
    made = [row["chosen"] for row in trial.expert_rows]
    assert made[::3] == [row["answer"] for row in trial.rows["train"]] and len(made) == 270
    assert all("[Tie]" in text or "[Answer " in text for place, text in enumerate(made) if place % 3)
    assert not {row["question"] for row in trial.rows["train"]} & {row["question"] for row in trial.rows["test"]}
