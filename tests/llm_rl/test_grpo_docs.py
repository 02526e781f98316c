import re
from pathlib import Path

import pytest
from tiny_grpo import new_model, tokenizer

PAGE = Path(__file__).parents[2] / "docs" / "grpo.md"


def test_the_example_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new_model().save_pretrained(tmp_path / "my-model")
    tokenizer().save_pretrained(tmp_path / "my-model")
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    names: dict[str, object] = {}
    exec(example, names)
    trainer = names["trainer"]
    assert trainer.state.global_step == 2 and "reward_mean" in trainer.state.log_history[-1]  # type: ignore[attr-defined]
