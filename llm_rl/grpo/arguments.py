"""Arguments of GRPO, over those of roll-outs."""

from dataclasses import dataclass, field
from typing import Literal

from llm_rl.core import LossType
from llm_rl.core._checks import check_choice, check_positive
from llm_rl.rollout.arguments import RolloutArguments

ScaleRewards = Literal["group", "batch", "none"]
ImportanceLevel = Literal["token", "sequence"]
GroupBaseline = Literal["mean", "leave_one_out"]
KLIn = Literal["loss", "reward"]
EntropyFilter = Literal["surrogate", "loss"]


@dataclass
class GroupRelativeArguments(RolloutArguments):
    """Arguments of advantages within groups and of the clipped loss on them; names and defaults as in docs/grpo.md.

    Raises:
        ValueError: A value is out of range or a name unknown.
    """

    loss_type: LossType = field(
        default="grpo", metadata={"help": "Normalizer of the loss: grpo, bnpo, dr_grpo or dapo."}
    )
    epsilon: float = field(default=0.2, metadata={"help": "The ratio is clipped below at 1 - epsilon."})
    epsilon_high: float | None = field(
        default=None, metadata={"help": "The ratio is clipped above at 1 + epsilon_high; None: epsilon."}
    )
    delta: float | None = field(default=None, metadata={"help": "Largest ratio where the advantage is negative."})
    importance_sampling_level: ImportanceLevel = field(
        default="token", metadata={"help": "Unit of a ratio: token, or sequence (GSPO)."}
    )
    scale_rewards: ScaleRewards = field(
        default="group", metadata={"help": "Advantages over the standard deviation of: group, batch or none."}
    )
    advantage_baseline: GroupBaseline = field(
        default="mean", metadata={"help": "Rewards are compared with the group's mean, or leave_one_out."}
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("loss_type", self.loss_type, LossType)
        check_choice("importance_sampling_level", self.importance_sampling_level, ImportanceLevel)
        check_choice("scale_rewards", self.scale_rewards, ScaleRewards)
        check_choice("advantage_baseline", self.advantage_baseline, GroupBaseline)
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


@dataclass
class GRPOArguments(GroupRelativeArguments):
    """Arguments of `GRPOTrainer`; names and defaults are those of docs/grpo.md.

    Raises:
        ValueError: A value is out of range, a name unknown, or two do not fit together.
    """

    kl_in: KLIn = field(default="loss", metadata={"help": "Divergence in the loss (GRPO) or in the reward."})
    mask_truncated_completions: bool = field(
        default=False, metadata={"help": "Leave completions without end token out of the loss and its denominators."}
    )
    top_entropy_quantile: float = field(
        default=1.0,
        metadata={"help": "Share of a roll-out's tokens, of highest entropy, whose surrogate counts."},
    )
    top_entropy_in: EntropyFilter = field(
        default="surrogate",
        metadata={"help": "The other tokens leave the surrogate (as published) or all of the loss, denominators too."},
    )
    importance_correction_cap: float | None = field(
        default=None,
        metadata={"help": "Weigh tokens by trainer / engine probability at sampling, at most this; None: no weight."},
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("kl_in", self.kl_in, KLIn)
        self._check_reference("kl_in", "loss")
        if not 0 < self.top_entropy_quantile <= 1:
            raise ValueError(f"top_entropy_quantile is {self.top_entropy_quantile}; it must lie in (0, 1]")
        check_choice("top_entropy_in", self.top_entropy_in, EntropyFilter)
        if self.top_entropy_in == "loss" and self.top_entropy_quantile == 1:
            raise ValueError("top_entropy_in='loss' does nothing while top_entropy_quantile is 1; set both or neither")
        if self.importance_correction_cap is not None:
            check_positive("importance_correction_cap", self.importance_correction_cap)
