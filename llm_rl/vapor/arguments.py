"""Arguments of `VAPORTrainer`: those of roll-outs, of the objective, and of the search for tagged parts."""

from dataclasses import dataclass, field, fields
from typing import Literal

from llm_rl.core._checks import check_choice
from llm_rl.rollout.arguments import RolloutArguments
from llm_rl.rollout.spans import Rule, check_tags
from llm_rl.vapor.objective import VaporConfig

PreferenceContext = Literal["static", "generated"]
RewardOn = Literal["verifiable", "completion"]


@dataclass
class VAPORArguments(RolloutArguments):
    """Arguments of `VAPORTrainer`; defaults are those of docs/vapor.md, 'Options'.

    `beta` is here the strength of the preference term; the weight of the divergence is `kl_weight`. A forward pass
    holds whole groups: `per_device_train_batch_size` is a multiple of `num_generations`.

    Raises:
        ValueError: A value is out of range, a name unknown, or an argument of roll-outs is not supported here.
    """

    verifiable_term_split: list[str] = field(
        default_factory=lambda: ["<REASONING>", "</REASONING>"],
        metadata={"help": "Start and end tag of the verifiable part s_i of a completion."},
    )
    preference_term_split: list[str] = field(
        default_factory=lambda: ["<RESPONSE>", "</RESPONSE>"],
        metadata={"help": "Start and end tag of the response in chosen and rejected."},
    )
    beta: float = field(default=VaporConfig.beta, metadata={"help": "Strength of the preference term; 0: it is 1."})
    clip_low: float = field(
        default=VaporConfig.clip_low, metadata={"help": "The ratio is clipped below at 1 - clip_low."}
    )
    clip_high: float = field(
        default=VaporConfig.clip_high, metadata={"help": "The ratio is clipped above at 1 + clip_high."}
    )
    kl_weight: float = field(
        default=VaporConfig.kl_weight, metadata={"help": "w1: weight of the divergence from the reference."}
    )
    ratio_base: str = field(
        default=VaporConfig.ratio_base, metadata={"help": "The verifiable ratio is against ref, or old, at sampling."}
    )
    ratio_level: str = field(
        default=VaporConfig.ratio_level, metadata={"help": "Log-ratio over s_i: sum or mean, or one a token."}
    )
    clip_on: str = field(
        default=VaporConfig.clip_on, metadata={"help": "The clip acts on the product, or on the verifiable ratio."}
    )
    pref_loss_weight: float = field(
        default=VaporConfig.pref_loss_weight, metadata={"help": "Weight of a direct -log sigmoid(beta * margin)."}
    )
    advantage_scale: str = field(
        default=VaporConfig.advantage_scale, metadata={"help": "Advantages as they are (none) or over the group's std."}
    )
    preference_context: str = field(
        default="static",
        metadata={"help": "Responses follow their own text (static) or each generated s_i (generated)."},
    )
    reward_on: str = field(
        default="verifiable", metadata={"help": "Reward functions see s_i (verifiable) or the whole completion."}
    )
    span_rule: str = field(
        default="overlap", metadata={"help": "Tokens of a tagged part: those that overlap it, or containment."}
    )
    gradient_shares: bool = field(
        default=False, metadata={"help": "Log each term's share of the gradient: up to 4 backward passes a log line."}
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.clip_low <= 1:
            raise ValueError(f"clip_low is {self.clip_low}; it must lie in [0, 1]")
        if not self.clip_high >= 0:
            raise ValueError(f"clip_high is {self.clip_high}; it must be 0 or greater")
        check_choice("preference_context", self.preference_context, PreferenceContext)
        check_choice("reward_on", self.reward_on, RewardOn)
        check_choice("span_rule", self.span_rule, Rule)
        for name in ("verifiable_term_split", "preference_term_split"):
            check_tags(name, getattr(self, name))
        if self.objective.pref_loss_weight and not self.beta:
            raise ValueError("pref_loss_weight is set but beta is 0, so its term is constant; set beta")
        if self.per_device_train_batch_size % self.num_generations:
            raise ValueError(
                f"per_device_train_batch_size is {self.per_device_train_batch_size}, which is no multiple of "
                f"num_generations = {self.num_generations}; a forward pass of VAPOR holds whole groups"
            )
        if self.gradient_shares and self.logging_strategy != "steps":
            raise ValueError("gradient_shares needs logging_strategy='steps': shares are taken at the steps that log")

    def _refuse(self) -> None:
        super()._refuse()
        for name, neutral in (
            ("kl_in", "loss"),
            ("mask_truncated_completions", False),
            ("top_entropy_quantile", 1),
            ("importance_correction_cap", None),
        ):
            if getattr(self, name) != neutral:
                raise ValueError(f"{name}={getattr(self, name)!r} is not supported with VAPOR; leave it out")

    @property
    def uses_reference(self) -> bool:
        """True: both terms are ratios to the reference."""
        return True

    @property
    def objective(self) -> VaporConfig:
        """The parameters of the objective."""
        return VaporConfig(**{item.name: getattr(self, item.name) for item in fields(VaporConfig)})
