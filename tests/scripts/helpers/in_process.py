"""Scripts run inside the test's process, and stopped where the test says."""

import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from llm_rl.training.checkpoint import ExactTrainer
from tests.scripts.helpers.started import words_of

SCRIPTS = Path(__file__).parents[3] / "scripts"


class Stopped(BaseException):
    """What ends a script in place of a signal."""


def run_here(monkeypatch: pytest.MonkeyPatch, script: str, *words: Any, **options: Any) -> None:
    """Run a script on one thread as `python script words --name value …` would."""
    words = [*words, *words_of(options)]
    threads = torch.get_num_threads()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "argv", [script, *map(str, words)])
        patch.syspath_prepend(str(SCRIPTS))
        try:
            torch.set_num_threads(1)
            runpy.run_path(str(SCRIPTS / script), run_name="__main__")
        finally:
            torch.set_num_threads(threads)


def run_until_checkpoint(monkeypatch: pytest.MonkeyPatch, name: str, script: str, *words: Any, **options: Any) -> None:
    """Run a script as `run_here` does, stopped as soon as a checkpoint whose path ends so is on the disk."""
    save = ExactTrainer._save_checkpoint

    def save_and_stop(trainer: ExactTrainer, *args: Any) -> None:
        save(trainer, *args)
        if str(Path(trainer.args.output_dir) / f"checkpoint-{trainer.state.global_step}").endswith(name):
            raise Stopped(name)

    with monkeypatch.context() as patch, pytest.raises(Stopped, match=name):
        patch.setattr(ExactTrainer, "_save_checkpoint", save_and_stop)
        run_here(monkeypatch, script, *words, **options)
