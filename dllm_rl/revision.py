"""The policy that may also mask a filled cell again, and the reward that it expects (docs/objective.md, "Taking back").

An action chooses among the masked positions, which it fills, and the cells F that are filled and no givens, which it
masks again. With p_ℓ the model's distribution at a position ℓ and x_ℓ the token that stands there

    score     m_ℓ, the margin (`dllm_rl.policy`), where ℓ is masked
              log((max_{v ≠ x_ℓ} p_ℓ[v] + ε) / (p_ℓ[x_ℓ] + ε)), the lead of the best other token, in F
    position  π(ℓ|s) = softmax of score / T_pos over all of them
"""

import torch
from torch import Tensor

from dllm_rl.policy import NEG_INF, PolicyConfig, log_margins, log_ratio
from llm_rl.core.logprobs import masked_log_softmax


def revision_logprobs(logits: Tensor, states: Tensor, at: Tensor, mask_id: int, policy: PolicyConfig) -> Tensor:
    """log π(ℓ|s) over masked and filled positions, `(N, R)`, -inf elsewhere.

    Args:
        logits: fp32 `(M, V)` at the M positions, row by row, the mask token at -inf.
        states: int64 `(N, R)`.
        at: bool `(N, R)`, the positions that an action may choose.
        mask_id: The mask token.
        policy: Temperatures and ε.
    """
    held = states[at]  # (M,)
    filled = held != mask_id
    score = log_margins(logits, policy.margin_eps)
    if bool(filled.any()):
        score = score.masked_scatter(filled, _lead(logits[filled], held[filled], policy.margin_eps))
    scores = score.new_full(states.shape, NEG_INF).masked_scatter(at, score)
    return masked_log_softmax(scores, at, temperature=policy.position_temperature)


def _lead(logits: Tensor, held: Tensor, eps: float) -> Tensor:
    """By how many nats the best other token leads, `(M,)`, with ε as in the margin; negative where it does not."""
    logprobs = logits.log_softmax(-1)
    other = logprobs.scatter(1, held[:, None], NEG_INF).amax(-1)
    own = logprobs.gather(1, held[:, None]).squeeze(1)
    return log_ratio(torch.stack([other, own], dim=-1), eps)


def expected_reward(
    position_logprobs: Tensor,
    answer_logprobs: Tensor,
    *,
    masked: Tensor,
    judged: Tensor,
    definite: Tensor,
    scored: Tensor,
    filled: Tensor,
    wrong: Tensor,
    lam: float,
    error_cost: float,
) -> Tensor:
    """The mean reward of the policy's next action where tokens can be taken back, `(N,)`, with gradient.

    λ Σ_{ℓ∈S2} π(ℓ|s) + Σ_{ℓ∈C} π(ℓ|s) [(1[ℓ∈S1] + c) π(y*_ℓ|ℓ,s) − c] + Σ_{ℓ∈F} π(ℓ|s) (c 1[ℓ wrong] − 1[ℓ right]), and
    λ π(ℓ|s) π(y*_ℓ|ℓ,s) for a position of S2 that is scored.

    Args:
        position_logprobs: fp32 `(N, R)`, log π(ℓ|s), -inf where no action chooses ℓ.
        answer_logprobs: fp32 `(N, R)`, log π(y*_ℓ|ℓ,s) at masked positions that are judged or scored; finite elsewhere.
        masked: bool `(N, R)`, the masked positions.
        judged: bool `(N, R)`, the cells.
        definite: bool `(N, R)`, S1; empty where a wrong token stands in a cell.
        scored: bool `(N, R)`, where λ is paid for y* alone.
        filled: bool `(N, R)`, F.
        wrong: bool `(N, R)`, whether a filled cell holds another token than y*.
        lam: λ.
        error_cost: c.
    """
    right = answer_logprobs.exp()
    in_cell = (definite.to(right.dtype) + error_cost) * right - error_cost
    in_tail = lam * torch.where(scored, right, 1.0)
    at_masked = torch.where(judged, in_cell, in_tail)
    at_filled = torch.where(wrong, error_cost, -1.0)
    reward = torch.where(masked, at_masked, at_filled.to(right.dtype))
    chosen = masked | filled
    probability = torch.where(chosen, position_logprobs, 0.0).exp()
    return (probability * reward * chosen).sum(1)
