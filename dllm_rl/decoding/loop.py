"""The one loop of decodes and roll-outs: a forward pass, choices at masked positions, and what is taken back."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn

from dllm_rl.decoding.choosing import choose
from dllm_rl.decoding.decisions import draw_decisions, right_decisions
from dllm_rl.decoding.guards import Choices, Guarded, Unguarded
from dllm_rl.decoding.noise import fresh_uniforms
from dllm_rl.decoding.settings import Decoding
from dllm_rl.decoding.strategies import get_strategy
from dllm_rl.decoding.taking_back import TakingBack, TakingNothingBack
from dllm_rl.decoding.trajectories import Trajectories, micro_batches, sums_at
from dllm_rl.policy import StateScores, logits_at, scores_of

Told = Callable[[int, StateScores, Tensor, Tensor, Tensor], Choices]
"""Step number, scores of N states, bool `(N, R)` what is definite in them, and the state and number of each of A
trajectories, int64 `(A,)`, to their choices."""


class Step(NamedTuple):
    """What A trajectories did in one step, decided in one forward pass over the N distinct states that they were in.

    Attributes:
        number: The number of the step, from 0.
        responses: int64 `(N, R)`, the states.
        of: int64 `(N,)`, the problem of each: one of those with its prompt, response and answer.
        definite: bool `(N, R)`, the open judged positions whose token follows from the state (S1).
        scores: The policy at the states; -inf throughout at one that is complete, which taking back may still change.
        trajectories: int64 `(A,)`, the trajectories.
        states: int64 `(A,)`, the state of each.
        rows: int64 `(B,)`, the place among the A of the trajectory that made each choice.
        ranks: int64 `(B,)`, its number among the choices of that trajectory in this step, from 0.
        positions: int64 `(B,)`, the position filled.
        tokens: int64 `(B,)`, the token chosen.
        wrong: bool `(B,)`, whether it is a wrong one at a judged position.
        checks: int64 `(A,)`, how often a guard was asked for each trajectory.
        rejected: int64 `(A,)`, positions that were chosen and left masked by it; all of them at a dead end.
        replaced: Trajectory and position, int64 `(W',)` each, of the tokens that were replaced.
        remasked: Trajectory and position, int64 `(W',)` each, of the tokens that were masked again.
    """

    number: int
    responses: Tensor
    of: Tensor
    definite: Tensor
    scores: StateScores
    trajectories: Tensor
    states: Tensor
    rows: Tensor
    ranks: Tensor
    positions: Tensor
    tokens: Tensor
    wrong: Tensor
    checks: Tensor
    rejected: Tensor
    replaced: tuple[Tensor, Tensor]
    remasked: tuple[Tensor, Tensor]


def decoding_steps(
    model: nn.Module,
    trajectories: Trajectories,
    how: Decoding,
    *,
    uniforms: Tensor | None = None,
    generator: torch.Generator | None = None,
    told: Told | None = None,
    max_tokens: int = 65536,
    max_masked: int | None = None,
) -> Iterator[Step]:
    """Take trajectories to their ends, one `Step` for each forward pass; `trajectories` are changed on the way.

    Args:
        model: A model as `score_states` takes it.
        trajectories: Where they are.
        how: How to decode.
        uniforms: float64 `(T, C · D, 2)` in [0, 1), for the position and the token of the first, second … position that
            a trajectory chooses, C at most, D of each (`Decoding.tries`); None draws them where the strategy does
            (`draw_uniforms`).
        generator: Source of randomness; None is torch's global one.
        told: What the choices are, where the strategy does not make them.
        max_tokens: Largest number of tokens in one forward pass.
        max_masked: Largest number of positions in one forward pass at which the model is asked (`micro_batches`).

    Raises:
        ValueError, TypeError: For the reasons of `decode`.
    """
    if uniforms is None:
        uniforms = draw_uniforms(how, trajectories, generator)
    told = told or _ByStrategy(how, trajectories, uniforms)
    back = (TakingNothingBack if how.take_back is None else TakingBack)(how, trajectories, generator)
    guard = (Unguarded if how.guard is None else Guarded)(how, trajectories)
    number = 0
    while len(alive := trajectories.alive):
        # Ask: the model at the states that the trajectories are in now, in as many passes as it takes.
        for part, scores, seen, some, states in _asked(model, back, number, max_tokens, max_masked):
            # Choose: where something is masked; all by the state before the step, so that no choice sees another.
            filling = torch.arange(len(states), device=states.device)
            if how.take_back is not None:
                filling = filling[(scores.row_of >= 0).any(1)[states]]
            drawn = told(number, scores, part[2], states[filling], some[filling])
            rows, ranks, positions, tokens = filling[drawn[0]], *drawn[1:]  # (B,)
            tokens = back.drawn(scores, states[rows], some[rows], positions, tokens)

            # Check: what may not stand with what is there is left out.
            kept, checks, rejected = guard.kept(scores, states, some, (rows, ranks, positions, tokens))
            rows, ranks, positions, tokens = kept

            # Write: what is filled, then what is taken back of the tokens that stood there before.
            choices = (some[rows], positions, tokens)
            wrong = trajectories.wrong(*choices)
            trajectories.write(*choices, wrong, how.on_error)
            replaced, remasked = back.revise(seen, part[0], part[1], some, states)
            yield Step(number, *part, scores, some, states, *kept, wrong, checks, rejected, replaced, remasked)

        # End: who is complete, in error or at a dead end leaves the batch, once all passes of the step are done.
        trajectories.alive = alive[~back.ended()[alive]]
        number += 1


def _asked(
    model: nn.Module, back: TakingNothingBack, number: int, max_tokens: int, max_masked: int | None
) -> Iterator[tuple[tuple[Tensor, Tensor, Tensor], StateScores, Tensor, Tensor, Tensor]]:
    """For each pass of a step `Step`'s three of states, scores, logits `(W, V)` at committed tokens, and its `(A,)`."""
    # Many trajectories are in few distinct states, and each of those is looked at once.
    trajectories, problems = back.trajectories, back.trajectories.problems
    responses, of, state_of = trajectories.distinct_states()  # (S, R), (S,), (A,)
    definite = problems.definite(responses, of)  # (S, R)
    asked = back.asked(number, responses, of)  # (S, R)
    # A pass takes a run of them, and along with it the trajectories that are in one of these.
    for begin, end in micro_batches(asked.sum(1), problems.length, max_tokens, max_masked):
        members = torch.arange(len(state_of), device=state_of.device)
        if end - begin < len(responses):
            members = members[(state_of >= begin) & (state_of < end)]
        part = (responses[begin:end], of[begin:end], definite[begin:end])  # (N, R), (N,), (N, R)
        masked, at = part[0] == problems.mask_id, asked[begin:end]  # (N, R)
        logits = logits_at(model, *problems.prompts_of(part[1]), part[0], at, problems.mask_id)  # (M + W, V)
        # What it says at masks serves the choice, what it makes of written tokens taking back.
        logits, seen = back.parted(logits, masked, at)  # (M, V), (W, V)
        scores = scores_of(logits, masked, back.how.policy)
        yield part, scores, seen, trajectories.alive[members], state_of[members] - begin


