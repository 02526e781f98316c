"""A masked-diffusion model as a policy: which masked position to fill, then with which token.

The policy of docs/objective.md: with p_ℓ the model's distribution at a masked position ℓ (temperature 1, the mask token
excluded),

    margin         m_ℓ = log((p_ℓ[1st] + ε) / (p_ℓ[2nd] + ε))
    position       π(ℓ|s) = softmax over masked ℓ of m_ℓ / T_pos
    token          π(v|ℓ,s) = softmax(logits_ℓ / T_tok)[v]

Everything is computed in log space and in fp32, or in fp64 for a model whose logits are. Roll-outs and updates call the
same functions, so that the ratio of a fresh roll-out is 1. The rows of masked positions are packed, state by state.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from llm_rl.core._checks import promote
from llm_rl.core._options import option
from llm_rl.core.logprobs import masked_log_softmax

NEG_INF = float("-inf")


@dataclass
class PolicyConfig:
    """Temperatures and the margin's ε, which is no clip range; the defaults are those of docs/sources.md."""

    position_temperature: float = option(
        0.05, "T_pos. At 0.05 the choice is nearly greedy and few groups of roll-outs differ."
    )
    token_temperature: float = option(0.6, "T_tok.")
    margin_eps: float = option(1e-9, "Epsilon inside the margin.")

    def __post_init__(self) -> None:
        for name in ("position_temperature", "token_temperature", "margin_eps"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(
                    f"{name} must be positive and finite, got {getattr(self, name)}; greedy decoding is the limit 0"
                )


def annealed(config: PolicyConfig, end: float | None, fraction: float) -> PolicyConfig:
    """The policy after a share of the training, T_pos moving linearly from its value in `config` to `end`, if any.

    Raises:
        ValueError: `fraction` is outside [0, 1], or the temperature is not positive.
    """
    if not 0 <= fraction <= 1:
        raise ValueError(f"fraction={fraction} must lie in [0, 1]: it is the share of the training that is over")
    if end is None:
        return config
    start = config.position_temperature
    return replace(config, position_temperature=start + fraction * (end - start))


class StateScores(NamedTuple):
    """The policy at N states.

    Attributes:
        logits: fp32 `(M, V)`, at the masked positions, the mask token at -inf.
        row_of: int64 `(N, R)`, the row of `logits` for a masked position, -1 elsewhere.
        margins: fp32 `(N, R)`, -inf where not masked.
        position_logprobs: fp32 `(N, R)`, log π(ℓ|s), -inf where not masked.
        best_logprobs: fp32 `(M,)`, log p_ℓ[1st].
    """

    logits: Tensor
    row_of: Tensor
    margins: Tensor
    position_logprobs: Tensor
    best_logprobs: Tensor


def two_best(logits: Tensor) -> Tensor:
    """log p of the 1st and the 2nd token, `(M, 2)`, of logits `(M, V)` with excluded tokens at -inf."""
    # On a CPU a few rows at a time, so that what is written on the way stays in the cache.
    few = logits.split(1 + 2**19 // logits.shape[1] if logits.device.type == "cpu" else len(logits))
    return logits.topk(2).values - torch.cat([rows.logsumexp(1, keepdim=True) for rows in few])


def log_margins(logprobs: Tensor, eps: float) -> Tensor:
    """Margin `(...)` of the log-probabilities of the 1st and the 2nd, `(..., 2)`; gradients reach both."""
    first, second = torch.logaddexp(logprobs, torch.full_like(logprobs, eps).log()).unbind(-1)
    return first - second


def score_states(
    model: nn.Module,
    prompt_ids: Tensor,
    prompt_mask: Tensor | None,
    responses: Tensor,
    mask_id: int,
    config: PolicyConfig,
) -> StateScores:
    """Run the model on N states and read off the policy; logits are computed at masked positions only.

    Args:
        model: Takes `(input_ids, attention_mask, logits_mask)` and returns `.logits` `(M, V)`, as `LladaForMaskedLM`.
        prompt_ids: int64 `(N, P)`, padded on the left.
        prompt_mask: bool `(N, P)`, false at padding, or None where there is none.
        responses: int64 `(N, R)`, each with at least one mask.
        mask_id: The mask token.
        config: Temperatures.

    Raises:
        ValueError: A state has no masked position, so there is nothing to decide.
        FloatingPointError: The model's logits are not finite.
    """
    masked = responses == mask_id
    if not bool(masked.any(dim=1).all()):
        state = int((~masked.any(dim=1)).nonzero()[0])
        raise ValueError(f"state {state} has no masked position left; drop finished states first")
    logits = logits_at(model, prompt_ids, prompt_mask, responses, masked, mask_id)
    return scores_of(logits, masked, config)


def logits_at(
    model: nn.Module, prompt_ids: Tensor, prompt_mask: Tensor | None, responses: Tensor, at: Tensor, mask_id: int
) -> Tensor:
    """Run the model on N states and take its logits at chosen positions, bool `(N, R)`, M masked and W written ones.

    The other arguments are those of `score_states`. Where no gradient is asked for, the model's logits are written to.

    Returns:
        fp32 `(M + W, V)`, the mask token at -inf.
    """
    attention_mask = None
    if prompt_mask is not None:
        attention_mask = torch.cat([prompt_mask, torch.ones_like(at)], dim=1)
    output = model(
        input_ids=torch.cat([prompt_ids, responses], dim=1),
        attention_mask=attention_mask,
        logits_mask=torch.cat([torch.zeros_like(prompt_ids, dtype=torch.bool), at], dim=1),
    )
    logits = promote(output.logits)
    if logits.requires_grad or logits.is_inference():  # elsewhere a copy would cost as much again as the logits
        logits = logits.clone()
    logits[:, mask_id : mask_id + 1] = NEG_INF
    return logits


def scores_of(logits: Tensor, masked: Tensor, config: PolicyConfig) -> StateScores:
    """The policy that logits `(M, V)` at the masked positions, bool `(N, R)`, of N states make.

    Raises:
        FloatingPointError: The logits are not finite.
    """
    row_of = (masked.flatten().cumsum(0).view(masked.shape) - 1).masked_fill(~masked, -1)
    logprobs = two_best(logits)  # (M, 2)
    packed = log_margins(logprobs, config.margin_eps)
    if not bool(packed.isfinite().all()):
        raise FloatingPointError("the model's logits are not finite; lower the learning rate or check the weights")
    # The row behind the last is -inf: position -1, where nothing is masked, reads it.
    margins = F.pad(packed, (0, 1), value=NEG_INF)[row_of]
    position_logprobs = masked_log_softmax(margins, masked, temperature=config.position_temperature)
    return StateScores(logits, row_of, margins, position_logprobs, logprobs[:, 0])


def token_logprobs_at(
    scores: StateScores, states: Tensor, positions: Tensor, tokens: Tensor, temperature: float
) -> Tensor:
    """log π(v|ℓ,s) `(A,)` of A (state, position, token) triples, all int64 `(A,)`; positions must be masked."""
    return token_logprobs_in(scores, scores.row_of[states, positions], tokens, temperature)


def token_logprobs_in(scores: StateScores, rows: Tensor, tokens: Tensor, temperature: float) -> Tensor:
    """log π(v|ℓ,s) of tokens int64 `(…)` in rows int64 `(…)` of the logits, of the last one at -1.

    The log-normalizer is taken once for each row, however many tokens share it.
    """
    normalizer = (scores.logits / temperature).logsumexp(dim=-1)
    # Divided after indexing, so that the backward pass of the choice holds no second rows × vocabulary gradient.
    return scores.logits[rows, tokens] / temperature - normalizer[rows]


def action_logprobs(
    scores: StateScores, states: Tensor, positions: Tensor, tokens: Tensor, config: PolicyConfig
) -> Tensor:
    """log π(a|s) `(A,)` of A actions, each of which fills up to k positions from one forward pass.

    Positions are drawn one after the other without replacement, tokens independently of each other:

        log π(a|s) = Σ_i [ log π(ℓ_i|s) − log(1 − Σ_{j<i} π(ℓ_j|s)) + log π(v_i|ℓ_i,s) ]

    Args:
        scores: The policy at N states.
        states: int64 `(A,)`, the state of each action.
        positions: int64 `(A, k)`, masked positions in the order of choice, -1 behind the last one.
        tokens: int64 `(A, k)`, the tokens written there, -1 behind the last one.
        config: Temperatures.
    """
    chosen, count = positions >= 0, positions.shape[1]
    at = positions.where(chosen, positions[:, :1]).clamp_min(0)  # behind the last one any, which adds 0
    token_logprobs = token_logprobs_at(scores, states[:, None], at, tokens, config.token_temperature)  # (A, k)
    token_logprobs = token_logprobs.where(chosen, 0.0)
    total = scores.position_logprobs[states, at[:, 0]]
    for rank in range(count):
        total = total + token_logprobs[:, rank]

    # Each further position is drawn from those that are left.
    for rank in range(1, count):
        some = chosen[:, rank, None]  # (A, 1)
        left = scores.position_logprobs[states].scatter(1, at[:, :rank], NEG_INF)  # (A, R)
        left = left.where(some, 0.0)
        logprobs = left.gather(1, at[:, rank, None]).squeeze(1) - left.logsumexp(dim=1)
        total = total + logprobs.where(chosen[:, rank], 0.0)
    return total
