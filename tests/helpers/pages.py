"""Runs the Python blocks of a page from top to bottom, as a reader pastes them into one session."""

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
MANY_STEPS = re.compile(r"max_steps=\d{2,}")


def blocks(page: Path) -> list[str]:
    """The Python blocks of a page."""
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def run_page(
    page: Path,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    model: Any = None,
    tokenizer: Any = None,
    leave_out: Collection[str] = (),
) -> dict[str, Any]:
    """Run the blocks of a page, one after the other, in a folder with the repository's `data`.

    Args:
        page: The page.
        folder: Where it is run.
        monkeypatch: Undoes the change of the folder.
        model: What the page calls `my-model`, if it does.
        tokenizer: Its tokenizer.
        leave_out: Texts that tell the blocks that are not run. Of those that are, ten steps or more become two.

    Returns:
        The names that the blocks leave.
    """
    for each in (model, tokenizer):
        if each is not None:
            each.save_pretrained(folder / "my-model")
    (folder / "data").symlink_to(ROOT / "data")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    names: dict[str, Any] = {"__name__": page.stem}
    for number, block in enumerate(blocks(page), start=1):
        if not any(text in block for text in leave_out):
            code = MANY_STEPS.sub("max_steps=2, report_to='none'", block)
            exec(compile(code, f"{page.name}, block {number}", "exec"), names)
    return names
