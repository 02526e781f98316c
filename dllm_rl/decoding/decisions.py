"""Many whole decisions from one forward pass: drawn from the policy, and judged by the task."""

import torch
import torch.nn.functional as F
from torch import Tensor

from dllm_rl.decoding.choosing import draw_positions
from dllm_rl.decoding.noise import inverse_cdf_at
from dllm_rl.policy import PolicyConfig, StateScores
from dllm_rl.task import UnmaskBatch


def draw_decisions(
    scores: StateScores, states: Tensor, uniforms: Tensor, policy: PolicyConfig
) -> tuple[Tensor, Tensor]:
    """D decisions at each of A states.

    Args:
        scores: The policy at N states.
        states: int64 `(A,)`, the numbers of the states.
        uniforms: float64 `(A, D, k, 2)` in [0, 1), for the positions and the tokens of a decision.
        policy: Temperatures.

    Returns:
        Positions in the order of choice and tokens, int64 `(A, D, k)` each, -1 behind the last masked position.
    """
    count, draws, most, _ = uniforms.shape
    of_draw = states.repeat_interleave(draws)  # (A·D,)
    flat = uniforms.flatten(0, 1)  # (A·D, k, 2)
    rows, ranks, columns = draw_positions(scores.position_logprobs.detach()[of_draw], most, flat[..., 0])  # (B,) each
    at = scores.row_of[of_draw[rows], columns]
    drawn = inverse_cdf_at(scores.logits.detach() / policy.token_temperature, at, flat[rows, ranks, 1])
    positions = torch.full((count * draws, most), -1, device=columns.device)
    tokens = positions.clone()
    positions[rows, ranks], tokens[rows, ranks] = columns, drawn
    return positions.view(count, draws, most), tokens.view(count, draws, most)


def right_decisions(problems: UnmaskBatch, responses: Tensor, of: Tensor, positions: Tensor, tokens: Tensor) -> Tensor:
    """Which decisions leave a completion, bool `(A, D)`.

    Args:
        problems: The problems.
        responses: int64 `(A, R)`, the states before the decisions.
        of: int64 `(A,)`, the problem of each.
        positions: int64 `(A, D, k)`, as `draw_decisions` gives them.
        tokens: int64 `(A, D, k)`.
    """
    count, draws, _ = positions.shape
    written = F.pad(responses.repeat_interleave(draws, 0), (0, 1))  # (A·D, R + 1), the last for what is not there
    at = positions.where(positions >= 0, responses.shape[1])
    written = written.scatter(1, at.flatten(0, 1), tokens.flatten(0, 1))[:, :-1]
    return problems.completable(written, of.repeat_interleave(draws)).view(count, draws)
