"""The checkpoint that a run goes on from, and whether it can."""

import logging
from collections.abc import Collection
from pathlib import Path

from transformers import TrainingArguments

from llm_rl.training.errors import CheckpointError
from llm_rl.training.manifest import check_manifest, checkpoints_of, last_whole_checkpoint

logger = logging.getLogger(__name__)


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


def check_changes(run: Path, checkpoint: Path, changed: Collection[str], args: TrainingArguments) -> None:
    """Raises `CheckpointError` where a run cannot go on with what has changed since a checkpoint was written.

    The optimizer's state would not fit, or the run's own checkpoints would be mixed with others. `changed` is what
    `compare_identity` tells.
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
