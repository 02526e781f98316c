import re
from pathlib import Path

import pytest

from llm_rl.grpo.arguments import GroupRelativeArguments, GRPOArguments
from llm_rl.rollout.arguments import RolloutArguments
from tests.llm_rl.helpers.doc_examples import run_example
from tests.llm_rl.helpers.tiny_grpo import new_model, tokenizer

ROOT = Path(__file__).parents[3]


def test_the_example_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = ROOT / "docs" / "grpo.md"
    trainer = run_example(page, "GRPOTrainer", new_model(), tokenizer(), tmp_path, monkeypatch)["trainer"]
    assert trainer.state.global_step == 2 and "reward_mean" in trainer.state.log_history[0]


def test_every_argument_is_in_the_table() -> None:
    classes = (GRPOArguments, GroupRelativeArguments, RolloutArguments)
    own = {name for each in classes for name in each.__annotations__} - {"learning_rate"}
    page = (ROOT / "docs" / "grpo.md").read_text()
    assert {name for name in own if not name.startswith("_")} <= set(re.findall(r"`(\w+)`", page))


def test_the_readmes_ten_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = run_example(ROOT / "README.md", "GRPOTrainer", new_model(), tokenizer(), tmp_path, monkeypatch)
    assert names["reward"](["3, surely", " 4"], ["3", "3"]) == [1.0, 0.0]
    assert (tmp_path / "runs" / "mine" / "checkpoint-2").is_dir()
