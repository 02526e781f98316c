import re
from pathlib import Path

import pytest
from doc_examples import run_example
from tiny_grpo import new_model, tokenizer

from llm_rl.arguments import GRPOArguments, RolloutArguments

ROOT = Path(__file__).parents[2]


def test_the_example_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = ROOT / "docs" / "grpo.md"
    trainer = run_example(page, "GRPOTrainer", new_model(), tokenizer(), tmp_path, monkeypatch)["trainer"]
    assert trainer.state.global_step == 2 and "reward_mean" in trainer.state.log_history[-1]


def test_every_argument_is_in_the_table() -> None:
    own = set(GRPOArguments.__annotations__) | set(RolloutArguments.__annotations__) - {"learning_rate"}
    page = (ROOT / "docs" / "grpo.md").read_text()
    assert {name for name in own if not name.startswith("_")} <= set(re.findall(r"`(\w+)`", page))


def test_the_readmes_ten_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = run_example(ROOT / "README.md", "GRPOTrainer", new_model(), tokenizer(), tmp_path, monkeypatch)
    assert names["reward"](["3, surely", " 4"], ["3", "3"]) == [1.0, 0.0]
    assert (tmp_path / "runs" / "mine" / "checkpoint-2").is_dir()
