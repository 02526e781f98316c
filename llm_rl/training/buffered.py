"""`BufferedTrainer`: roll-outs that serve several updates, in one process or several, and resume exactly."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, Sampler

from llm_rl.core.metrics import MetricAccumulator
from llm_rl.training.checkpoint import ExactTrainer
from llm_rl.training.errors import CheckpointError
from llm_rl.training.passes import Shards
from llm_rl.training.processes import check_processes, mean_over_processes
from llm_rl.training.sampler import RepeatedBatchSampler
from llm_rl.training.sharding import is_dealt
from llm_rl.training.symptoms import Symptom, SymptomWarnings
from llm_rl.training.unsupported import refuse_without_float64

LAUNCHED = ("ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED")
DEALT = {"processes", "loss", "total_loss", "last_logged_step", "seconds", "metrics", "step", "buffered_inputs"}
"""What of a checkpoint's progress can be dealt out to another number of processes."""


class BufferedTrainer(ExactTrainer):
    """An `ExactTrainer` on batches that it samples itself, each of which it keeps for several optimizer steps.

    A roll-out serves `args.steps_per_rollout` optimizer steps of `args.gradient_accumulation_steps` micro-batches, and
    stays in the buffer until then, in checkpoints too. Processes meet once an optimizer step, after their last backward
    pass, and where a subclass shares statistics; with `args.shard` they take all passes together (`passes.Shards`).

    A subclass says what a roll-out is (`_make_rollout`), how many rows of data it takes (`_rows_per_batch`,
    `_batches_per_rollout`), and what a micro-batch does with it: either `_train_on_buffer`, or `_prepare_inputs` and
    `compute_loss` as transformers calls them. One that `shards` says by `_shard` what is dealt out.

    `args` is a `RunArguments` with the property `steps_per_rollout`, and `train_dataset` has a length and indices;
    other arguments are those of `transformers.Trainer`.

    Attributes:
        metrics: What has been recorded since the last log line, which the next one tells.

    Raises:
        ValueError: A way of distribution is asked for that is not supported, or the device has no float64.
        RuntimeError: The number of processes is not the launcher's or not `args.expected_processes`.
    """

    args: Any
    control: Any
    buffer_arguments = frozenset(
        {
            "per_device_train_batch_size",
            "gradient_accumulation_steps",
            "num_generations",
            "num_iterations",
            "num_mini_batches",
        }
    )

    def __init__(self, model: nn.Module, args: Any, train_dataset: Any, **kwargs: Any) -> None:
        refuse_without_float64(args.device)
        check_processes(args.world_size, args.expected_processes)
        self._check_launch(args, kwargs.get("optimizers"))
        super().__init__(model=model, args=args, train_dataset=train_dataset, **kwargs)
        self._refuse_launch([name for name in ("fsdp", "deepspeed") if getattr(self, f"is_{name}_enabled")])
        self._shards: Shards | None = None
        self.metrics = MetricAccumulator()
        self._warnings = SymptomWarnings(self._symptoms())
        self._buffered_inputs: list[Any] = []
        self._step = 0  # micro-batches that the roll-out in the buffer has served

    def _check_launch(self, args: Any, optimizers: Any) -> None:
        asked = [name for name in LAUNCHED if os.environ.get(name, "false").lower() == "true"]
        self._refuse_launch([*asked, *(name for name in ("fsdp", "deepspeed") if getattr(args, name))])
        if args.shard and args.world_size == 1:
            raise ValueError(
                "shard=True deals weights out to several processes, and there is one; start with torchrun "
                "--nproc_per_node N, or leave it out"
            )
        if args.shard and optimizers is not None and optimizers[0] is not None:
            raise ValueError(
                "an optimizer of your own holds the weights as they are before they are dealt out; choose one by "
                "args.optim, or leave out shard"
            )

    def _refuse_launch(self, asked: list[str]) -> None:
        if asked:
            raise ValueError(
                f"FSDP and DeepSpeed as accelerate launches them are not supported by {type(self).__name__}, whose "
                f"processes take different numbers of passes; leave out {', '.join(asked)}, and start with torchrun "
                "and shard=True"
            )

    # What subclasses say

    @property
    def _rows_per_batch(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} has no _rows_per_batch; a subclass says how many there are")

    @property
    def _batches_per_rollout(self) -> int:
        """Batches that the buffer is filled from: one, or one for each micro-batch of an optimizer step."""
        return 1

    def _symptoms(self) -> tuple[Symptom, ...]:
        return ()

    def _make_rollout(self, model: nn.Module, inputs: Any) -> list[Any]:
        """What the buffer keeps of a batch: a fresh roll-out, or its part for this micro-batch."""
        raise NotImplementedError(f"{type(self).__name__} has no _make_rollout; a subclass says what a roll-out is")

    def _train_on_buffer(self, model: nn.Module, inputs: Any, num_items_in_batch: Tensor | int | None = None) -> Tensor:
        """One forward and backward pass over a micro-batch of the buffer; the loss, detached."""
        return super().forward_backward(model, inputs, num_items_in_batch)

    # Data

    @property
    def _micro_steps(self) -> int:
        """Micro-batches that a roll-out serves."""
        return self.args.gradient_accumulation_steps * self.args.steps_per_rollout

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Batches of the rows of one roll-out, repeated until it has served all its micro-batches."""
        return self._get_dataloader(
            self.train_dataset, "Training", self._rows_per_batch, sampler_fn=self._get_train_sampler, is_training=True
        )

    def _get_train_sampler(self, train_dataset: Dataset[Any] | None = None) -> Sampler[int]:
        rows = self._rows_per_batch * self._batches_per_rollout * self.args.world_size
        seed = self.args.seed if self.args.data_seed is None else self.args.data_seed
        return RepeatedBatchSampler(len(self.train_dataset), rows, self._micro_steps // self._batches_per_rollout, seed)

    # The update

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """Train as `transformers.Trainer` does, from a fresh roll-out or the checkpoint's."""
        self._step, self._buffered_inputs = 0, []
        self._deal_out()
        return super().train(*args, **kwargs)

    def create_optimizer(self, *args: Any, **kwargs: Any) -> torch.optim.Optimizer:
        """The optimizer of the weights, once these are dealt out where they are to be."""
        self._deal_out()
        return super().create_optimizer(*args, **kwargs)

    def _deal_out(self) -> None:
        """Deals weights out to the processes with `shard`, and makes sure that they still are."""
        if not self.args.shard:
            return
        if self._shards is None:
            shards = Shards(self.args.ddp_timeout)
            self._shard(shards)
            self._shards = shards
            # accelerate's own preparation of a model would wrap it in DDP.
            self.accelerator.prepare_model = partial(self.accelerator.prepare_model, evaluation_mode=True)
            backward = self.accelerator.backward
            self.accelerator.backward = lambda loss, **options: shards.backward(loss, partial(backward, **options))
        self._shards.check()

    def _shard(self, shards: Shards) -> None:
        """Hands the models whose weights are dealt out to `shards`."""
        raise NotImplementedError(f"{type(self).__name__} has no _shard; a subclass that shards says what is dealt out")

    def together(self) -> AbstractContextManager[None]:
        """A section in which processes take passes of the model; see `Shards.together`. Nothing without `shard`."""
        return nullcontext() if self._shards is None else self._shards.together()

    def settle(self) -> None:
        """Wait until no process takes passes, before a collective call of another kind. Nothing without `shard`."""
        if self._shards is not None:
            self._shards.settle()

    def everywhere(self, value: bool) -> bool:
        """Whether a thing is so in all processes, where these stop together."""
        return value if self._shards is None else self._shards.everywhere(value)

    def training_step(self, model: nn.Module, inputs: Any, num_items_in_batch: Tensor | int | None = None) -> Tensor:
        """One micro-batch; it counts when its numbers were found to be finite, else errors are `CheckedTrainer`'s."""
        loss = super().training_step(model, inputs, num_items_in_batch)
        self._step = (self._step + 1) % self._micro_steps
        return loss

    def forward_backward(self, model: nn.Module, inputs: Any, num_items_in_batch: Tensor | int | None = None) -> Tensor:
        """One pass over a fresh or a kept roll-out; gradients of several processes are averaged after a step's last."""
        # Not DDP's forward: its gradient synchronization is collective, and passes differ between processes.
        model = model.module if isinstance(model, DistributedDataParallel) else model
        # A roll-out that has served makes room, and the next one is made over the first micro-batches.
        if self._step == 0:
            self._buffered_inputs = []
        with self.together():
            if self._is_fresh:
                self._buffered_inputs += self._make_rollout(model, inputs)
            loss = self._train_on_buffer(model, inputs, num_items_in_batch)
        if self.args.world_size > 1 and self.accelerator.sync_gradients:
            self._average_gradients(model)
        return loss

    @property
    def _is_fresh(self) -> bool:
        """Whether this micro-batch brings rows for the buffer."""
        return self._step < self._batches_per_rollout

    def _average_gradients(self, model: nn.Module) -> None:
        # Of what is dealt out FSDP has taken the means.
        parameters = [each for each in model.parameters() if each.requires_grad and not is_dealt(each)]
        if not parameters:
            return
        means = mean_over_processes([parameter.grad for parameter in parameters], parameters)
        for parameter, mean in zip(parameters, means, strict=True):
            parameter.grad = mean

    def failed_rollout(self) -> Any:
        """The roll-out in the buffer; None where making it failed."""
        return self._buffered_inputs or None

    # Checkpoints and logs

    def progress(self) -> dict[str, Any]:
        """Adds the metrics since the last log line, the position in the buffer, and the buffer while it is needed."""
        return {
            **super().progress(),
            "metrics": self.metrics.state_dict(),
            "step": self._step,
            "buffered_inputs": self._buffered_inputs if self._step else [],
        }

    def load_progress(self, progress: dict[str, Any]) -> None:
        """Continue from what `progress` returned; errors as in `ExactTrainer.load_progress` and `check_buffer`."""
        super().load_progress(progress)
        self.metrics.load_state_dict(progress["metrics"])
        self._step, self._buffered_inputs = progress["step"], progress["buffered_inputs"]
        self.check_buffer(bool(self._buffered_inputs))

    def dealt_progress(self, records: list[dict[str, Any]]) -> dict[str, Any]:
        """This process's part of what others have saved; `CheckpointError` where that cannot be dealt out anew."""
        size, rank = self.args.world_size, self.args.process_index
        kept = sorted(name for name in records[0].keys() - DEALT if any(record[name] for record in records))
        if kept or any(record["step"] for record in records):
            what = ", ".join(kept) or "a roll-out in use, of which each has its part"
            raise CheckpointError(
                f"the checkpoint of {len(records)} processes holds {what}, which {size} cannot share; start as many, "
                "or resume from a checkpoint at a roll-out's end"
            )
        metrics = MetricAccumulator()
        for record in records[rank::size]:
            metrics.add_state(record["metrics"])
        loss = sum(record["loss"] for record in records) / len(records)
        return {**records[0], "processes": size, "loss": loss, "metrics": metrics.state_dict()}

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """Log, with the metrics collected since the last time; warn of what looks wrong in them."""
        self.metrics.reduce()
        line = {**logs, **self.metrics.compute()}
        super().log(line, *args, **kwargs)
        if self.is_world_process_zero():
            self._warnings.check(line)

    def _evaluate_rows(self, rows: Any, record: Callable[[list[Any]], None]) -> None:
        """Has this process's rows recorded, a batch at a time; `ValueError` where there are none."""
        if rows is None or not len(rows):
            raise ValueError("evaluate has no rows; pass eval_dataset here or to the trainer")
        mine = range(self.args.process_index, len(rows), self.args.world_size)
        size = self.args.per_device_eval_batch_size
        with self.together():
            for start in range(0, len(mine), size):
                record([rows[index] for index in mine[start : start + size]])

    def _log_evaluation(self, metrics: MetricAccumulator, prefix: str) -> dict[str, float]:
        """Logs an evaluation's metrics, and tells callbacks; what training has recorded waits for its own line."""
        metrics.reduce()
        found = {f"{prefix}_{name}": value for name, value in metrics.compute().items()}
        super().log(found)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, found)
        return found

    def predict(self, *args: Any, **kwargs: Any) -> Any:
        """Not there: batches that the trainer makes have no outputs to collect; raises `NotImplementedError`."""
        raise NotImplementedError(f"predict is not supported by {type(self).__name__}; evaluate rows instead")

    def floating_point_ops(self, inputs: Any) -> int:
        """0: the number of tokens is known only after the roll-out."""
        return 0
