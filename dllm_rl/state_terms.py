"""Terms of the objective that depend on a state alone, beside f: they ask for no action and no advantage."""

import torch
from torch import Tensor

from dllm_rl.objective import KLTarget, ObjectiveConfig
from dllm_rl.policy import PolicyConfig, StateScores, token_logprobs_at
from dllm_rl.task import UnmaskBatch
from llm_rl.core.kl import kl_divergence
from llm_rl.core.logprobs import entropy_from_logits


def further_terms(
    scores: StateScores,
    reference: StateScores | None,
    problems: UnmaskBatch,
    of: Tensor,
    definite: Tensor,
    policy: PolicyConfig,
    config: ObjectiveConfig,
) -> dict[str, Tensor]:
    """What each term with a weight adds to J at N scored states, fp32 `(N,)`, by its name in `UpdateResult`.

    Args:
        scores: The policy at N states.
        reference: The reference at the same states; None leaves the divergence out.
        problems: The problems.
        of: int64 `(N,)`, the problem of each state.
        definite: bool `(N, R)`, S1 of each state.
        policy: Temperatures.
        config: The weights.
    """
    terms = {}
    if reference is not None:
        terms["kl"] = -config.kl_weight * kl_to_reference(scores, reference, config.kl_target, policy)
    if config.entropy_weight > 0:
        terms["entropy"] = config.entropy_weight * entropy_from_logits(scores.position_logprobs)
    if config.ce_weight > 0:
        counted = problems.learned(scores.row_of >= 0, of, definite, config.ce_on)
        terms["ce"] = config.ce_weight * answer_loglikelihood(scores, problems.answers[of], counted)
    return terms


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
        return _scattered(divergences, masked).sum(1) / masked.sum(1)
    temperature = policy.token_temperature
    divergences = kl_divergence(scores.logits / temperature, reference.logits / temperature)
    of_tokens = (scores.position_logprobs.exp() * _scattered(divergences, masked)).sum(1)
    return kl_divergence(scores.position_logprobs, reference.position_logprobs) + of_tokens


def answer_loglikelihood(scores: StateScores, answers: Tensor, counted: Tensor) -> Tensor:
    """Mean of log π(y*_ℓ|ℓ,s) at temperature 1 over positions of N scored states, fp32 `(N,)`; 0 where none counts.

    Args:
        scores: The policy at N states.
        answers: int64 `(N, R)`, y* where it counts.
        counted: bool `(N, R)`, the masked positions whose y* is known.
    """
    states, positions = counted.nonzero(as_tuple=True)
    logprobs = token_logprobs_at(scores, states, positions, answers[states, positions], 1.0)
    return _scattered(logprobs, counted).sum(1) / counted.sum(1).clamp_min(1)


def _scattered(values: Tensor, where: Tensor) -> Tensor:
    """fp32 `(N, R)`: the values in row-major order where the mask is true, 0 elsewhere."""
    return torch.zeros(where.shape, dtype=values.dtype, device=values.device).masked_scatter(where, values)
