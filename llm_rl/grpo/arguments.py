"""Arguments of GRPO, over those of roll-outs."""

import math
from dataclasses import dataclass, field
from typing import Literal

from llm_rl.core import Baseline, LossType
from llm_rl.core._checks import check_choice, check_positive
from llm_rl.core.mismatch import CorrectionLevel, CorrectionMode
from llm_rl.grpo.chord import MuSchedule
from llm_rl.rollout.clip import ClippedArguments
from llm_rl.tools.arguments import EpisodeArguments

ScaleRewards = Literal["group", "batch", "none"]
KLIn = Literal["loss", "reward"]


@dataclass
class GroupRelativeArguments(ClippedArguments):
    """Arguments of advantages within groups and of the clipped loss on them; names and defaults as in docs/grpo.md.

    Raises:
        ValueError: A value is out of range or a name unknown.
    """

    loss_type: LossType = field(
        default="grpo", metadata={"help": "Normalizer of the loss: grpo, bnpo, dr_grpo or dapo."}
    )
    scale_rewards: ScaleRewards = field(
        default="group", metadata={"help": "Advantages over the standard deviation of: group, batch or none."}
    )
    advantage_baseline: Baseline = field(
        default="mean", metadata={"help": "Rewards are compared with the group's mean, or leave_one_out."}
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("loss_type", self.loss_type, LossType)
        check_choice("scale_rewards", self.scale_rewards, ScaleRewards)
        check_choice("advantage_baseline", self.advantage_baseline, Baseline)


@dataclass
class GRPOArguments(GroupRelativeArguments, EpisodeArguments):
    """Arguments of `GRPOTrainer`; names and defaults are those of docs/grpo.md.

    Raises:
        ValueError: A value is out of range, a name unknown, or two do not fit together.
    """

    kl_in: KLIn = field(default="loss", metadata={"help": "Divergence in the loss (GRPO) or in the reward."})
    importance_correction_cap: float | None = field(
        default=None,
        metadata={"help": "Weigh tokens by trainer / engine probability at sampling, at most this; None: no bound."},
    )
    importance_correction_floor: float | None = field(
        default=None, metadata={"help": "Smallest such weight; None: no bound, and without a cap no weight either."}
    )
    importance_correction_level: CorrectionLevel = field(
        default="token", metadata={"help": "One weight a token, or one a sequence, the product over its tokens."}
    )
    importance_correction_mode: CorrectionMode = field(
        default="truncate", metadata={"help": "Weights beyond a bound are moved to it (truncate) or 0 (mask)."}
    )
    rollouts_ahead: int = field(
        default=0,
        metadata={"help": "1: the next roll-out is sampled in a thread during the updates, one policy older."},
    )
    chord_mu_peak: float = field(
        default=0.5, metadata={"help": "CHORD: highest weight of the expert answers; the surrogate has the rest."}
    )
    chord_mu_valley: float = field(default=0.05, metadata={"help": "CHORD: their last weight."})
    chord_mu_warmup_steps: int = field(default=0, metadata={"help": "CHORD: steps up to the highest weight."})
    chord_mu_decay_steps: int = field(default=100, metadata={"help": "CHORD: steps from there to the last."})
    chord_batch_size: int = field(default=1, metadata={"help": "CHORD: expert answers beside each micro-batch."})
    chord_phi: bool = field(default=True, metadata={"help": "CHORD: tokens weigh p(1 - p) of their probability p."})
    entropy_coef: float = field(default=0.0, metadata={"help": "Weight of the policy's entropy in the objective."})
    entropy_target: float | None = field(
        default=None, metadata={"help": "Entropy in nats that the weight is moved to hold; None: it stays."}
    )
    entropy_coef_delta: float = field(
        default=0.005, metadata={"help": "What entropy_coef moves by after each step, with entropy_target."}
    )
    entropy_coef_max: float = field(default=1.0, metadata={"help": "Largest entropy_coef, with entropy_target."})

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("kl_in", self.kl_in, KLIn)
        self._check_reference("kl_in", "loss")
        self._check_correction()
        self._check_entropy_bonus()
        self._check_chord()
        if self.rollouts_ahead and self.max_turns > 1:
            raise ValueError("rollouts_ahead samples single turns; leave it out, or max_turns")
        if self.rollouts_ahead not in (0, 1):
            raise ValueError(f"rollouts_ahead is {self.rollouts_ahead}; it must be 0, or 1 roll-out ahead")
        if self.rollouts_ahead and not self.corrects_importance:
            raise ValueError(
                "rollouts_ahead=1 trains on completions of an older policy, which needs their importance weights; set "
                "importance_correction_cap, for instance to 2"
            )
        if self.rollouts_ahead and self.share_prompts:
            raise ValueError("rollouts_ahead is not supported with share_prompts; choose one of them")

    @property
    def sharing_prompts(self) -> bool | None:
        """As with any roll-out, and not unasked beside `rollouts_ahead`."""
        return False if self.share_prompts is None and self.rollouts_ahead else super().sharing_prompts

    @property
    def corrects_importance(self) -> bool:
        """Whether tokens are weighed by trainer over engine probability."""
        return self.importance_correction_cap is not None or self.importance_correction_floor is not None

    def _check_correction(self) -> None:
        check_choice("importance_correction_level", self.importance_correction_level, CorrectionLevel)
        check_choice("importance_correction_mode", self.importance_correction_mode, CorrectionMode)
        cap, floor = self.importance_correction_cap, self.importance_correction_floor
        for name, bound in (("importance_correction_cap", cap), ("importance_correction_floor", floor)):
            if bound is not None:
                check_positive(name, bound)
        if cap is not None and floor is not None and floor > cap:
            raise ValueError(f"importance_correction_floor is {floor}, above importance_correction_cap = {cap}")
        for name, neutral in (("importance_correction_level", "token"), ("importance_correction_mode", "truncate")):
            if getattr(self, name) != neutral and not self.corrects_importance:
                raise ValueError(
                    f"{name} does nothing without a bound; set importance_correction_cap or importance_correction_floor"
                )

    @property
    def chord_mu(self) -> MuSchedule:
        """CHORD's μ by optimizer steps."""
        steps = self.chord_mu_warmup_steps, self.chord_mu_decay_steps
        return MuSchedule(self.chord_mu_peak, self.chord_mu_valley, *steps)

    def _check_chord(self) -> None:
        if not 0 <= self.chord_mu_valley <= self.chord_mu_peak <= 1:
            raise ValueError(
                f"chord_mu_valley is {self.chord_mu_valley} and chord_mu_peak {self.chord_mu_peak}; they take "
                "0 <= valley <= peak <= 1"
            )
        for name, least in (("chord_mu_warmup_steps", 0), ("chord_mu_decay_steps", 0), ("chord_batch_size", 1)):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be a whole number, at least {least}")

    def _check_entropy_bonus(self) -> None:
        for name in ("entropy_coef", "entropy_coef_delta", "entropy_coef_max"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be 0 or greater, and finite")
        if self.entropy_target is not None and not self.entropy_target >= 0:
            raise ValueError(f"entropy_target is {self.entropy_target}; an entropy in nats is 0 or greater")
        if self.entropy_target is None and (self.entropy_coef_delta, self.entropy_coef_max) != (0.005, 1.0):
            raise ValueError("entropy_coef_delta and entropy_coef_max do nothing without entropy_target; set it")
