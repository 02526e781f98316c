"""Checkpoints that are there whole or not at all, and that continue a run exactly.

`transformers.Trainer` writes a checkpoint in place and leaves out what it has added up since the last log line. Here it
writes to a folder beside, `<output_dir>/partial`, which is renamed when all of it is on the disk; older checkpoints are
deleted after that. A save that was killed leaves the folder `partial`, which resuming does not look at and the
next save removes. Each checkpoint says what it consists of (`llm_rl.training.manifest`) and of which run it is
(`llm_rl.training.identity`), and resuming holds it against both.
"""

import pickle  # nosec B403 # for the name of the error that torch.load raises
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import nn
from transformers import PreTrainedModel, TrainingArguments
from transformers.trainer import SCHEDULER_NAME, TRAINER_STATE_NAME
from transformers.trainer_pt_utils import safe_globals
from transformers.trainer_utils import sort_checkpoints

from llm_rl.training.checked import CheckedTrainer
from llm_rl.training.errors import CheckpointError
from llm_rl.training.finite import check_weights
from llm_rl.training.identity import LENGTH, check_changes, compare_identity, fingerprint, identity_of, save_identity
from llm_rl.training.manifest import checkpoint_to_resume, checkpoints_of, write_manifest
from llm_rl.training.processes import first_says
from llm_rl.training.quiet import without_bars
from llm_rl.training.run_folder import check_writable, run_lock, start_anew
from llm_rl.training.sharding import SHARDS, is_sharded, load_optimizer, load_weights, save_shards, whole, whole_weights
from llm_rl.training.storage import PARTIAL, load_record, put_in_place, save_record
from llm_rl.training.wrapper import unwrapped


@contextmanager
def named_damage(checkpoint: str | None) -> Iterator[None]:
    """A section in which errors of reading a checkpoint's files are a `CheckpointError` that names it."""
    try:
        yield
    except (OSError, RuntimeError, ValueError, KeyError, pickle.UnpicklingError, SafetensorError) as error:
        if checkpoint is None or isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"{checkpoint} cannot be loaded: {type(error).__name__}: {error}") from error


