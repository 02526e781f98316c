"""A trainer that stops at numbers that are not finite, and keeps what led to them."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from transformers import Trainer

from llm_rl.training.failure import Failure, save_failure
from llm_rl.training.finite import gradient_norm
from llm_rl.training.sharding import is_sharded, whole_weights
from llm_rl.training.wrapper import unwrapped


class CheckedTrainer(Trainer):
    """A `transformers.Trainer` that never steps on a loss or gradient that is not finite.

    Subclasses extend `forward_backward` where others extend `training_step`, and `gradients` and `failed_rollout` where
    they have more of them.

    Attributes:
        record_classes: The data classes of roll-outs and of what checkpoints hold.
        remedy: What the message of an error advises.
    """

    record_classes: tuple[type, ...] = ()
    remedy = "lower the learning rate"

    def training_step(self, model: nn.Module, inputs: Any, num_items_in_batch: Tensor | int | None = None) -> Tensor:
        """`forward_backward`, and a look at its loss; after the last one of an optimizer step at all its gradients.

        Raises:
            FloatingPointError: One is not finite; the message names the folder with the batch, the roll-out and the
                weights, see `llm_rl.training.failure.load_failure`.
        """
        try:
            with self._own_noise():
                loss = self.forward_backward(model, inputs, num_items_in_batch)
            # What is not finite stays so while gradients add up. A scaler leaves out steps that overflow by itself.
            steps_next = self.accelerator.sync_gradients and self.accelerator.scaler is None
            norm = gradient_norm(self.gradients(model)) if steps_next else None
            finite = loss.isfinite() if norm is None else loss.isfinite() & norm.isfinite()  # one look: it waits
            if not self.everywhere(bool(finite)):
                norm = gradient_norm(self.gradients(model)) if norm is None else norm
                raise FloatingPointError(
                    f"the loss is {loss.item()} with gradient norm {norm.item()} at step {self.state.global_step}; "
                    f"{self.remedy}"
                )
        except FloatingPointError as error:
            raise FloatingPointError(self._keep_failure(str(error), inputs)) from error
        return loss

    def forward_backward(self, model: nn.Module, inputs: Any, num_items_in_batch: Tensor | int | None = None) -> Tensor:
        """One forward and one backward pass; the loss, detached."""
        return super().training_step(model, inputs, num_items_in_batch)

    @contextmanager
    def _own_noise(self) -> Iterator[None]:
        """A section in which what torch draws (dropout, masks) is this process's own: all began with the same seed."""
        if self.args.world_size == 1:
            yield
            return
        key = (int(torch.randint(2**62, ())), self.args.process_index)
        devices = [] if self.args.device.type == "cpu" else [self.args.device]
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0]))
            yield

    def everywhere(self, value: bool) -> bool:
        """Whether a thing is so in all processes that stop together."""
        return value

    def gradients(self, model: nn.Module) -> Iterable[Tensor | None]:
        """All gradients that the next optimizer step will apply."""
        return [parameter.grad for parameter in model.parameters()]

    def failed_rollout(self) -> Any:
        """The roll-out that a failed step worked on, for its record; None where there is none."""
        return None

    def _keep_failure(self, error: str, inputs: Any) -> str:
        """Save what is needed to look into an error; its message with the folder's name, or why there is none."""
        step, rank = self.state.global_step, f"-rank{self.args.process_index}" if self.args.world_size > 1 else ""
        folder = Path(self.args.output_dir) / f"failed_step-{step}{rank}"
        failure = Failure(step, error, self.args.to_sanitized_dict(), inputs, self.failed_rollout())
        # Of a model that is dealt out the first process alone gets the weights.
        weights = whole_weights(unwrapped(self.model)) if is_sharded(self.model) else None
        try:
            save_failure(folder, failure, self.model, weights)
        except (OSError, RuntimeError, TypeError, SafetensorError) as failed:
            return f"{error} (the batch could not be saved to {folder}: {failed})"
        return f"{error} (batch, roll-out and weights are in {folder})"
