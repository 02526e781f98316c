"""The folder of a training run: chosen so that no run is lost, and emptied of an old run only where that is asked for.

A run's folder holds `arguments.json` from its start. Where the command line names no folder, a run goes to the script's
own, or to the next of `<folder>-2`, `<folder>-3`, … once that is taken; resuming the last run takes the newest of them.
"""

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from glob import escape
from pathlib import Path
from typing import Any, Protocol

from llm_rl.training.command_line import fail, need_writable, on_command_line, user_errors
from llm_rl.training.errors import CheckpointError
from llm_rl.training.run_folder import run_lock
from llm_rl.training.storage import PARTIAL, write_text_whole

RECORD = "arguments.json"
LAST = "last"
FILES = (
    RECORD, "metrics*.jsonl", "curve*.jsonl", "training_log.jsonl", "results.json", "table.csv",
    "curve.png", "solved.png", "decode.gif", "runs/*/events.out.tfevents.*",
    *(f"*/seed*/{name}" for name in (
        "result.json", "outcomes*.npz", "metrics.jsonl", "curve.jsonl", "decode.gif", "log.txt",
        "runs/*/events.out.tfevents.*",
    )),
)  # fmt: skip
"""Patterns of the files that a script writes to its run folder."""
MODELS = ("rl", "control", "model", "annealed", "unannealed")
MODEL_FILES = ("config.json", "adapter_config.json")
CHECKPOINT_FOLDERS = ("checkpoints", "seed*", "*/seed*")
CHECKPOINT = re.compile(rf"(checkpoint|failed_step)-\d+.*|{PARTIAL}(-.*)?")


class RunArguments(Protocol):
    """What the arguments of a script that trains have in common."""

    output_dir: str
    overwrite_output_dir: bool
    resume_from_checkpoint: str | None


def parts_of_run(folder: Path) -> list[Path]:
    """The files, models and checkpoints in a folder that a script of ours wrote, or would take for its own."""
    files = [path for pattern in FILES for path in folder.glob(pattern) if path.is_file()]
    named = [*(folder / name for name in MODELS), *folder.glob("*/seed*/model")]
    models = [path for path in named if any((path / file).is_file() for file in MODEL_FILES)]
    places = _places_of_checkpoints(folder)
    checkpoints = [path for place in places for path in place.glob("*") if CHECKPOINT.fullmatch(path.name)]
    return [*files, *models, *checkpoints]


def _places_of_checkpoints(folder: Path) -> list[Path]:
    found = [place for pattern in CHECKPOINT_FOLDERS for place in folder.glob(pattern) if place.is_dir()]
    return [folder, *found] if folder.is_dir() else []


class RunFolder:
    """Where a run goes, chosen and said before anything is loaded; `open` makes it.

    Args:
        args: Arguments of the script; `output_dir` becomes the folder that is chosen.
        inputs: Files and folders that the run reads; a run that holds one of them is not overwritten.
    """

    def __init__(self, args: RunArguments, inputs: Sequence[str | Path] = ()) -> None:
        self.overwrite, self.resumed = args.overwrite_output_dir, args.resume_from_checkpoint is not None
        if self.overwrite and self.resumed:
            fail("--overwrite_output_dir starts anew and --resume_from_checkpoint goes on; choose one of them")
        asked, chosen = Path(args.output_dir), on_command_line("output_dir")
        need_writable("output_dir", asked)
        if self.overwrite:
            self.path, remark = self._overwritten(asked, [Path(path).absolute() for path in inputs])
        elif args.resume_from_checkpoint is None:
            self.path, remark = self._fresh(asked, chosen)
        elif args.resume_from_checkpoint == LAST:
            self.path, remark = self._last(asked, chosen)
        else:
            self.path, remark = self._of_checkpoint(Path(args.resume_from_checkpoint), asked, chosen)
        self.new = not self.path.exists()
        args.output_dir = str(self.path)
        print(f"Run folder: {self.path}{remark}", flush=True)

    def open(self, arguments: Mapping[str, Any]) -> Path:
        """Make the folder, without an old run if that is to be overwritten, and write the arguments to it.

        A run that is resumed keeps the arguments that it began with.
        """
        with user_errors(OSError, CheckpointError):
            if self.new:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self.path.mkdir()
            if self.overwrite:
                self._empty()
            record = self.path / RECORD
            if not (self.resumed and record.exists()):
                write_text_whole(record, json.dumps(arguments, indent=2, default=str))
        return self.path

    def _empty(self) -> None:
        with ExitStack() as locks:
            for place in _places_of_checkpoints(self.path):
                locks.enter_context(run_lock(place))  # a run that is under way is not deleted
            for part in parts_of_run(self.path):
                shutil.rmtree(part) if part.is_dir() else part.unlink()

    @staticmethod
    def _overwritten(asked: Path, inputs: Sequence[Path]) -> tuple[Path, str]:
        parts = [part.absolute() for part in parts_of_run(asked)]
        if not parts:
            return asked, ""
        if read := [path for path in inputs for part in parts if part in (path, *path.parents)]:
            fail(f"{read[0]} is needed and belongs to the run in {asked}; choose another --output_dir")
        if not (asked / RECORD).is_file():
            fail(f"{asked} has no {RECORD} and may not be a run's, so it is left alone; choose another --output_dir")
        return asked, " (its old run is overwritten)"

    @staticmethod
    def _fresh(asked: Path, chosen: bool) -> tuple[Path, str]:
        runs = numbered_runs(asked)
        if not runs or (chosen and not parts_of_run(asked)):
            return asked, ""
        if chosen:
            fail(
                f"{asked} holds a run; go on with it (--resume_from_checkpoint {LAST}), replace it "
                "(--overwrite_output_dir) or choose another --output_dir"
            )
        number = max(runs) + 1
        while (path := asked.with_name(f"{asked.name}-{number}")).exists():
            number += 1
        return path, f" ({runs[max(runs)]} holds a run already)"

    @staticmethod
    def _last(asked: Path, chosen: bool) -> tuple[Path, str]:
        runs = {1: asked} if chosen else numbered_runs(asked)
        path = runs[max(runs)] if runs else asked
        return path, " (resumed)" if parts_of_run(path) else " (it holds no run to resume: a new one)"

    @staticmethod
    def _of_checkpoint(checkpoint: Path, asked: Path, chosen: bool) -> tuple[Path, str]:
        if not checkpoint.is_dir():
            fail(f"--resume_from_checkpoint: there is no folder {checkpoint}; give one, or {LAST}")
        own = next((place for place in checkpoint.absolute().parents[:2] if (place / RECORD).is_file()), None)
        if own is not None and (not chosen or own == asked.absolute()):
            return (asked if chosen else own), f" (resumed from {checkpoint.name})"
        path, remark = RunFolder._fresh(asked, chosen)
        return path, remark or f" (from {checkpoint})"


def numbered_runs(folder: Path) -> dict[int, Path]:
    """The run folders of a script by number: the folder itself is 1, `<folder>-2` is 2."""
    found = {1: folder} | {
        int(number): path
        for path in folder.parent.glob(f"{escape(folder.name)}-*")
        if (number := path.name.removeprefix(f"{folder.name}-")).isdecimal() and int(number) > 1
    }
    return {number: path for number, path in found.items() if parts_of_run(path)}