class ExactTrainer(CheckedTrainer):
    """A `transformers.Trainer` whose checkpoints are whole and continue the run bit for bit.

    Subclasses with a state of their own extend `progress` and `load_progress`, those with more than arguments and
    training rows to tell runs apart `identity`.

    Attributes:
        shards: Whether the trainer supports `shard`.
        harmless_arguments: Arguments of a subclass that change no mathematics, so that a run may resume with others.
        buffer_arguments: Arguments that give a roll-out its shape and its place in the run.
        changed: What is not as it was when the checkpoint was written from which the run has resumed.
    """

    shards = False
    harmless_arguments: frozenset[str] = frozenset()
    buffer_arguments: frozenset[str] = frozenset()
    changed: frozenset[str] = frozenset()
    model: Any
    _staging: Path | None = None
    _to_load: str | None = None
    _read_from = ""
    _began = 0.0
    _earlier_seconds = 0.0

    def __init__(self, model: Any = None, args: TrainingArguments | None = None, *further: Any, **kwargs: Any) -> None:
        if getattr(args, "shard", False) and not self.shards:
            raise ValueError(f"shard is not supported by {type(self).__name__}; leave it out")
        if args is not None and args.should_save:
            check_writable(Path(args.output_dir))
        super().__init__(model, args, *further, **kwargs)
        if self.args.n_gpu > 1:
            raise ValueError(
                f"one process sees {self.args.n_gpu} devices; start one for each with torchrun, or show it one with "
                "CUDA_VISIBLE_DEVICES"
            )

    def train(self, resume_from_checkpoint: str | bool | None = None, **kwargs: Any) -> Any:
        """Train as `transformers.Trainer` does; after resuming, speeds and times are those of the whole run.

        Args:
            resume_from_checkpoint: A checkpoint's folder, or "last" or True: the last whole checkpoint of `output_dir`,
                and the beginning where there is none yet. None: that of the arguments, by default a fresh run.
            **kwargs: As in `transformers.Trainer`.

        Returns:
            What `transformers.Trainer` returns. A run that had ended takes no step and returns what it did at its end.

        Raises:
            CheckpointError: A fresh run finds checkpoints of another and `overwrite_output_dir` is off; a checkpoint is
                damaged or of a run with other arguments or data and `resume_with_changes` is off; the folder is in use
                by another process, or cannot be written to.
        """
        self._began, self._earlier_seconds = time.time(), 0.0
        self._settings = identity_of(self.args)  # of now: trainers set some arguments themselves
        asked = self.args.resume_from_checkpoint if resume_from_checkpoint is None else resume_from_checkpoint
        run = Path(self.args.output_dir)
        with ExitStack() as held:
            first_says(lambda: held.enter_context(run_lock(run)), CheckpointError)
            found, changed = first_says(lambda: self._starting_point(run, asked), CheckpointError)
            self._to_load, self.changed = found, frozenset(changed)
            return super().train(resume_from_checkpoint=found, **kwargs)

    # Where a run starts

    def _starting_point(self, run: Path, asked: str | bool | None) -> tuple[str | None, list[str]]:
        """The checkpoint to go on from, if any, and what has changed since it was written."""
        if asked is None or asked is False:
            start_anew(run, getattr(self.args, "overwrite_output_dir", False))
            return None, []
        checkpoint = checkpoint_to_resume(run, asked)
        if checkpoint is None:
            return None, []
        changed = compare_identity(
            checkpoint,
            self.identity(),
            harmless=self._harmless(),
            with_changes=getattr(self.args, "resume_with_changes", False),
        )
        check_changes(run, checkpoint, changed, self.args)
        return str(checkpoint), sorted(changed)

    def identity(self) -> dict[str, Any]:
        """What a checkpoint keeps to tell whether the run that resumes it is the same; see `identity_of`."""
        if "train_dataset" not in self._settings:
            self._settings["train_dataset"] = fingerprint(self.train_dataset)
        return self._settings

    def _harmless(self) -> frozenset[str]:
        """Arguments that change no mathematics; with a constant rate a run's length is one of them."""
        constant = self.args.lr_scheduler_type in ("constant", "constant_with_warmup")
        return self.harmless_arguments | (LENGTH if constant else frozenset())

    def _run_epoch(self, *args: Any, **kwargs: Any) -> None:
        # transformers would take one more step of a run that has ended, or that a callback ends at its beginning.
        if self.control.should_training_stop or self.state.global_step >= self.state.max_steps:
            self.control.should_training_stop = True
        else:
            super()._run_epoch(*args, **kwargs)

    def _evaluate(self, trial: Any, ignore_keys_for_eval: Any, skip_scheduler: bool = False) -> dict[str, float]:
        # transformers evaluates "on start" whenever it starts, also in the middle of a run.
        if skip_scheduler and self.state.global_step:
            return {}
        return super()._evaluate(trial, ignore_keys_for_eval, skip_scheduler)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        groups = [{name: value for name, value in group.items() if name != "params"} for group in self._groups()]
        with named_damage(checkpoint):
            self._read_optimizer_and_scheduler(checkpoint)
        if checkpoint is None or not self.changed:
            return
        # The new settings act; the moments and the place in the schedule are the old ones.
        factors = [scale(self.lr_scheduler.last_epoch) for scale in getattr(self.lr_scheduler, "lr_lambdas", [])]
        if len(factors) != len(groups):
            raise CheckpointError(
                f"{type(self.lr_scheduler).__name__} cannot take over changed arguments; resume with those of the "
                "checkpoint, or start a new run from its weights"
            )
        for group, options, factor in zip(self._groups(), groups, factors, strict=True):
            group.update(options, lr=options["initial_lr"] * factor)
        self.lr_scheduler.base_lrs = [options["initial_lr"] for options in groups]
        self.lr_scheduler._last_lr = [group["lr"] for group in self._groups()]  # what the next log line tells

    def _read_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is None or not is_sharded(self.model):
            return super()._load_optimizer_and_scheduler(checkpoint)
        load_optimizer(self._shards_of(checkpoint), self.model, self._plain_optimizer)
        self.lr_scheduler.load_state_dict(torch.load(Path(checkpoint) / SCHEDULER_NAME, weights_only=True))

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        if not is_sharded(self.model):
            return super()._save_optimizer_and_scheduler(output_dir)
        save_shards(Path(output_dir) / SHARDS, self.model, self._plain_optimizer)
        if self.args.should_save:
            torch.save(self.lr_scheduler.state_dict(), Path(output_dir) / SCHEDULER_NAME)

    @property
    def _plain_optimizer(self) -> torch.optim.Optimizer:
        """The optimizer without accelerate's wrapper."""
        wrapped: Any = self.optimizer
        return getattr(wrapped, "optimizer", wrapped)

    def _groups(self) -> list[dict[str, Any]]:
        return self.optimizer.param_groups

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        with named_damage(self._to_load):
            if is_sharded(self.model):
                return load_weights(self._shards_of(resume_from_checkpoint), self.model)
            with self._without_wrapper():
                self._read_from = resume_from_checkpoint
                super()._load_from_checkpoint(resume_from_checkpoint, model)

    def _load_best_model(self) -> None:
        if is_sharded(self.model):
            return load_weights(self._shards_of(str(self.state.best_model_checkpoint)), self.model)
        with self._without_wrapper():
            self._read_from = str(self.state.best_model_checkpoint)
            super()._load_best_model()

    def _issue_warnings_after_load(self, load_result: Any) -> None:
        """Reads the weights once more where a checkpoint has other names for them, as of many models with eyes."""
        if not (load_result.unexpected_keys and isinstance(self.model, PreTrainedModel)):
            return super()._issue_warnings_after_load(load_result)
        exact = torch.promote_types(self.model.dtype, torch.float32)
        saved, found = type(self.model).from_pretrained(self._read_from, dtype=exact, output_loading_info=True)
        if found["missing_keys"]:
            raise CheckpointError(f"{self._read_from} lacks {sorted(found['missing_keys'])}; resume from another one")
        self.model.load_state_dict(saved.state_dict())

    @staticmethod
    def _shards_of(checkpoint: str) -> Path:
        folder = Path(checkpoint) / SHARDS
        if not folder.is_dir():
            raise CheckpointError(
                f"{checkpoint} has no {SHARDS}, the processes' parts of weights and optimizer (saved with "
                "save_only_model?); start a new run from its weights"
            )
        return folder

    def _clip_grad_norm(self, model: nn.Module) -> Any:
        return whole(super()._clip_grad_norm(model))

    def _get_grad_norm(self, model: nn.Module, grad_norm: Any = None) -> Any:
        found = super()._get_grad_norm(model, grad_norm)
        return whole(found) if isinstance(found, torch.Tensor) else found

    @contextmanager
    def _without_wrapper(self) -> Iterator[None]:
        """For reading and writing weights: `self.model` is what a `ModelWrapper` wraps."""
        kept = self.model
        self.model = unwrapped(kept)
        try:
            yield
        finally:
            self.model = kept

    # What a checkpoint holds

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
        """Continue from what `progress` returned; `CheckpointError` where another number of processes wrote it."""
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

    def _read_progress(self, checkpoint: Path) -> dict[str, Any]:
        """This process's progress; of a sharded run that goes on in another number of processes a part of all."""

        def read(stem: Path) -> Any:
            return load_record(stem, self.record_classes, self.args.device)

        saved = len([*checkpoint.glob("progress_*.json")])
        if saved in (0, self.args.world_size) or not is_sharded(self.model):
            return read(self._progress_stem(checkpoint))
        return self.dealt_progress([read(checkpoint / f"progress_{number}") for number in range(saved)])

    def dealt_progress(self, records: list[dict[str, Any]]) -> dict[str, Any]:
        """This process's part of what others have saved, each by `progress`; here always a `CheckpointError`."""
        raise CheckpointError(f"{type(self).__name__} resumes in as many processes as saved, {len(records)}; start so")

    def check_buffer(self, in_use: bool) -> None:
        """Raises `CheckpointError` where a roll-out that a checkpoint holds has another shape than the arguments say.

        `in_use`: whether the run stands between the updates on a roll-out, by the old arguments or the new ones.
        """
        if in_use and (changed := sorted(self.changed & self.buffer_arguments)):
            raise CheckpointError(
                f"the checkpoint of step {self.state.global_step} lies between the updates on a roll-out, whose shape "
                f"depends on {changed}; give the same values, or resume from a checkpoint at a roll-out's end"
            )

    def _progress_stem(self, checkpoint: Path) -> Path:
        return checkpoint / f"progress_{self.args.process_index}"

    def _get_output_dir(self, trial: Any) -> str:
        return super()._get_output_dir(trial) if self._staging is None else str(self._staging)

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        with self._without_wrapper(), without_bars():
            if state_dict is None and is_sharded(self.model):
                state_dict = whole_weights(self.model)
            super()._save(output_dir, state_dict)

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        check_weights(model)
        run = Path(self._get_output_dir(trial))
        staging, name = run / PARTIAL, f"checkpoint-{self.state.global_step}"
        if self.args.should_save:
            shutil.rmtree(staging, ignore_errors=True)
        self.accelerator.wait_for_everyone()
        try:
            # Written beside the run, sealed with its checksums, and only then put in place.
            self._staging = staging
            super()._save_checkpoint(model, trial)
            # The best checkpoint is called by the name that it is about to get, in what was written as well.
            if self.state.best_model_checkpoint == str(staging / name):
                self.state.best_model_checkpoint = str(run / name)
                if self.args.should_save:
                    self.state.save_to_json(str(staging / name / TRAINER_STATE_NAME))
            if not self.args.save_only_model:
                save_record(self.progress(), self._progress_stem(staging / name))
            self.accelerator.wait_for_everyone()
            if self.args.should_save:
                save_identity(self.identity(), staging / name)
                write_manifest(staging / name)
                put_in_place(staging / name, run / name)
        # On a full disk torch and safetensors raise their own.
        except (OSError, RuntimeError, SafetensorError) as error:
            shutil.rmtree(staging, ignore_errors=True)
            last = checkpoints_of(run)[-1:]
            remedy = f"resume with resume_from_checkpoint={last[0]}" if last else "start again: no older one exists"
            raise CheckpointError(
                f"{name} could not be written to {run}: {error}. If the disk is full, free space or lower "
                f"save_total_limit (now {self.args.save_total_limit}), then {remedy}"
            ) from error
        finally:
            self._staging = None
        if self.args.should_save:
            self._delete_older(run, staging)

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
        self._to_load = None
        with named_damage(checkpoint):
            super()._load_rng_state(checkpoint)
        if checkpoint is None:
            return
        self._check_noise(Path(checkpoint))
        try:
            progress = self._read_progress(Path(checkpoint))
        except FileNotFoundError as error:
            raise CheckpointError(
                f"{checkpoint} cannot be continued exactly, {error.filename} is missing (saved with "
                "save_only_model, by an older version or by fewer processes?); start a new run from its weights"
            ) from error
        try:
            self.load_progress(progress)
        except KeyError as error:
            raise CheckpointError(
                f"{checkpoint} was written by another version, without {error}; start a new run from its weights"
            ) from error

    def _check_noise(self, checkpoint: Path) -> None:
        """Make sure that a card's random state is the checkpoint's, where transformers leaves a line in the log."""
        device, several = self.args.device, self.args.world_size > 1
        if device.type in ("cpu", "mps"):  # transformers raises itself for the first, and keeps none of the other
            return
        file = checkpoint / (f"rng_state_{self.args.process_index}.pth" if several else "rng_state.pth")
        with safe_globals():
            saved = torch.load(file, weights_only=True).get(device.type)
        found = saved[device.index or 0] if isinstance(saved, list) else saved
        if found is None or not torch.equal(found, torch.get_device_module(device).get_rng_state(device)):
            raise CheckpointError(
                f"{checkpoint} holds no random state for {device} (saved on another kind of device, or where other "
                "ones were seen?), so that the run would not go on exactly; resume where it was saved, or start a new "
                "run from its weights"
            )

    def _finalize_training(self, trial: Any, num_train_samples: float, start_time: float) -> Any:
        if self._to_load is not None:  # a run that had ended took no step
            self._load_rng_state(self._to_load)
        return super()._finalize_training(trial, num_train_samples, start_time - self._earlier_seconds)
