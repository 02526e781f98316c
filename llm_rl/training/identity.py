"""What makes a run the run that it is: the arguments that its mathematics depends on, and its data."""

import hashlib
import json
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor
from transformers import TrainingArguments

from llm_rl.training.errors import CheckpointError
from llm_rl.training.manifest import checkpoints_of

IDENTITY = "run.json"
MOST_ROWS = 20_000
"""Rows that a fingerprint reads; of a larger data set it reads so many, evenly spaced."""

SILENT = {
    "local_rank",
    "output_dir",
    "overwrite_output_dir",
    "resume_from_checkpoint",
    "resume_with_changes",
    "run_name",
}
HARMLESS_PREFIXES = ("eval_", "logging_", "log_", "save_", "hub_", "push_to_hub", "trackio_", "ddp_", "project")
HARMLESS = SILENT | {
    "activation_checkpointing", "activation_checkpointing_kwargs", "batch_eval_metrics", "dataloader_num_workers",
    "dataloader_persistent_workers", "dataloader_pin_memory", "dataloader_prefetch_factor", "disable_tqdm", "do_eval",
    "do_predict", "do_train", "expected_processes", "gradient_checkpointing", "gradient_checkpointing_kwargs",
    "greater_is_better", "include_for_metrics", "load_best_model_at_end", "metric_for_best_model",
    "per_device_eval_batch_size", "prediction_loss_only", "report_to", "restore_callback_states_from_checkpoint",
    "skip_memory_metrics", "torch_empty_cache_steps",
}  # fmt: skip
LENGTH = frozenset({"max_steps", "num_train_epochs"})
logger = logging.getLogger(__name__)


def fingerprint(data: Any) -> str | None:
    """A checksum of a data set's rows; None where it has no length or no indices.

    Tensors, arrays, pictures, numbers, texts, None, and mappings, sequences and data classes of such count by their
    values, anything else by the name of its class. A data class that many rows share counts once.
    """
    if not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
        return None
    digest = hashlib.sha256(str(len(data)).encode())
    seen: dict[int, Any] = {}
    for index in range(0, len(data), max(1, len(data) // MOST_ROWS)):
        _add(digest, data[index], seen)
    return digest.hexdigest()[:16]


def _add(digest: Any, value: Any, seen: dict[int, Any]) -> None:
    if isinstance(value, Tensor):
        value = value.detach().cpu().contiguous()
        value = value.view(torch.uint8).numpy() if value.dtype == torch.bfloat16 else value.numpy()
    if isinstance(value, np.ndarray):
        digest.update(f"array {value.dtype} {value.shape} ".encode() + value.tobytes())
    elif value is None or isinstance(value, (bool, int, float, str, bytes, np.generic)):
        digest.update(f"{type(value).__name__} {value!r} ".encode())
    elif isinstance(value, Mapping):
        digest.update(f"mapping {len(value)} ".encode())
        for key in sorted(value, key=repr):
            _add(digest, key, seen)
            _add(digest, value[key], seen)
    elif isinstance(value, (list, tuple)) and set(map(type, value)) == {int}:  # token ids, the bulk of most rows
        digest.update(f"sequence {len(value)} ".encode() + "".join([f"int {item} " for item in value]).encode())
    elif isinstance(value, (Sequence, set, frozenset)):
        digest.update(f"sequence {len(value)} ".encode())
        for item in sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value:
            _add(digest, item, seen)
    elif is_dataclass(value) and not isinstance(value, type):
        if id(value) not in seen:
            seen[id(value)] = value  # which keeps it, so that no other object gets its number
            _add(digest, {item.name: getattr(value, item.name) for item in fields(value)}, seen)
    elif hasattr(value, "__array_interface__"):  # a PIL.Image
        _add(digest, np.asarray(value), seen)
    else:
        digest.update(f"{type(value).__module__}.{type(value).__qualname__} ".encode())


def identity_of(args: TrainingArguments) -> dict[str, Any]:
    """A run's arguments and the versions of its libraries, as JSON gives them back."""
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    return json.loads(json.dumps({"arguments": args.to_dict(), "versions": versions}, default=str))


def save_identity(identity: Mapping[str, Any], checkpoint: Path) -> None:
    """Write an identity into a checkpoint."""
    (checkpoint / IDENTITY).write_text(json.dumps(identity, indent=1), encoding="utf-8")


def compare_identity(
    checkpoint: Path, identity: Mapping[str, Any], *, harmless: Collection[str], with_changes: bool
) -> set[str]:
    """Hold the run that is to go on against the one that wrote a checkpoint: the names of what changes the mathematics.

    Harmless differences are logged; `harmless` are arguments, beside those of every trainer, that are such.
    `with_changes` goes on where the mathematics changes, with a warning.

    Raises:
        CheckpointError: The mathematics changes and `with_changes` is off, or the checkpoint does not say what it was.
    """
    try:
        saved = json.loads((checkpoint / IDENTITY).read_text(encoding="utf-8"))
        old, new = _flat(saved), _flat(identity)
    except (OSError, ValueError, AttributeError, KeyError) as error:
        raise CheckpointError(f"{checkpoint / IDENTITY} cannot be read: {error}; start a new run") from error
    differing = {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
    known = HARMLESS | {*harmless, "versions"}
    mild = {name for name in differing if name in known or name.startswith(HARMLESS_PREFIXES)}
    said = [f"{name}: {old.get(name)!r}, now {new.get(name)!r}" for name in sorted(mild - SILENT)]
    if said:
        logger.warning("resuming %s with other settings that change no mathematics: %s", checkpoint, "; ".join(said))
    strong = differing - mild
    if not strong:
        return strong
    named = "; ".join(f"{name} is {new.get(name)!r}, was {old.get(name)!r}" for name in sorted(strong))
    if not with_changes:
        raise CheckpointError(
            f"{checkpoint} is of a run with other settings: {named}; give the same ones, or go on with the new ones by "
            "resume_with_changes=True"
        )
    logger.warning("resuming %s with changes: %s", checkpoint, named)
    return strong


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


def _flat(identity: Mapping[str, Any]) -> dict[str, Any]:
    return {**identity["arguments"], **{name: value for name, value in identity.items() if name != "arguments"}}
