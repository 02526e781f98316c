"""Arguments of GRPO, over those of roll-outs."""

from dataclasses import dataclass
from typing import Literal

from llm_rl.core import Baseline, ClipConfig, LossType, RatioLevel
from llm_rl.core._options import option
from llm_rl.rollout.arguments import RolloutArguments
from llm_rl.tools.arguments import EpisodeArguments

ScaleRewards = Literal["group", "batch", "none"]
KLIn = Literal["loss", "reward"]


@dataclass
class GroupRelativeArguments(RolloutArguments, ClipConfig):
    """Arguments of advantages within groups and of the clipped loss on them; names and defaults as in docs/grpo.md."""

    loss_type: LossType = option("grpo", "Normalizer of the loss: grpo, bnpo, dr_grpo or dapo.")
    importance_sampling_level: RatioLevel = option(
        "token", "Ratio of a token, or GSPO's of its sequence: sequence or sequence_token."
    )
    scale_rewards: ScaleRewards = option("group", "Advantages over the standard deviation of: group, batch or none.")
    advantage_baseline: Baseline = option("mean", "Rewards are compared with the group's mean, or leave_one_out.")

    def __post_init__(self) -> None:
        super().__post_init__()
        ClipConfig.__post_init__(self)


@dataclass
class GRPOArguments(GroupRelativeArguments, EpisodeArguments):
    """Arguments of `GRPOTrainer`; names and defaults are those of docs/grpo.md.

    Raises:
        ValueError: A value is out of range, a name unknown, or two do not fit together.
    """

    kl_in: KLIn = option("loss", "Divergence in the loss (GRPO) or in the reward.")

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_reference("kl_in")
