import re
from pathlib import Path

import pytest

from llm_rl.grpo.arguments import GroupRelativeArguments, GRPOArguments
from llm_rl.rollout.arguments import RolloutArguments
from tests.helpers.pages import run_page
from tests.llm_rl.helpers.tiny_grpo import new_model, tokenizer

ROOT = Path(__file__).parents[3]


def test_the_example_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = ROOT / "docs" / "grpo.md"
    trainer = run_page(page, tmp_path, monkeypatch, model=new_model(), tokenizer=tokenizer())["trainer"]
    assert trainer.state.global_step == 2 and "reward_mean" in trainer.state.log_history[0]


def test_every_argument_is_in_the_table() -> None:
    classes = (GRPOArguments, GroupRelativeArguments, RolloutArguments)
    own = {name for each in classes for name in each.__annotations__} - {"learning_rate"}
    page = (ROOT / "docs" / "grpo.md").read_text()
    assert {name for name in own if not name.startswith("_")} <= set(re.findall(r"`(\w+)`", page))
