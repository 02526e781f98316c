"""The divergence from the model at the start of training, at the states that the policy visits."""

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from dllm_rl.decoding.rollouts import Rollout
from dllm_rl.policy import PolicyConfig, StateScores, score_states
from dllm_rl.terms.states import Term, TermValue, VisitedStates, scattered
from llm_rl.core._checks import check_choice
from llm_rl.core.kl import kl_divergence
from llm_rl.training.modes import in_evaluation_mode

KLTarget = Literal["tokens", "actions"]
_score = in_evaluation_mode(score_states)


@dataclass
class DivergenceConfig:
    """Parameters of the divergence, which is off by default."""

    kl_weight: float = field(default=0.0, metadata={"help": "Weight of the divergence from the model at the start."})
    kl_target: KLTarget = field(
        default="tokens",
        metadata={"help": "What the divergence is of: tokens leaves the order free, actions does not."},
    )

    def __post_init__(self) -> None:
        check_choice("kl_target", self.kl_target, KLTarget)
        if not self.kl_weight >= 0:
            raise ValueError(f"kl_weight must be 0 or larger, got {self.kl_weight}")


class Reference:
    """A model as it is now, whatever training does to it later.

    With PEFT adapters the base weights never change, so the reference is the same model with the adapters off and takes
    no memory; of any other model a copy is kept.

    Args:
        model: The model at the start of training, as `score_states` takes it.
        context: Entered around every forward pass, such as the autocast that the trained model runs in.
    """

    def __init__(self, model: nn.Module, context: Callable[[], AbstractContextManager[Any]] = nullcontext) -> None:
        self._context = context
        self._adapted = hasattr(model, "disable_adapter")
        self.model: Any = model if self._adapted else copy.deepcopy(model).requires_grad_(False).eval()

    @torch.no_grad()
    def score(
        self,
        prompt_ids: Tensor,
        prompt_mask: Tensor | None,
        responses: Tensor,
        mask_id: int,
        config: PolicyConfig,
    ) -> StateScores:
        """The reference at N states, in evaluation mode and without gradient; the arguments of `score_states`."""
        with self._context(), self.model.disable_adapter() if self._adapted else nullcontext():
            return _score(self.model, prompt_ids, prompt_mask, responses, mask_id, config)


def kl_to_reference(scores: StateScores, reference: StateScores, target: KLTarget, policy: PolicyConfig) -> Tensor:
    """KL(π ‖ π_ref) of N scored states, fp32 `(N,)`.

    "tokens" is the mean over the masked positions of the divergence of the token distributions at temperature 1: it
    holds the model to what it knows and leaves it free in which order to say it. "actions" is the divergence of the
    action distributions at the policy's temperatures, exact by the chain rule,
    KL(π(ℓ|s) ‖ π_ref(ℓ|s)) + Σ_ℓ π(ℓ|s) KL(π(·|ℓ,s) ‖ π_ref(·|ℓ,s)).

    Args:
        scores: The policy at N states.
        reference: The reference at the same states, without gradient.
        target: "tokens" or "actions".
        policy: Temperatures.
    """
    masked = scores.row_of >= 0
    if target == "tokens":
        divergences = kl_divergence(scores.logits, reference.logits)
        return scattered(divergences, masked).sum(1) / masked.sum(1)
    temperature = policy.token_temperature
    divergences = kl_divergence(scores.logits / temperature, reference.logits / temperature)
    of_tokens = (scores.position_logprobs.exp() * scattered(divergences, masked)).sum(1)
    return kl_divergence(scores.position_logprobs, reference.position_logprobs) + of_tokens


class Divergence(Term):
    """KL(π ‖ π_ref) of each visited state."""

    name: ClassVar[str] = "kl"

    def __init__(self, config: DivergenceConfig, reference: Reference) -> None:
        self.config, self.reference = config, reference

    def over(self, rollout: Rollout) -> Callable[[VisitedStates], TermValue]:
        """See `Term.over`."""

        def value(visited: VisitedStates) -> TermValue:
            states = visited.states
            problems = states.problems
            prompts = problems.prompts_of(states.of)
            anchor = self.reference.score(*prompts, states.responses, problems.mask_id, states.policy)
            divergences = kl_to_reference(states.scores, anchor, self.config.kl_target, states.policy)  # (N,)
            return TermValue((-self.config.kl_weight * divergences * visited.visits()).sum())

        return value
