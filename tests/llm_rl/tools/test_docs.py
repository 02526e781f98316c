from pathlib import Path

import pytest
import torch
from transformers import TrainingArguments

from tests.helpers import SHORT
from tests.helpers.pages import run_page
from tests.llm_rl.helpers.tool_play import chat_model, chat_tokenizer
from tests.llm_rl.helpers.watch import trained

PAGE = Path(__file__).parents[3] / "docs" / "tools.md"


def test_the_examples_run_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = run_page(PAGE, tmp_path, monkeypatch, model=chat_model(), tokenizer=chat_tokenizer())
    line = names["trainer"].state.log_history[0]
    assert line["turns"] >= 1 and "reward/environment_reward" in line and "tool_calls" in line
    assert "'name': 'place'" in capsys.readouterr().out
    assert names["rows"] == names["expert_rows"](8, size=4)
    row = {"prompt": [{"role": "user", "content": "6 times 7?"}], "chosen": "It is 42."}
    assert names["label"](chat_model(), chat_tokenizer(), [row]) == []
    assert "'rows': 1" in capsys.readouterr().out
    args = TrainingArguments(str(tmp_path), max_steps=1, per_device_train_batch_size=1, **SHORT)
    run = trained(names["trajectory_trainer"](chat_model(dtype=torch.float32), chat_tokenizer(), args))
    assert run.state.log_history[-1]["train_loss"] > 0
