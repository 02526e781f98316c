import re
from pathlib import Path

import pytest

import llm_rl.core
from llm_rl.ppo.arguments import PPOArguments
from tests.helpers.pages import run_page
from tests.llm_rl.helpers.tiny_grpo import new_model, tokenizer

PAGE = Path(__file__).parents[3] / "docs" / "ppo.md"


def test_the_example_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = run_page(PAGE, tmp_path, monkeypatch, model=new_model(), tokenizer=tokenizer())["trainer"]
    assert trainer.state.global_step == 4 and "value_loss" in trainer.state.log_history[0]


def test_every_argument_is_in_the_table() -> None:
    own = {name for name in PPOArguments.__annotations__ if not name.startswith("_")}
    assert own <= set(re.findall(r"`(\w+)`", PAGE.read_text()))


def test_every_function_of_the_formulas_is_there() -> None:
    functions = set(re.findall(r"`core\.(\w+)`", PAGE.read_text()))
    assert len(functions) >= 7 and all(hasattr(llm_rl.core, name) for name in functions)
