"""Tokens that a decode takes back: masked again where the model doubts them, or replaced where it is sure of others.

A forward pass tells what fits at the masked positions and what the model makes of the tokens that it has committed. So
each pass fills positions, and revises what earlier passes have written (`TakeBack`):

- remasking: a committed token of low probability is masked again, to be filled later, when more is known;
- editing (LLaDA 2.1, arXiv:2602.08676): a committed token is replaced where the model gives another one a probability
  above a threshold;
- restarts: where a complete answer contradicts itself, as the rules of the problem tell without knowing the answer
  (`UnmaskBatch.contradictions`), the tokens that clash and a random share of the others are masked again, and filled
  anew with tokens that are drawn. This is large neighborhood search with the model in the place of the heuristic.

Probabilities of committed tokens are those that the model gives with the token before its eyes. A model that was
trained on masks alone has never learned to doubt what it sees.
"""

import torch
from torch import Tensor

from dllm_rl.decoding.noise import fresh_uniforms, inverse_cdf_of
from dllm_rl.decoding.settings import Decoding, TakeBack
from dllm_rl.decoding.trajectories import Trajectories
from dllm_rl.policy import StateScores

Places = tuple[Tensor, Tensor]
"""Trajectory and position, int64 `(W',)` each."""


class TakingNothingBack:
    """What is written stays: the rule of a `Decoding` without `take_back`, for T trajectories at their start."""

    def __init__(self, how: Decoding, trajectories: Trajectories, generator: torch.Generator | None) -> None:
        self.how, self.trajectories, self.generator = how, trajectories, generator

    def asked(self, number: int, responses: Tensor, of: Tensor) -> Tensor:
        """bool `(N, R)`: where the step of a number asks the model, at states `(N, R)` of problems `(N,)`."""
        return responses == self.trajectories.problems.mask_id

    def parted(self, logits: Tensor, masked: Tensor, asked: Tensor) -> tuple[Tensor, Tensor]:
        """Logits `(M + W, V)` at the positions asked about, bool `(N, R)`, parted by whether they are masked."""
        return logits, logits[:0]

    def drawn(self, scores: StateScores, states: Tensor, of: Tensor, positions: Tensor, best: Tensor) -> Tensor:
        """The tokens to fill in at positions `(B,)` of states `(B,)` of trajectories `(B,)`; `best` were chosen."""
        return best

    def revise(
        self, logits: Tensor, states: Tensor, of: Tensor, some: Tensor, state_of: Tensor
    ) -> tuple[Places, Places]:
        """What was replaced and what was masked again of trajectories `(A,)`, whose masked positions have been filled.

        They were in states `(A,)` of those, int64 `(N, R)` of problems `(N,)`; logits `(W, V)` are at committed tokens.
        """
        return (some[:0], some[:0]), (some[:0], some[:0])

    def ended(self) -> Tensor:
        """bool `(T,)`: which go on no more after this step."""
        return self.trajectories.ended(self.how.on_error)


