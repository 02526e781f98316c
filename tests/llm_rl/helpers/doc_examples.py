"""Runs the Python example of a page as it stands, on a model in the folder `my-model` beside it."""

import re
from pathlib import Path
from typing import Any

import pytest


def run_example(
    page: Path, trainer: str, model: Any, tokenizer: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """The names that the page's one example with a trainer of this name leaves; 100 steps become 2."""
    for each in (model, tokenizer):
        each.save_pretrained(folder / "my-model")
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    (example,) = [block for block in blocks if trainer in block]
    monkeypatch.chdir(folder)
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    names: dict[str, Any] = {}
    exec(example.replace("max_steps=100", "max_steps=2, report_to='none'"), names)
    return names
