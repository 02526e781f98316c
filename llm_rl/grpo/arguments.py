"""Arguments of GRPO, over those of roll-outs."""

from dataclasses import dataclass, field
from typing import Literal

from llm_rl.core import Baseline, LossType
from llm_rl.core._checks import check_choice
from llm_rl.rollout.arguments import RolloutArguments

ScaleRewards = Literal["group", "batch", "none"]


ImportanceLevel = Literal["token", "sequence"]


@dataclass
class GRPOArguments(RolloutArguments):
    """Arguments of `GRPOTrainer`; names and defaults are those of docs/grpo.md.

    Raises:
        ValueError: A value is out of range or a name unknown.
    """

    loss_type: str = field(default="grpo", metadata={"help": "Normalizer of the loss: grpo, bnpo, dr_grpo or dapo."})
    epsilon: float = field(default=0.2, metadata={"help": "The ratio is clipped below at 1 - epsilon."})
    epsilon_high: float | None = field(
        default=None, metadata={"help": "The ratio is clipped above at 1 + epsilon_high; None: epsilon."}
    )
    delta: float | None = field(default=None, metadata={"help": "Largest ratio where the advantage is negative."})
    importance_sampling_level: str = field(
        default="token", metadata={"help": "Unit of a ratio: token, or sequence (GSPO)."}
    )
    scale_rewards: str = field(
        default="group", metadata={"help": "Advantages over the standard deviation of: group, batch or none."}
    )
    advantage_baseline: str = field(
        default="mean", metadata={"help": "Rewards are compared with the group's mean, or leave_one_out."}
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("loss_type", self.loss_type, LossType)
        check_choice("importance_sampling_level", self.importance_sampling_level, ImportanceLevel)
        check_choice("scale_rewards", self.scale_rewards, ScaleRewards)
        check_choice("advantage_baseline", self.advantage_baseline, Baseline)
        if self.advantage_baseline == "ema":
            raise ValueError("advantage_baseline 'ema' is not supported here; choose 'mean' or 'leave_one_out'")
        if not 0 <= self.epsilon <= 1:
            raise ValueError(f"epsilon is {self.epsilon}; it must lie in [0, 1]")
        if not self.clip_high >= 0:
            raise ValueError(f"epsilon_high is {self.epsilon_high}; it must be 0 or greater")
        if self.delta is not None and not self.delta > 1 + self.clip_high:
            raise ValueError(f"delta is {self.delta}; it must be greater than 1 + epsilon_high = {1 + self.clip_high}")

    @property
    def clip_high(self) -> float:
        """How far the ratio may rise above 1."""
        return self.epsilon if self.epsilon_high is None else self.epsilon_high