class TakingBack(TakingNothingBack):
    """The rule `TakeBack` of a `Decoding` at work; what it takes back it writes into the trajectories."""

    def __init__(self, how: Decoding, trajectories: Trajectories, generator: torch.Generator | None) -> None:
        super().__init__(how, trajectories, generator)
        assert how.take_back is not None
        self.rule = how.take_back
        self.last_complete = trajectories.responses.clone()  # (T, R)
        self.restarted = torch.zeros_like(trajectories.errors)  # (T,), whether tokens are drawn
        self.uniforms: Tensor | None = None  # (T, R + 1, 2), for the tokens and, of restarts, positions and the share
        self.passes_left = self.rule.max_passes

    def asked(self, number: int, responses: Tensor, of: Tensor) -> Tensor:
        """All that is not given; uniforms are drawn for all trajectories, however they are cut into passes."""
        self.passes_left = self.rule.max_passes - number - 1  # after this one
        if self.rule.restart_share is not None:
            count, length = self.last_complete.shape
            self.uniforms = fresh_uniforms((count, length + 1, 2), self.generator, self.last_complete.device)
        return self.trajectories.open[of]

    def parted(self, logits: Tensor, masked: Tensor, asked: Tensor) -> tuple[Tensor, Tensor]:
        """Each of the two packed for itself."""
        kept = masked[asked]
        return logits[kept], logits[~kept]

    def drawn(self, scores: StateScores, states: Tensor, of: Tensor, positions: Tensor, best: Tensor) -> Tensor:
        """Those chosen, or drawn at temperature 1 where there was a restart."""
        if self.uniforms is None:
            return best
        tokens = inverse_cdf_of(scores.logits, scores.row_of[states, positions], self.uniforms[of, positions, 0])
        return torch.where(self.restarted[of], tokens, best)

    def revise(
        self, logits: Tensor, states: Tensor, of: Tensor, some: Tensor, state_of: Tensor
    ) -> tuple[Places, Places]:
        """Replace what the model is sure is another token, mask again what it doubts and what clashes."""
        responses, mask_id = self.trajectories.responses[some], self.trajectories.problems.mask_id  # (A, R)
        # To fill one again may take a pass of its own, so that no more are masked than passes are left.
        room = (self.passes_left - (responses == mask_id).sum(1)).clamp_min(0)  # (A,)

        # What the model makes of committed tokens depends on the state alone.
        committed = self.trajectories.open[of] & (states != mask_id)  # (N, R)
        replaced, best = (each[state_of] for each in _replaced(logits, states, committed, self.rule))  # (A, R)
        remasked = torch.zeros_like(replaced)
        if self.rule.remasks:
            belief = _beliefs(logits, states, committed)[state_of]
            remasked = _doubted(belief, committed[state_of] & ~replaced, room, self.rule)
        responses = torch.where(replaced, best, responses).masked_fill(remasked, mask_id)

        # What clashes in a complete answer depends on what has been written now.
        if self.uniforms is not None:
            again = self._clashing(responses, some, self.uniforms[some, :, 1])
            self.restarted[some] |= again.any(1)
            responses, remasked = responses.masked_fill(again, mask_id), remasked | again
        self.trajectories.responses[some] = responses
        self.trajectories.filled[some] -= remasked.sum(1)
        return _places(some, replaced), _places(some, remasked)

    def ended(self) -> Tensor:
        """Those that are complete and would stay as they are, or have no pass left."""
        responses, complete = self.trajectories.responses, super().ended()
        # Complete a second time with the same tokens: the model would say the same of them again.
        settled = (responses == self.last_complete).all(1)
        self.last_complete = torch.where(complete[:, None], responses, self.last_complete)
        if not self.rule.looks_back or self.passes_left <= 0:  # what is complete has been looked at
            return complete
        return complete & settled

    def _clashing(self, responses: Tensor, some: Tensor, uniforms: Tensor) -> Tensor:
        """bool `(A, R)`: what is masked again of complete responses `(A, R)` of trajectories `(A,)`.

        The uniforms `(A, R + 1)` are for the positions and for the share.
        """
        problems, of = self.trajectories.problems, self.trajectories.problem_of[some]
        share = self.rule.restart_share or 0.0
        again = torch.zeros_like(responses, dtype=torch.bool)
        complete = (responses != problems.mask_id).all(1).nonzero().squeeze(1)
        if not len(complete):
            return again
        clash = problems.contradictions(responses[complete], of[complete])  # (A', R)
        wrong = clash.any(1)
        complete, clash = complete[wrong], clash[wrong]
        # What clashes comes first, at -1; of the rest those go whose uniform lies below the share.
        level = share + (1 - share) * uniforms[complete, -1:]  # (A', 1)
        order = torch.where(clash, -1.0, uniforms[complete, :-1])  # (A', R)
        candidates = self.trajectories.open[of[complete]] & (order < level)
        again[complete] = _least(order, candidates, self.passes_left)
        return again


def _replaced(logits: Tensor, states: Tensor, committed: Tensor, rule: TakeBack) -> tuple[Tensor, Tensor]:
    """bool `(N, R)`: the committed tokens to replace; int64 `(N, R)`: by which. The logits are `(W, V)`, at them."""
    probability, token = logits.softmax(-1).max(-1)  # (W,)
    best = states.masked_scatter(committed, token)
    if rule.edit_threshold is None:
        return torch.zeros_like(committed), best
    sure = torch.zeros_like(committed).masked_scatter(committed, probability > rule.edit_threshold)
    return sure & (best != states), best


def _beliefs(logits: Tensor, states: Tensor, committed: Tensor) -> Tensor:
    """The log-probability of each committed token from logits `(W, V)` at them, `(N, R)`, 0 elsewhere."""
    own = logits.log_softmax(-1).gather(1, states[committed][:, None]).squeeze(1)  # (W,)
    return own.new_zeros(states.shape).masked_scatter(committed, own)


def _doubted(belief: Tensor, candidates: Tensor, room: Tensor, rule: TakeBack) -> Tensor:
    """bool `(A, R)`: the candidates to mask again, by log-probabilities `(A, R)`, at most `room` `(A,)` of a row."""
    if rule.remask_threshold is not None:
        candidates = candidates & (belief.exp() < rule.remask_threshold)
    if rule.remask_count is not None:
        room = room.clamp_max(rule.remask_count)
    return _least(belief, candidates, room[:, None])


def _least(values: Tensor, candidates: Tensor, room: Tensor | int) -> Tensor:
    """bool `(A, R)`: the candidates of the least values, at most `room` `(A, 1)` of a row, of equal ones the left."""
    order = values.masked_fill(~candidates, float("inf")).sort(dim=1, stable=True).indices
    return candidates & (order.argsort(dim=1) < room)


def _places(some: Tensor, chosen: Tensor) -> Places:
    """Trajectory and position of what is chosen, bool `(A, R)`, in some trajectories, int64 `(A,)`."""
    rows, positions = chosen.nonzero(as_tuple=True)
    return some[rows], positions
