"""Arguments of `VAPORTrainer`: those of roll-outs, of the objective, and of the search for tagged parts."""

from dataclasses import dataclass
from typing import Literal

from llm_rl.core._options import option
from llm_rl.rollout.arguments import RolloutArguments
from llm_rl.rollout.spans import Rule, check_tags
from llm_rl.training.arguments import part_of
from llm_rl.vapor.objective import VaporConfig

PreferenceContext = Literal["static", "generated"]


@dataclass
class VAPORArguments(VaporConfig, RolloutArguments):  # type: ignore[misc]  # no kl_estimator "full"
    """Arguments of `VAPORTrainer`, over those of the objective and of roll-outs; docs/vapor.md, 'Options'.

    `beta` is here the strength of the preference term; the weight of the divergence is `kl_weight`. A forward pass
    holds whole groups: `per_device_train_batch_size` is a multiple of `num_generations`.

    Raises:
        ValueError: A value is out of range or a name unknown.
    """

    verifiable_term_split: list[str] = option(
        ["<REASONING>", "</REASONING>"], "Start and end tag of the verifiable part s_i of a completion."
    )
    preference_term_split: list[str] = option(
        ["<RESPONSE>", "</RESPONSE>"], "Start and end tag of the response in chosen and rejected."
    )
    preference_context: PreferenceContext = option(
        "static", "Responses follow their own text (static) or each generated s_i (generated)."
    )
    span_rule: Rule = option("overlap", "Tokens of a tagged part: those that overlap it, or containment.")

    def __post_init__(self) -> None:
        RolloutArguments.__post_init__(self)
        for name in ("verifiable_term_split", "preference_term_split"):
            check_tags(name, getattr(self, name))
        if self.objective.pref_loss_weight and not self.beta:
            raise ValueError("pref_loss_weight is set but beta is 0, so its term is constant; set beta")
        if self.per_device_train_batch_size % self.num_generations:
            raise ValueError(
                f"per_device_train_batch_size is {self.per_device_train_batch_size}, which is no multiple of "
                f"num_generations = {self.num_generations}; a forward pass of VAPOR holds whole groups"
            )

    @property
    def uses_reference(self) -> bool:
        """True: both terms are ratios to the reference."""
        return True

    @property
    def objective(self) -> VaporConfig:
        """The parameters of the objective."""
        return part_of(self, VaporConfig)
