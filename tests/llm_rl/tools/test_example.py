"""The example of a model that learns to play by tools."""

import json
from pathlib import Path
from typing import Any

import pytest

from sudoku_env.chat.expert import expert_rows
from tests.helpers.warm_process import run_script
from tests.llm_rl.helpers.tiny_grpo import CHAT
from tests.llm_rl.helpers.tool_play import chat_model, chat_tokenizer

SCRIPT = Path(__file__).parents[3] / "examples" / "sudoku_tools.py"


@pytest.mark.parametrize("from_file", [False, True])
def test_the_example_runs(tmp_path: Path, from_file: bool) -> None:
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
    done = run_script(SCRIPT, words, env=None)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "The first sample; what is trained on stands between" in done.stdout
    assert '"name": "give_up"' in done.stdout and "tool_calls" in done.stdout
