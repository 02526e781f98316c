"""Decoding for inference: several positions from one forward pass, and on to the end after an error."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dllm_rl.decoding import Strategy, draw, in_evaluation_mode
from dllm_rl.policy import NEG_INF, PolicyConfig, score_states
from dllm_rl.task import UnmaskBatch


@dataclass(frozen=True, eq=False)
class Decode:
    """One complete decode of each of N problems, in at most K steps of one forward pass each.

    Attributes:
        problems: The N problems.
        responses: int64 `(N, R)`, the answers; no position is masked.
        step_of: int64 `(N, R)`, the step that filled each position, -1 where it was pre-filled.
        greedy: int64 `(N, K)`, the masked position of the largest margin before each step, -1 after the last.
    """

    problems: UnmaskBatch
    responses: Tensor
    step_of: Tensor
    greedy: Tensor

    @property
    def forward_passes(self) -> Tensor:
        """int64 `(N,)`, steps until the answer was complete."""
        return self.step_of.amax(1) + 1

    def states_of(self, row: int) -> Tensor:
        """The states of one decode, int64 `(steps + 1, R)`, the problem first."""
        steps = torch.arange(int(self.forward_passes[row]) + 1, device=self.step_of.device)
        return torch.where(self.step_of[row] < steps[:, None], self.responses[row], self.problems.mask_id)


@torch.no_grad()
@in_evaluation_mode
def decode(
    model: nn.Module,
    problems: UnmaskBatch,
    strategy: Strategy,
    *,
    tokens_per_step: int | None = 1,
    threshold: float | None = None,
    policy: PolicyConfig | None = None,
    generator: torch.Generator | None = None,
    max_tokens: int = 65536,
) -> Decode:
    """Fill every masked position, at each step the strategy's best ones: a number of them, or all above a threshold.

    The positions of a step and their tokens are chosen from one forward pass, so none of them sees the others. Equal
    scores go to the left one. A strategy that samples draws positions without replacement, in proportion to exp(score)
    of those left. A step takes fewer positions where fewer are masked, i.e. the last one, and where the strategy allows
    fewer: no step leaves its semi-autoregressive block, and as long as a cell is definite, `forced_first` fills such
    cells only. Wrong digits stay on the board and decoding goes on.

    With a threshold a step fills the positions that score at least so much, the best one in any case and at most
    `tokens_per_step` of them (confidence-aware parallel decoding, Fast-dLLM, arXiv:2505.22618). It is on the scale of
    the strategy's own score: log p₁ for "probability" and "semi_autoregressive", so log 0.9 for a confidence of 0.9;
    the log-ratio of p₁ and p₂ for "margin" and "forced_first"; p₁ − p₂ for "margin_difference"; minus nats for
    "entropy".

    Args:
        model: A model as `score_states` takes it (`dllm_rl.models.adapter.as_policy_model` makes one); it is put in
            evaluation mode for the call.
        problems: The N problems to decode.
        strategy: How positions and tokens are chosen.
        tokens_per_step: Most positions to fill at each step; None is no bound.
        threshold: Least score of the positions filled beside the best one; None is no threshold.
        policy: Temperatures, for the strategies that draw.
        generator: Source of randomness, on the model's device; None is torch's global one.
        max_tokens: Largest number of tokens in one forward pass.

    Raises:
        ValueError: `tokens_per_step` or `max_tokens` is too small, a threshold is given to a strategy that draws
            positions, or the strategy leaves a state without a position or chooses one that is not masked.
    """
    policy = policy or PolicyConfig()
    length = problems.length
    if (tokens_per_step is not None and tokens_per_step < 1) or max_tokens < length:
        raise ValueError(f"need tokens_per_step >= 1 and max_tokens >= {length}, got {tokens_per_step}, {max_tokens}")
    if threshold is not None and strategy.sample_position:
        raise ValueError(
            f"threshold={threshold} does not fit strategy {strategy.name!r}, which draws positions; use one that takes "
            "the best, e.g. 'margin' or 'probability'"
        )
    mask_id = problems.mask_id
    responses = problems.responses.clone()
    step_of = torch.full_like(responses, -1)
    greedy: list[Tensor] = []
    while len(alive := (responses == mask_id).any(1).nonzero().squeeze(1)):
        largest = torch.full_like(responses[:, 0], -1)
        for rows in alive.split(max_tokens // length):
            states = responses[rows]
            scores = score_states(model, *problems.prompts_of(rows), states, mask_id, policy)
            none = torch.zeros_like(states, dtype=torch.bool)
            score = strategy.score(scores, problems.definite(states, rows) if strategy.needs_forced else none)
            local, positions = best_positions(score, tokens_per_step, threshold, strategy.sample_position, generator)
            logit_rows = scores.row_of[local, positions]
            if len(local.unique()) < len(rows) or bool((logit_rows < 0).any()):
                raise ValueError(
                    f"strategy {strategy.name!r} must give every state a finite score at a masked position"
                )
            logits = scores.logits[logit_rows]
            tokens = draw(logits / policy.token_temperature, generator) if strategy.sample_token else logits.argmax(1)
            responses[rows[local], positions] = tokens
            step_of[rows[local], positions] = len(greedy)
            largest[rows] = scores.margins.argmax(1)
        greedy.append(largest)
    table = torch.stack(greedy, dim=1) if greedy else responses.new_empty((len(responses), 0))
    return Decode(problems, responses, step_of, table)


def best_positions(
    score: Tensor, count: int | None, threshold: float | None, sample: bool, generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    """The `count` best columns of each row, or draws without replacement from softmax(score) (Gumbel top-k).

    Args:
        score: fp32 `(N, R)`, -inf where a column cannot be chosen.
        count: Most columns of a row; None is no bound.
        threshold: Least score of all columns but the best one of a row; None is none. Not for draws.
        sample: Whether to draw.
        generator: Source of randomness.

    Returns:
        Rows and columns, int64 `(A,)` each, row by row.
    """
    if sample:
        score = score - torch.empty_like(score).exponential_(generator=generator).log()
    values, columns = score.sort(dim=1, descending=True, stable=True)
    chosen = values[:, :count] > NEG_INF
    if threshold is not None:
        chosen[:, 1:] &= values[:, 1:count] >= threshold
    rows, ranks = chosen.nonzero(as_tuple=True)
    return rows, columns[rows, ranks]
