from dataclasses import fields
from pathlib import Path

import pytest

from llm_rl.rollout.arguments import RolloutArguments
from llm_rl.vapor import VAPORArguments
from tests.helpers.pages import run_page
from tests.llm_rl.helpers.tiny_vapor import tag_model, tag_tokenizer

PAGE = Path(__file__).parents[3] / "docs" / "vapor.md"


def test_the_example_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tag_model(max_position_embeddings=256)
    trainer = run_page(PAGE, tmp_path, monkeypatch, model=model, tokenizer=tag_tokenizer())["trainer"]
    assert trainer.state.global_step == 2
    assert trainer.state.log_history[0].keys() >= {"preference_margin", "verifiable_failure_frac"}


def test_every_argument_is_in_the_table() -> None:
    own = {item.name for item in fields(VAPORArguments)} - {item.name for item in fields(RolloutArguments)}
    assert len(own) > 10 and all(f"`{name}`" in PAGE.read_text() or f"{name}=" in PAGE.read_text() for name in own)