def draw_uniforms(how: Decoding, trajectories: Trajectories, generator: torch.Generator | None = None) -> Tensor | None:
    """Uniforms for `decoding_steps`, float64 `(T, C · D, 2)`; None, without drawing, where the strategy needs none."""
    if not get_strategy(how.strategy).draws:
        return None
    responses, most = trajectories.responses, trajectories.most_positions
    if how.guard is not None:  # what it refuses is chosen again, by uniforms that were not looked at
        most *= min(how.tokens_per_step or most, most)
    return fresh_uniforms((len(responses), most * how.tries, 2), generator, responses.device)


class _ByStrategy:
    """The choices of a strategy (`Told`); its uniforms are `(T, C · D, 2)`, or None where it draws nothing."""

    def __init__(self, how: Decoding, trajectories: Trajectories, uniforms: Tensor | None) -> None:
        self.how, self.trajectories = how, trajectories
        self.uniforms = None if uniforms is None else uniforms.unflatten(1, (-1, how.tries))  # (T, C, D, 2)
        self.used = torch.zeros_like(trajectories.filled)  # (T,), of the C

    def __call__(self, _: int, scores: StateScores, definite: Tensor, states: Tensor, some: Tensor) -> Choices:
        if self.uniforms is None:
            return choose(self.how, scores, definite, states)
        # The uniforms of each trajectory's next choices.
        most = self.uniforms.shape[1]
        places = self.used[some, None] + torch.arange(min(self.how.tokens_per_step or most, most), device=some.device)
        ahead = self.uniforms[some[:, None], places.clamp_max(most - 1)]  # (A, C, D, 2)
        drawn = choose(self.how, scores, definite, states, ahead[:, :, 0])
        if self.how.tries > 1:
            drawn = self._right_ones(scores, states, ahead, some, drawn)
        # Each choice uses one up: what a trajectory draws then depends on no other one and on no cut into passes.
        self.used += sums_at(some[drawn[0]], torch.ones_like(drawn[0]), len(self.used))
        return drawn

    def _right_ones(
        self, scores: StateScores, states: Tensor, uniforms: Tensor, some: Tensor, drawn: Choices
    ) -> Choices:
        """The first right decision of each trajectory, `drawn` being its first; the last one where none is right."""
        rows, _, positions, tokens = drawn
        trajectories = self.trajectories
        wrong = sums_at(rows, trajectories.wrong(some[rows], positions, tokens).long(), len(some)) > 0  # (A,)
        again = wrong.nonzero().squeeze(1)
        if not len(again):
            return drawn

        # All other decisions of those, judged at once.
        count, tries = uniforms.shape[1], self.how.tries - 1
        later = uniforms[again, :, 1:].transpose(1, 2)  # (A', D - 1, C, 2)
        positions, tokens = draw_decisions(scores, states[again], later, self.how.policy)
        states_now, of = trajectories.responses[some[again]], trajectories.problem_of[some[again]]
        right = right_decisions(trajectories.problems, states_now, of, positions, tokens)  # (A', D - 1)
        first = torch.where(right.any(1), right.byte().argmax(1), tries - 1)
        at = torch.arange(len(again), device=first.device), first
        places, ranks = (positions[at] >= 0).nonzero(as_tuple=True)
        fresh = again[places], ranks, positions[at][places, ranks], tokens[at][places, ranks]
        # They stand in for the wrong ones, again by trajectory and then by rank.
        kept = (~wrong[rows]).nonzero().squeeze(1)
        joined = [torch.cat([before[kept], after]) for before, after in zip(drawn, fresh, strict=True)]
        order = (joined[0] * count + joined[1]).argsort()
        return joined[0][order], joined[1][order], joined[2][order], joined[3][order]
