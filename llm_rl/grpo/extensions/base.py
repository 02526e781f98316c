"""What an extension of GRPO is: hooks for roll-outs, the loss and checkpoints."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from torch import Tensor, nn

from llm_rl.core import PolicyTensors
from llm_rl.rollout.data import RolloutBatch, Sample
from llm_rl.rollout.trainer import RolloutTrainer


@dataclass
class Extension:
    """Something that `GRPOTrainer` does beside its objective; a subclass says what it does in the hooks that it needs.

    A subclass is a dataclass, whose fields are its options. A trainer makes itself one with the same options, which is
    in its `extensions`, so that one object may be given to several.
    """

    def bind(self, trainer: RolloutTrainer) -> None:
        """Take the trainer, which is made but for what its extensions prepare here.

        Raises:
            ValueError: The extension does not fit the trainer.
        """
        self.trainer = trainer

    @property
    def name(self) -> str:
        """What it is called in checkpoints and errors."""
        return type(self).__name__

    # The roll-out

    def sample(self, rows: Sequence[Mapping[str, Any]]) -> list[Sample] | None:
        """The completions of a roll-out in the place of those that the trainer would sample now; None: those."""
        return None

    # The loss

    def objective(self, objective: Tensor, policy: PolicyTensors, batch: RolloutBatch) -> Tensor:
        """What is to be maximized at each token of a micro-batch, `(B, T)`, before a divergence is taken off.

        Args:
            objective: `(B, T)`, what it is so far; anything where `policy.mask` is False.
            policy: What the micro-batch tells of the policy.
            batch: The micro-batch.
        """
        return objective

    def loss(self, loss: Tensor, model: nn.Module, policy: PolicyTensors, batch: RolloutBatch) -> Tensor:
        """This micro-batch's share of the step's loss, to be added up over micro-batches and processes.

        Args:
            loss: Scalar, what it is so far.
            model: The policy.
            policy: What the micro-batch tells of it.
            batch: The micro-batch.
        """
        return loss

    # Checkpoints

    def identity(self) -> dict[str, Any]:
        """What a run that resumes has to have in common with the one before: the options."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def state_dict(self) -> dict[str, Any] | None:
        """What a checkpoint keeps; None: nothing."""
        return None

    def load_state_dict(self, state: dict[str, Any] | None) -> None:
        """Go on from what `state_dict` returned."""
