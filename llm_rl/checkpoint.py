"""Checkpoints that are there whole or not at all, and that continue a run exactly.

`transformers.Trainer` writes a checkpoint in place and leaves out what it has added up since the last log line. Here it
writes to a folder beside, `<output_dir>/partial`, which is renamed when all of it is on the disk; older checkpoints are
deleted after that. A save that was killed leaves the folder `partial`, which resuming does not look at and the
next save removes.
"""

import shutil
import time
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import nn
from transformers import Trainer
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import get_last_checkpoint, sort_checkpoints

from llm_rl.storage import PARTIAL, load_record, put_in_place, save_record


class CheckpointError(RuntimeError):
    """A checkpoint could not be written, or cannot be continued from."""


class ExactTrainer(Trainer):
    """A `transformers.Trainer` whose checkpoints are whole and continue the run bit for bit.

    Subclasses with a state of their own extend `progress` and `load_progress`.
    """

    record_classes: tuple[type, ...] = ()
    _staging: Path | None = None
    _began = 0.0
    _earlier_seconds = 0.0

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """Train as `transformers.Trainer` does; after resuming, speeds and times are those of the whole run."""
        self._began, self._earlier_seconds = time.time(), 0.0
        return super().train(*args, **kwargs)

    def progress(self) -> dict[str, Any]:
        """What a checkpoint must hold beyond what `transformers.Trainer` saves; see `save_record` for its types."""
        return {
            "processes": self.args.world_size,
            "loss": self._tr_loss.item(),
            "total_loss": self._total_loss_scalar,
            "last_logged_step": self._globalstep_last_logged,
            "seconds": self._earlier_seconds + time.time() - self._began,
        }

    def load_progress(self, progress: dict[str, Any]) -> None:
        """Continue from what `progress` returned.

        Raises:
            CheckpointError: The checkpoint was written by another number of processes.
        """
        if progress["processes"] != self.args.world_size:
            raise CheckpointError(
                f"the checkpoint was written by {progress['processes']} processes and cannot be continued exactly by "
                f"{self.args.world_size}; start as many"
            )
        self._tr_loss = torch.tensor(progress["loss"], device=self.args.device)
        self._total_loss_scalar = progress["total_loss"]
        self._globalstep_last_logged = progress["last_logged_step"]
        self._earlier_seconds = progress["seconds"]
        self._initial_global_step = 0

    def _progress_stem(self, checkpoint: Path) -> Path:
        return checkpoint / f"progress_{self.args.process_index}"

    def _get_output_dir(self, trial: Any) -> str:
        return super()._get_output_dir(trial) if self._staging is None else str(self._staging)

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        run = Path(self._get_output_dir(trial))
        staging, name = run / PARTIAL, f"checkpoint-{self.state.global_step}"
        if self.args.should_save:
            shutil.rmtree(staging, ignore_errors=True)
        self.accelerator.wait_for_everyone()
        try:
            self._staging = staging
            super()._save_checkpoint(model, trial)
            if self.state.best_model_checkpoint == str(staging / name):
                self._name_best(run / name, staging / name)
            if not self.args.save_only_model:
                save_record(self.progress(), self._progress_stem(staging / name))
            self.accelerator.wait_for_everyone()
            if self.args.should_save:
                put_in_place(staging / name, run / name)
        except (
            OSError,
            RuntimeError,
            SafetensorError,
        ) as error:  # on a full disk torch and safetensors raise their own
            shutil.rmtree(staging, ignore_errors=True)
            last = get_last_checkpoint(run)
            remedy = f"resume with resume_from_checkpoint={last}" if last else "start again: no older one exists"
            raise CheckpointError(
                f"{name} could not be written to {run}: {error}. If the disk is full, free space or lower "
                f"save_total_limit (now {self.args.save_total_limit}), then {remedy}"
            ) from error
        finally:
            self._staging = None
        if self.args.should_save:
            self._delete_older(run, staging)

    def _name_best(self, checkpoint: Path, written: Path) -> None:
        """Call the best checkpoint by the name that it is about to get, in what was written as well."""
        self.state.best_model_checkpoint = str(checkpoint)
        if self.args.should_save:
            self.state.save_to_json(str(written / TRAINER_STATE_NAME))

    def _delete_older(self, run: Path, staging: Path) -> None:
        """Keep `save_total_limit` checkpoints, the last and the best among them; none is ever half deleted."""
        checkpoints = sort_checkpoints(str(run), use_mtime=True)
        surplus = len(checkpoints) - (self.args.save_total_limit or len(checkpoints))
        spared = {checkpoints[-1], self.state.best_model_checkpoint}
        for path in [path for path in checkpoints if path not in spared][: max(surplus, 0)]:
            Path(path).rename(staging / Path(path).name)
        shutil.rmtree(staging, ignore_errors=True)

    def _load_rng_state(self, checkpoint: str | None) -> None:
        # The one hook that runs after the loop has set its sums to 0 and before the first step.
        super()._load_rng_state(checkpoint)
        if checkpoint is None:
            return
        stem = self._progress_stem(Path(checkpoint))
        try:
            progress = load_record(stem, self.record_classes, self.args.device)
        except FileNotFoundError as error:
            raise CheckpointError(
                f"{checkpoint} cannot be continued exactly, {error.filename or stem} is missing (saved with "
                "save_only_model, by an older version or by fewer processes?); start a new run from its weights"
            ) from error
        self.load_progress(progress)

    def _finalize_training(self, trial: Any, num_train_samples: float, start_time: float) -> Any:
        return super()._finalize_training(trial, num_train_samples, start_time - self._earlier_seconds)
