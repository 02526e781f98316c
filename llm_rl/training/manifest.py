"""What a whole checkpoint consists of, the size and the checksum of each file, and which one a run goes on from."""

import hashlib
import json
import logging
import re
from pathlib import Path

from llm_rl.training.errors import CheckpointError

MANIFEST = "manifest.json"
logger = logging.getLogger(__name__)


def write_manifest(folder: Path) -> None:
    """Write `manifest.json`: for every other file below a folder its size in bytes and its SHA-256."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST)
    record = {path.relative_to(folder).as_posix(): [path.stat().st_size, _checksum(path)] for path in files}
    (folder / MANIFEST).write_text(json.dumps(record, indent=1), encoding="utf-8")


def check_manifest(folder: Path) -> None:
    """Raises `CheckpointError`, which names the file, where one is missing or is not what was written."""
    try:
        record = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        files = {str(name): (int(size), str(checksum)) for name, (size, checksum) in record.items()}
    except FileNotFoundError:
        raise CheckpointError(f"{folder} has no {MANIFEST} (no checkpoint, or one of an older version)") from None
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{folder / MANIFEST} cannot be read: {error}") from error
    for name, (size, checksum) in files.items():
        path = folder / name
        if not path.is_file():
            raise CheckpointError(f"{path} is missing")
        if path.stat().st_size != size:
            raise CheckpointError(f"{path} has {path.stat().st_size} bytes, not the {size} that were written")
        try:
            found = _checksum(path)
        except OSError as error:
            raise CheckpointError(f"{path} cannot be read: {error}") from error
        if found != checksum:
            raise CheckpointError(f"{path} is damaged: its checksum is not that of what was written")


def last_whole_checkpoint(run: Path) -> Path | None:
    """The newest checkpoint of a run folder whose files are all there and undamaged; those passed over are logged.

    None where the run has no checkpoint at all, damaged or not; `CheckpointError`, that of the newest, where all are
    damaged.
    """
    newest: CheckpointError | None = None
    for checkpoint in reversed(checkpoints_of(run)):
        try:
            check_manifest(checkpoint)
        except CheckpointError as error:
            logger.warning("passing over a checkpoint that is not whole: %s", error)
            newest = newest or error
        else:
            if newest is not None:
                logger.warning("the last whole checkpoint is %s", checkpoint)
            return checkpoint
    if newest is not None:
        raise CheckpointError(
            f"no checkpoint of {run} is whole: {newest}; delete its checkpoint-* folders, and resuming begins it anew"
        ) from newest
    return None


def checkpoint_to_resume(run: Path, asked: str | bool) -> Path | None:
    """The whole checkpoint that a user asks for, the run's last one by "last" or True; None where it has none yet.

    That is logged. `CheckpointError` where the checkpoint that is named is not whole; it names the last one that is.
    """
    if asked is True or asked == "last":
        checkpoint = last_whole_checkpoint(run)
        if checkpoint is None:
            logger.warning("%s has no checkpoint yet: starting from the beginning", run)
        return checkpoint
    checkpoint = Path(str(asked))
    try:
        check_manifest(checkpoint)
    except CheckpointError as error:
        last = last_whole_checkpoint(checkpoint.parent)
        remedy = "start a new run" if last is None else f"the last whole checkpoint is {last}"
        raise CheckpointError(f"{checkpoint} cannot be continued from: {error}; {remedy}") from error
    return checkpoint


def checkpoints_of(run: Path) -> list[Path]:
    """The checkpoints in a run folder, by the number of their steps."""
    found = [path for path in run.glob("checkpoint-*") if path.is_dir() and re.fullmatch(r"checkpoint-\d+", path.name)]
    return sorted(found, key=lambda checkpoint: int(checkpoint.name.rpartition("-")[2]))


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
