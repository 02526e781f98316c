"""Guarded decoding: of what a pass chooses only that is written with which a check of the state still holds.

A pass offers positions ℓ₁, ℓ₂ … in the order of the strategy, with tokens v₁, v₂ … that do not see each other. In that
order each v is written if the check c holds of the state with it, or else its position stays masked:

    s ← s with v_i at ℓ_i   if c(s with v_i at ℓ_i),    i = 1, 2 …

The first position, the surest, tries its tokens in the order of their probability until c holds, so that every pass
fills one position at least. If c holds with none of them this is a *dead end*: a check should hold with less written
wherever it holds with more, and so nothing that is written elsewhere would help. The trajectory ends there, incomplete.
A check that says what can still be completed meets none, and every decode by it ends right, whatever the model.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from dllm_rl.decoding.settings import Check, Decoding, Look, Looking
from dllm_rl.decoding.trajectories import Trajectories, sums_at
from dllm_rl.policy import NEG_INF, StateScores
from dllm_rl.task import UnmaskBatch

Choices = tuple[Tensor, Tensor, Tensor, Tensor]
"""The trajectory, rank, position and token of each choice of a step, as `choose` returns them."""
MOST_TOKENS = 256  # of one position that are checked at once


class Unguarded:
    """All that was chosen is written: the rule of a `Decoding` without a guard, for T trajectories at their start."""

    def __init__(self, how: Decoding, trajectories: Trajectories) -> None:
        self.how, self.trajectories = how, trajectories

    def kept(
        self, scores: StateScores, states: Tensor, some: Tensor, choices: Choices
    ) -> tuple[Choices, Tensor, Tensor]:
        """Which of the choices of trajectories `(A,)` in states `(A,)` are written, and the counts of `Step`."""
        nothing = torch.zeros_like(some)
        return choices, nothing, nothing


class Guarded(Unguarded):
    """The check of a `Decoding` at work; dead ends it writes into the trajectories."""

    def __init__(self, how: Decoding, trajectories: Trajectories) -> None:
        super().__init__(how, trajectories)
        self.look = _look_of(how, trajectories.problems)
        self.look(trajectories.responses, trajectories.problem_of)  # refuses what no pass could complete

    def kept(
        self, scores: StateScores, states: Tensor, some: Tensor, choices: Choices
    ) -> tuple[Choices, Tensor, Tensor]:
        """Those with which the check holds; the tokens of the surest positions may be others than were chosen."""
        rows, ranks, positions, tokens = (each.clone() for each in choices)
        look = self.look(self.trajectories.responses[some], self.trajectories.problem_of[some])
        holds, checks = torch.zeros_like(rows, dtype=torch.bool), torch.zeros_like(some)

        def write(at: Tensor, candidates: Tensor) -> None:
            holds[at], tokens[at] = look.write(rows[at], positions[at], candidates)
            checks[rows[at]] += candidates.shape[1]

        # The surest: where its token is refused, the best that may stand, or one by one until the check holds.
        first = (ranks == 0).nonzero().squeeze(1)  # (A,)
        write(first, tokens[first, None])
        left = first[~holds[first]]
        logits = scores.logits[scores.row_of[states[rows[left]], positions[left]]]  # (A', V)
        logits = logits.scatter(1, tokens[left, None], NEG_INF)  # that has been tried
        allowed = look.tokens(rows[left], positions[left], logits.shape[1])
        if allowed is None:
            values, order = logits.sort(dim=1, descending=True, stable=True)
        else:
            values, order = logits.masked_fill(~allowed, NEG_INF).max(1, keepdim=True)
        order = order.where(values > NEG_INF, tokens[left, None])  # never the mask
        # Twice as many each time: mostly the next one holds, and where it does not the last one may have to be asked.
        begin, count = 0, 1
        while len(left) and begin < order.shape[1]:
            write(left, order[:, begin : begin + count])
            refused = ~holds[left]
            left, order = left[refused], order[refused]
            begin, count = begin + count, min(2 * count, MOST_TOKENS)
        stuck = torch.zeros_like(some, dtype=torch.bool)
        stuck[rows[first]] = ~holds[first]
        self.trajectories.stuck[some] = stuck

        # The others in their order: of one trajectory one after the other, of all trajectories at once.
        for rank in range(1, int(ranks.max()) + 1):
            at = ((ranks == rank) & ~stuck[rows]).nonzero().squeeze(1)
            write(at, tokens[at, None])

        # What is left of each trajectory's choices is numbered anew.
        offered, written = (sums_at(rows, each, len(some)) for each in (torch.ones_like(rows), holds.long()))
        rows = rows[holds]
        ranks = torch.arange(len(rows), device=rows.device) - (written.cumsum(0) - written)[rows]
        return (rows, ranks, positions[holds], tokens[holds]), checks, offered - written


class Trying:
    """The `Look` of a function at states, int64 `(A, R)`, which are written into, of problems `(A,)`."""

    def __init__(self, check: Check, problems: UnmaskBatch, states: Tensor, of: Tensor) -> None:
        self.check, self.problems, self.states, self.of = check, problems, states, of

    def write(self, rows: Tensor, positions: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """See `Look.write`."""
        each = torch.arange(len(rows), device=rows.device)
        states = self.states[rows].unsqueeze(1).repeat(1, tokens.shape[1], 1)  # (B, C, R)
        states[each, :, positions] = tokens
        flat = states.flatten(0, 1)  # (B·C, R)
        found = self.check(self.problems, flat, self.of[rows].repeat_interleave(tokens.shape[1]))
        if not isinstance(found, Tensor) or found.dtype != torch.bool or found.shape != flat.shape[:1]:
            told = f"{found.dtype} {tuple(found.shape)}" if isinstance(found, Tensor) else f"a {type(found).__name__}"
            raise TypeError(f"a guard returned {told}; it must return torch.bool ({len(flat)},), one for each state")
        holds, first = found.view(tokens.shape).any(1), found.view(tokens.shape).byte().argmax(1)
        self.states[rows[holds]] = states[each, first][holds]
        return holds, tokens[each, first]

    def tokens(self, rows: Tensor, positions: Tensor, count: int) -> None:
        """A function is tried."""


def _look_of(how: Decoding, problems: UnmaskBatch) -> Callable[[Tensor, Tensor], Look]:
    """What looks at states `(A, R)` of the problems `(A,)`."""
    check: Check
    match how.guard:
        case Looking():
            return partial(how.guard.look, problems)
        case "completable" if isinstance(problems, Looking):
            return partial(problems.look, problems)
        case "completable":
            if type(problems).completable is UnmaskBatch.completable:
                raise ValueError(
                    f"guard='completable' would read the answers off {type(problems).__name__}, which has no check of "
                    "its own; define completable(responses, of), or give a function"
                )
            check = type(problems).completable
        case "rules":
            check = type(problems).allowed
        case _:
            assert callable(how.guard)
            check = how.guard
    return partial(Trying, check, problems)
