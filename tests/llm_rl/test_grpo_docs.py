import re
from pathlib import Path

import pytest
from tiny_grpo import new_model, tokenizer

from llm_rl.arguments import GRPOArguments, RolloutArguments

ROOT = Path(__file__).parents[2]


def run_example(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    new_model().save_pretrained(folder / "my-model")
    tokenizer().save_pretrained(folder / "my-model")
    (example,) = [
        block for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL) if "GRPOTrainer" in block
    ]
    monkeypatch.chdir(folder)
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    names: dict[str, object] = {}
    exec(example.replace("max_steps=100", "max_steps=2, report_to='none'"), names)
    return names


def test_the_example_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = run_example(ROOT / "docs" / "grpo.md", tmp_path, monkeypatch)["trainer"]
    assert trainer.state.global_step == 2 and "reward_mean" in trainer.state.log_history[-1]  # type: ignore[attr-defined]


def test_every_argument_is_in_the_table() -> None:
    own = set(GRPOArguments.__annotations__) | set(RolloutArguments.__annotations__) - {"learning_rate"}
    page = (ROOT / "docs" / "grpo.md").read_text()
    assert {name for name in own if not name.startswith("_")} <= set(re.findall(r"`(\w+)`", page))


def test_the_readmes_ten_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = run_example(ROOT / "README.md", tmp_path, monkeypatch)
    assert names["reward"](["3, surely", " 4"], ["3", "3"]) == [1.0, 0.0]  # type: ignore[operator]
    assert (tmp_path / "runs" / "mine" / "checkpoint-2").is_dir()
