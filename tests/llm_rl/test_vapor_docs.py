import re
from pathlib import Path

import pytest
from tiny_vapor import tag_model, tag_tokenizer

from llm_rl.arguments import RolloutArguments
from llm_rl.vapor import VAPORArguments

PAGE = Path(__file__).parents[2] / "docs" / "vapor.md"


def test_the_example_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tag_model(max_position_embeddings=256).save_pretrained(tmp_path / "my-model")
    tag_tokenizer().save_pretrained(tmp_path / "my-model")
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    names: dict[str, object] = {}
    exec(example, names)
    trainer = names["trainer"]
    assert trainer.state.global_step == 2  # type: ignore[attr-defined]
    assert trainer.state.log_history[-1].keys() >= {"preference_margin", "verifiable_failure_frac"}  # type: ignore[attr-defined]


def test_every_argument_is_in_the_table() -> None:
    own = set(VAPORArguments.__annotations__) - set(RolloutArguments.__annotations__)
    assert len(own) > 10 and all(f"`{name}`" in PAGE.read_text() or f"{name}=" in PAGE.read_text() for name in own)
