import re
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import TrainingArguments

from llm_rl.tools.arguments import EpisodeArguments
from tests.llm_rl.helpers.doc_examples import run_example
from tests.llm_rl.helpers.tool_play import chat_model, chat_tokenizer

PAGE = Path(__file__).parents[3] / "docs" / "tools.md"


def test_the_example_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = run_example(PAGE, "GRPOTrainer", chat_model(), chat_tokenizer(), tmp_path, monkeypatch)
    line = names["trainer"].state.log_history[0]
    assert line["turns"] >= 1 and "reward/environment_reward" in line and "tool_calls" in line


def test_every_argument_is_in_the_table() -> None:
    own = {name for name in EpisodeArguments.__annotations__ if not name.startswith("_")}
    assert own <= set(re.findall(r"`(\w+)`", PAGE.read_text()))


def test_the_three_sources_of_trajectories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    monkeypatch.chdir(tmp_path)
    for block in blocks:
        if "GRPOTrainer" not in block:
            exec(block, names)
    assert "'name': 'place'" in capsys.readouterr().out
    assert names["rows"] == names["expert_rows"](8, size=4)
    row = {"prompt": [{"role": "user", "content": "6 times 7?"}], "chosen": "It is 42."}
    assert names["label"](chat_model(), chat_tokenizer(), [row]) == []
    assert "'rows': 1" in capsys.readouterr().out
    args = TrainingArguments(
        str(tmp_path), max_steps=1, per_device_train_batch_size=1, report_to="none", use_cpu=True, save_strategy="no"
    )
    run = names["trajectory_trainer"](chat_model(dtype=torch.float32), chat_tokenizer(), args)
    run.train()
    assert run.state.log_history[-1]["train_loss"] > 0
