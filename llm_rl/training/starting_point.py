"""The checkpoint that a run goes on from, and whether it can."""

import logging
from collections.abc import Collection
from pathlib import Path

from transformers import TrainingArguments

from llm_rl.training.errors import CheckpointError
from llm_rl.training.manifest import check_manifest, checkpoints_of, last_whole_checkpoint

logger = logging.getLogger(__name__)


def checkpoint_to_resume(run: Path, asked: str | bool) -> Path | None:
    """The whole checkpoint that a user asks for, or None where a run has none yet, which is logged.

    Args:
        run: The run folder.
        asked: A checkpoint's folder, or "last" or True for the last whole one of the run.

    Raises:
        CheckpointError: The checkpoint that is named is not whole.
    """
    if asked is True or asked == "last":
        checkpoint = last_whole_checkpoint(run)
        if checkpoint is None:
            logger.warning("%s has no checkpoint yet: starting from the beginning", run)
        return checkpoint
    checkpoint = Path(str(asked))
    check_chosen(checkpoint)
    return checkpoint


def check_chosen(checkpoint: Path) -> None:
    """Make sure that a checkpoint named by the user is whole.

    Raises:
        CheckpointError: It is not; the message names the last one of the same run that is.
    """
    try:
        check_manifest(checkpoint)
    except CheckpointError as error:
        last = last_whole_checkpoint(checkpoint.parent)
        remedy = "start a new run" if last is None else f"the last whole checkpoint is {last}"
        raise CheckpointError(f"{checkpoint} cannot be continued from: {error}; {remedy}") from error


def check_changes(run: Path, checkpoint: Path, changed: Collection[str], args: TrainingArguments) -> None:
    """Make sure that a run can go on from a checkpoint with what has changed since it was written.

    Args:
        run: The run folder.
        checkpoint: The checkpoint's folder.
        changed: Names of what is not as it was, as `compare_identity` tells them.
        args: Arguments of the run that goes on.

    Raises:
        CheckpointError: The optimizer's state would not fit, or the run's own checkpoints would be mixed with others.
    """
    if "optim" in changed:
        raise CheckpointError(
            f"{checkpoint} holds the state of another kind of optimizer than {args.optim.value}; start a new run from "
            "the checkpoint's weights"
        )
    if "shard" in changed:
        raise CheckpointError(
            f"{checkpoint} holds the optimizer's state in another form than shard={args.shard} reads; give the same "
            "value, or start a new run from the checkpoint's weights"
        )
    later = checkpoints_of(run)[-1:] if changed else []
    if later and later[0].name != checkpoint.name:
        raise CheckpointError(
            f"{run} holds {later[0].name}, which a run with changes from {checkpoint.name} would mix with its own; "
            "delete it or choose another output_dir"
        )
