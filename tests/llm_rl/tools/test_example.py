"""The examples of models that learn to use tools."""

import json
from pathlib import Path
from typing import Any

import pytest

from sudoku_env.chat.expert import expert_rows
from tests.helpers.warm_process import run_script
from tests.llm_rl.helpers.tiny_grpo import CHAT
from tests.llm_rl.helpers.tool_play import chat_model, chat_tokenizer

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.slow
@pytest.mark.parametrize("from_file", [False, True])
def test_the_example_of_games_runs(tmp_path: Path, from_file: bool) -> None:
    """From the ladder's games and a template with tools, or from a file and a template that knows none."""
    names = chat_tokenizer()
    chat_model().save_pretrained(tmp_path / "model")
    names.save_pretrained(tmp_path / "model")
    words: list[Any] = ["--model_name_or_path", tmp_path / "model", "--output_dir", tmp_path / "run", "--puzzles", 4]
    words += ["--clues", 14, "--start_steps", 1, "--max_steps", 1, "--per_device_train_batch_size", 2, "--use_cpu"]
    words += ["--num_generations", 2, "--max_completion_length", 16, "--report_to", "none", "--logging_steps", 1]
    if from_file:
        (tmp_path / "games.jsonl").write_text("\n".join(map(json.dumps, expert_rows(2, size=4, clues=14))))
        (tmp_path / "model" / "chat_template.jinja").write_text(CHAT)
        words += ["--trajectories", tmp_path / "games.jsonl"]
    done = run_script(EXAMPLES / "sudoku_tools.py", words, env=None)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "The first sample; what is trained on stands between" in done.stdout
    assert '"name": "give_up"' in done.stdout and "tool_calls" in done.stdout


@pytest.mark.slow
def test_the_example_of_self_labels_judges_all_arms() -> None:
    words: list[Any] = ["--seeds", 0, "--width", 32, "--start_steps", 150, "--start_questions", 1000, "--steps", 1]
    words += ["--questions", 16, "--test_questions", 4, "--filter_threshold", -9]
    done = run_script(EXAMPLES / "self_labels.py", words, env=None)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if line.startswith("| ")]
    assert [row[0] for row in rows[1:]] == ["start", "labels", "unfiltered", "shuffled", "answers"]
    shares = {row[0]: [float(value) for value in row[1:]] for row in rows[1:]}
    for sampled, greedy, *ahead in shares.values():
        assert {sampled, greedy} <= {0.0, 25.0, 50.0, 75.0, 100.0}
        assert ahead == [shares["labels"][0] - sampled, shares["labels"][1] - greedy]


def test_the_example_of_self_labels_says_what_to_do_where_no_call_was_kept() -> None:
    words: list[Any] = ["--seeds", 0, "--width", 8, "--start_steps", 1, "--start_questions", 64, "--questions", 4]
    done = run_script(EXAMPLES / "self_labels.py", [*words, "--test_questions", 4], env=None)
    assert done.returncode == 1 and "no call was kept; train the start for more --start_steps" in done.stderr
