"""What a check keeps of a pass that offers many positions at once, with credit to each token.

At a state the policy offers the k positions ℓ₁ … ℓ_k of the largest margins, in that order, with tokens a₁ … a_k that
are drawn independently. In that order a_i is kept, κ_i = 1, if the state with it and with those kept before it can be
completed; else its position stays masked, κ_i = 0. Unlike in a guarded decode no other token is tried, not even at the
surest position: what is refused there must cost something. Of the mean share

    Q(s) = E[ Σ_i κ_i ] / k        G_j = Σ_{i≥j} κ_i / k

κ_i depends on a₁ … a_i alone, so that a_j is credited with G_j, and with D draws, by the mean of G_j over all of them,

    ∇ Q ≈ Σ_j Σ_d (G_j^d − mean G_j) / (D − 1) ∇ log p(a_j^d|s)

This is the leave-one-out baseline, (G_j^d − mean of the D − 1 others) / D, and unbiased for the order as it stands:
that positions are offered in another order when parameters change has no gradient here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from dllm_rl.decoding.choosing import best_positions
from dllm_rl.decoding.noise import StateNoise, inverse_cdf_at
from dllm_rl.decoding.rollouts import Rollout
from dllm_rl.policy import token_logprobs_at
from dllm_rl.task import UnmaskBatch
from dllm_rl.terms.judged_decisions import JudgedDecisionsConfig, decision_weights
from dllm_rl.terms.states import Term, TermValue, VisitedStates
from llm_rl.core._checks import check_rate
from llm_rl.core._options import option

KEPT = 3
"""The use of `StateNoise` for the tokens that are drawn."""


@dataclass
class KeptConfig(JudgedDecisionsConfig):
    """Parameters of what is kept, which is off by default; it draws as often as judged decisions do."""

    kept_weight: float = option(0.0, "Weight of the share of a pass's tokens that a check of completions keeps.")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_rate("kept_weight", self.kept_weight)


def kept_tokens(problems: UnmaskBatch, responses: Tensor, of: Tensor, positions: Tensor, tokens: Tensor) -> Tensor:
    """Which of the offered tokens are kept, κ, bool `(N, D, k)`; false where nothing is offered.

    Args:
        problems: The problems.
        responses: int64 `(N, R)`, states.
        of: int64 `(N,)`, the problem of each.
        positions: int64 `(N, k)`, what is offered in its order, -1 behind the last.
        tokens: int64 `(N, D, k)`, D draws.
    """
    draws = tokens.shape[1]
    states, of = responses.repeat_interleave(draws, 0), of.repeat_interleave(draws)  # (N·D, R), (N·D,)
    kept = torch.zeros_like(tokens, dtype=torch.bool).flatten(0, 1)
    offered, drawn = positions.repeat_interleave(draws, 0), tokens.flatten(0, 1)  # (N·D, k)
    for rank in range(positions.shape[1]):
        # Each is tried on what was kept before it, in all draws at once.
        some = (offered[:, rank] >= 0).nonzero().squeeze(1)
        if not len(some):
            break
        tried = states[some].scatter(1, offered[some, rank, None], drawn[some, rank, None])
        holds = problems.completable(tried, of[some])
        kept[some, rank] = holds
        states[some[holds]] = tried[holds]
    return kept.view(tokens.shape)


def kept_weights(kept: Tensor, positions: Tensor) -> Tensor:
    """What ∇ log p(a_j^d|s) is weighed by, float64 `(N, D, k)`, from κ `(N, D, k)` at positions `(N, k)`."""
    credit = kept.double().flip(2).cumsum(2).flip(2) / (positions >= 0).sum(1)[:, None, None]  # G
    return decision_weights(credit, "linear")


class KeptCells(Term):
    """Q of each visited state; logs `kept`, the share of what was offered.

    Args:
        config: Parameters of the term.
        noise: Where draws come from.
    """

    name: ClassVar[str] = "kept"
    at_rl_rate: ClassVar[bool] = True

    def __init__(self, config: KeptConfig, noise: StateNoise) -> None:
        self.config, self.noise = config, noise

    def over(self, rollout: Rollout) -> Callable[[VisitedStates], TermValue]:
        """As many positions are offered as a decision of the roll-out offers; see `Term.over`."""
        draws, most = self.config.judged_draws, rollout.positions.shape[2]
        uniforms = self.noise.of_states(rollout.problem_of, KEPT, (draws, most))  # (S, D, k)

        def value(visited: VisitedStates) -> TermValue:
            # Offer: the surest positions, and D tokens at each.
            states, scores = visited.states, visited.states.scores
            rows, ranks, columns = best_positions(scores.margins.detach(), most)  # (B,)
            positions = torch.full((len(states.responses), most), -1, device=columns.device)
            positions[rows, ranks] = columns
            at = scores.row_of[rows, columns].repeat_interleave(draws)  # (B·D,)
            given = uniforms[visited.chosen].transpose(1, 2)[rows, ranks].flatten()
            temperature = states.policy.token_temperature
            drawn = inverse_cdf_at(scores.logits.detach() / temperature, at, given).view(-1, draws)
            tokens = torch.full((*positions.shape, draws), -1, device=columns.device)
            tokens[rows, ranks] = drawn
            tokens = tokens.transpose(1, 2)  # (N, D, k)

            # Check, and credit each token.
            kept = kept_tokens(states.problems, states.responses, states.of, positions, tokens)
            weights = kept_weights(kept, positions).transpose(1, 2)[rows, ranks].flatten()  # (B·D,)
            state, place = rows.repeat_interleave(draws), columns.repeat_interleave(draws)
            logprobs = token_logprobs_at(scores, state, place, drawn.flatten(), temperature)
            level = kept.sum((1, 2)).to(logprobs) / (draws * (positions >= 0).sum(1))  # (N,)
            credited = torch.zeros_like(level).index_add(0, state, weights.to(logprobs) * logprobs)
            total = ((level + credited - credited.detach()) * visited.visits()).sum() * self.config.kept_weight
            return TermValue(total, {"kept": (kept.sum(), len(rows) * draws)})

        return value
