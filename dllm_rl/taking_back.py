"""Tokens that a decode takes back: masked again where the model doubts them, or replaced where it is sure of others.

A forward pass tells what fits at the masked positions and what the model makes of the tokens that it has committed. So
each pass fills positions, as in `dllm_rl.decode`, and revises what earlier passes have written:

- remasking: a committed token of low probability is masked again, to be filled later, when more is known;
- editing (LLaDA 2.1, arXiv:2602.08676): a committed token is replaced where the model gives another one a probability
  above a threshold;
- restarts: where a complete answer contradicts itself, as the rules of the problem tell without knowing the answer
  (`UnmaskBatch.contradictions`), the tokens that clash and a random share of the others are masked again, and filled
  anew with tokens that are drawn. This is large neighborhood search with the model in the place of the heuristic.

Probabilities of committed tokens are those that the model gives with the token before its eyes. A model that was
trained on masks alone has never learned to doubt what it sees.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from dllm_rl.noise import inverse_cdf
from dllm_rl.policy import PolicyConfig, logits_at, scores_of
from dllm_rl.strategies import Strategy, check_limits, choose
from dllm_rl.task import UnmaskBatch
from dllm_rl.trajectories import micro_batches


@dataclass(frozen=True)
class TakeBack:
    """Which committed tokens are taken back, and how long that may go on.

    Tokens that were given are never touched. Filling always goes to the end: a position is masked again only while all
    masks could then be filled, one a pass, within `max_passes`. So a decode takes at most `max_passes` forward passes,
    or as many as it would take without taking back where these are more. It ends earlier when it is complete and holds
    the same tokens as when it was complete the last time.

    Attributes:
        max_passes: Most forward passes of a decode, those that fill included.
        remask_threshold: A committed token is masked again if its probability is below this; None is no threshold.
        remask_count: Most tokens masked again from one pass, the least probable first; None is no bound. Without a
            threshold so many are masked again from every pass (lowest-confidence remasking).
        edit_threshold: A committed token is replaced by the most probable one where that is another and its
            probability above this; None replaces nothing. What is replaced is not masked again from the same pass.
        restart_share: When an answer is complete and contradicts itself, what clashes is masked again, and of the other
            tokens a share that is drawn from [restart_share, 1]; from then on this decode draws its tokens at
            temperature 1. None never looks.

    Raises:
        ValueError: A number is out of range, or nothing would ever be taken back.
    """

    max_passes: int
    remask_threshold: float | None = None
    remask_count: int | None = None
    edit_threshold: float | None = None
    restart_share: float | None = None

    def __post_init__(self) -> None:
        if self.max_passes < 1:
            raise ValueError(f"max_passes={self.max_passes} must be at least 1")
        if self.remask_threshold is not None and not 0 < self.remask_threshold <= 1:
            raise ValueError(f"remask_threshold={self.remask_threshold} must be a probability above 0, e.g. 0.3")
        if self.remask_count is not None and self.remask_count < 1:
            raise ValueError(f"remask_count={self.remask_count} must be at least 1, or None for no bound")
        if self.edit_threshold is not None and not 0 < self.edit_threshold < 1:
            raise ValueError(f"edit_threshold={self.edit_threshold} must lie between 0 and 1, e.g. 0.9")
        if self.restart_share is not None and not 0 <= self.restart_share <= 1:
            raise ValueError(f"restart_share={self.restart_share} must lie in [0, 1], e.g. 0.4")
        if not self.looks_back and self.restart_share is None:
            raise ValueError(
                "nothing would be taken back; set remask_threshold, remask_count, edit_threshold or restart_share"
            )

    @property
    def looks_back(self) -> bool:
        """Whether the model is asked what it makes of committed tokens."""
        thresholds = (self.remask_threshold, self.remask_count, self.edit_threshold)
        return any(value is not None for value in thresholds)


class Pass(NamedTuple):
    """What one forward pass did to A decodes.

    Attributes:
        number: The number of the pass, from 0.
        decodes: int64 `(A,)`, the decodes by their problem.
        greedy: int64 `(A,)`, the masked position of the largest margin before the pass, -1 where none was masked.
        greedy_definite: bool `(A,)`, whether that position was definite.
        filled: Problem and position, int64 `(B,)` each, of what was filled.
        definite: bool `(B,)`, whether that position was definite.
        replaced: Problem and position, int64 `(C,)` each, of the tokens that were replaced.
        remasked: Problem and position, int64 `(D,)` each, of the tokens that were masked again.
    """

    number: int
    decodes: Tensor
    greedy: Tensor
    greedy_definite: Tensor
    filled: tuple[Tensor, Tensor]
    definite: Tensor
    replaced: tuple[Tensor, Tensor]
    remasked: tuple[Tensor, Tensor]


def taking_back_passes(
    model: nn.Module,
    problems: UnmaskBatch,
    responses: Tensor,
    strategy: Strategy,
    take_back: TakeBack,
    *,
    policy: PolicyConfig,
    tokens_per_step: int | None = 1,
    threshold: float | None = None,
    entropy_bound: float | None = None,
    generator: torch.Generator | None = None,
    max_tokens: int = 65536,
) -> Iterator[Pass]:
    """Decode problems to their ends, filling and taking back; one `Pass` for each forward pass.

    Args:
        model: The model, as in `dllm_rl.decode`.
        problems: The N problems.
        responses: int64 `(N, R)`, their responses, which are changed on the way.
        strategy: How masked positions are filled.
        take_back: What is taken back.
        policy: Temperatures.
        tokens_per_step: Most positions filled from one pass; None is no bound.
        threshold: Least score of the positions filled beside the best one; None is none.
        entropy_bound: Bound γ on the entropy of the positions of a pass; None is none.
        generator: Source of randomness of restarts; None is torch's global one.
        max_tokens: Largest number of tokens in one forward pass of the model.

    Raises:
        ValueError: An option is out of range, the limits do not fit each other (`check_limits`), or the strategy draws.
    """
    check_limits(strategy, tokens_per_step=tokens_per_step, threshold=threshold, entropy_bound=entropy_bound)
    if strategy.sample_position or strategy.sample_token:
        raise ValueError(
            f"strategy {strategy.name!r} draws, and what is filled again would need fresh randomness; take tokens back "
            "with one that takes the best, e.g. 'margin' or 'probability'"
        )
    open_ = responses == problems.mask_id  # (N, R), what is not given
    last_complete = responses.clone()
    restarted = torch.zeros_like(open_[:, 0])  # (N,), whether tokens are drawn
    alive, number = open_.any(1).nonzero().squeeze(1), 0
    while len(alive):
        uniforms = None
        if take_back.restart_share is not None:  # of all problems, however they are cut into passes
            shape = (len(responses), responses.shape[1] + 1, 2)
            uniforms = torch.rand(shape, dtype=torch.float64, generator=generator, device=responses.device)
        for first, last in micro_batches(open_[alive].sum(1), problems.length, max_tokens, None):
            some = alive[first:last]  # (A,)
            states, may_change = responses[some], open_[some]  # (A, R)
            masked = states == problems.mask_id
            logits = logits_at(model, *problems.prompts_of(some), states, may_change, problems.mask_id)  # (M, V)
            at_masked = masked[may_change]  # (M,)

            # What is filled, where something is masked.
            definite = problems.definite(states, some)  # (A, R)
            greedy = torch.full_like(some, -1)
            filled, tokens = (some[:0], some[:0]), some[:0]
            with_masks = masked.any(1).nonzero().squeeze(1)
            if len(with_masks):
                scores = scores_of(logits[at_masked], masked[with_masks], policy)
                greedy[with_masks] = scores.margins.argmax(1)
                rows, _, positions, tokens = choose(
                    strategy,
                    scores,
                    definite[with_masks],
                    torch.arange(len(with_masks), device=some.device),
                    policy=policy,
                    tokens_per_step=tokens_per_step,
                    threshold=threshold,
                    entropy_bound=entropy_bound,
                )
                filled = with_masks[rows], positions
                if uniforms is not None:
                    drawn = inverse_cdf(scores.logits[scores.row_of[rows, positions]], uniforms[some][*filled, 0])
                    tokens = torch.where(restarted[some[filled[0]]], drawn, tokens)

            # What is taken back of the tokens that stood there before.
            committed = may_change & ~masked
            replaced, best = _replaced(logits[~at_masked], states, committed, take_back)
            left = masked.sum(1) - filled[0].bincount(minlength=len(some))
            room = (take_back.max_passes - number - 1 - left).clamp_min(0)  # (A,)
            remasked = torch.zeros_like(committed)
            if take_back.remask_threshold is not None or take_back.remask_count is not None:
                remasked = _doubted(
                    logits[~at_masked],
                    states,
                    committed,
                    room,
                    candidates=~replaced,
                    threshold=take_back.remask_threshold,
                    count=take_back.remask_count,
                )

            # All of it is written at once.
            states[filled] = tokens
            states[replaced] = best[replaced]
            states[remasked] = problems.mask_id
            if uniforms is not None:
                again = _restarted(
                    problems,
                    states,
                    some,
                    may_change,
                    take_back,
                    uniforms[some][..., 1],
                    take_back.max_passes - number - 1,
                )
                restarted[some] |= again.any(1)
                states[again], remasked = problems.mask_id, remasked | again
            responses[some] = states
            yield Pass(
                number,
                some,
                greedy,
                definite.gather(1, greedy.clamp_min(0)[:, None]).squeeze(1) & (greedy >= 0),
                (some[filled[0]], filled[1]),
                definite[filled],
                _by_problem(some, replaced),
                _by_problem(some, remasked),
            )
        number += 1
        now = responses[alive]
        complete = (now != problems.mask_id).all(1)
        over = (now == last_complete[alive]).all(1) | (number >= take_back.max_passes)
        if not take_back.looks_back:
            over = torch.ones_like(over)  # what is complete has been looked at
        last_complete[alive[complete]] = now[complete]
        alive = alive[~(complete & over)]


def _replaced(logits: Tensor, states: Tensor, committed: Tensor, take_back: TakeBack) -> tuple[Tensor, Tensor]:
    """bool `(A, R)`: the committed tokens to replace; int64 `(A, R)`: by which.

    Args:
        logits: fp32 `(C, V)`, at the committed positions.
        states: int64 `(A, R)`.
        committed: bool `(A, R)`.
        take_back: The threshold.
    """
    probability, token = logits.softmax(-1).max(-1)  # (C,)
    best = states.masked_scatter(committed, token)
    if take_back.edit_threshold is None:
        return torch.zeros_like(committed), best
    sure = torch.zeros_like(committed).masked_scatter(committed, probability > take_back.edit_threshold)
    return sure & (best != states), best


def _doubted(
    logits: Tensor,
    states: Tensor,
    committed: Tensor,
    room: Tensor,
    *,
    candidates: Tensor,
    threshold: float | None,
    count: int | None,
) -> Tensor:
    """bool `(A, R)`: the committed tokens to mask again, the least probable ones, of equal ones the left.

    Args:
        logits: fp32 `(C, V)`, at the committed positions.
        states: int64 `(A, R)`.
        committed: bool `(A, R)`.
        room: int64 `(A,)`, most tokens of each row.
        candidates: bool `(A, R)`, the committed tokens that may be chosen.
        threshold: Only tokens of a probability below it; None is no threshold.
        count: Most tokens of each row; None is no further bound.
    """
    own = logits.log_softmax(-1).gather(1, states[committed][:, None]).squeeze(1)  # (C,)
    belief = own.new_zeros(states.shape).masked_scatter(committed, own)  # (A, R)
    candidates = committed & candidates
    if threshold is not None:
        candidates = candidates & (belief.exp() < threshold)
    if count is not None:
        room = room.clamp_max(count)
    return _least(belief, candidates, room[:, None])


def _least(values: Tensor, candidates: Tensor, room: Tensor | int) -> Tensor:
    """bool `(A, R)`: the candidates of the least values, at most `room` `(A, 1)` of a row, of equal ones the left."""
    order = values.masked_fill(~candidates, float("inf")).sort(dim=1, stable=True).indices
    return candidates & (order.argsort(dim=1) < room)


def _restarted(
    problems: UnmaskBatch,
    states: Tensor,
    some: Tensor,
    may_change: Tensor,
    take_back: TakeBack,
    uniforms: Tensor,
    room: int,
) -> Tensor:
    """bool `(A, R)`: what is masked again of complete states that contradict themselves, what clashes first.

    Args:
        problems: The problems.
        states: int64 `(A, R)`.
        some: int64 `(A,)`, their problems.
        may_change: bool `(A, R)`, what is not given.
        take_back: The least share of the other positions.
        uniforms: float64 `(A, R + 1)` in [0, 1), for the positions and for the share.
        room: Most positions of each.
    """
    share = take_back.restart_share or 0.0
    again = torch.zeros_like(may_change)
    complete = (states != problems.mask_id).all(1).nonzero().squeeze(1)
    if not len(complete):
        return again
    clash = problems.contradictions(states[complete], some[complete])  # (C, R)
    wrong = clash.any(1)
    complete, clash = complete[wrong], clash[wrong]
    level = share + (1 - share) * uniforms[complete, -1:]  # (C, 1)
    order = torch.where(clash, -1.0, uniforms[complete, :-1])  # (C, R)
    again[complete] = _least(order, may_change[complete] & (order < level), room)
    return again


def _by_problem(some: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Problem and position of the positions, bool `(A, R)`, chosen in the states of some problems, int64 `(A,)`."""
    rows, positions = chosen.nonzero(as_tuple=True)
    return some[rows], positions
