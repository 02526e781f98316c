"""The entropy of the position policy, at the states that it visits."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from dllm_rl.decoding.rollouts import Rollout
from dllm_rl.terms.states import Term, TermValue, VisitedStates
from llm_rl.core.logprobs import entropy_from_logits


@dataclass
class EntropyConfig:
    """Parameters of the entropy, which is off by default."""

    entropy_weight: float = field(default=0.0, metadata={"help": "Weight of the entropy of the position policy."})

    def __post_init__(self) -> None:
        if not self.entropy_weight >= 0:
            raise ValueError(f"entropy_weight must be 0 or larger, got {self.entropy_weight}")


class Entropy(Term):
    """H(π(ℓ|s)) of each visited state."""

    name: ClassVar[str] = "entropy"

    def __init__(self, config: EntropyConfig) -> None:
        self.config = config

    def over(self, rollout: Rollout) -> Callable[[VisitedStates], TermValue]:
        """See `Term.over`."""

        def value(visited: VisitedStates) -> TermValue:
            entropies = entropy_from_logits(visited.states.scores.position_logprobs)  # (N,)
            return TermValue((self.config.entropy_weight * entropies * visited.visits()).sum())

        return value
