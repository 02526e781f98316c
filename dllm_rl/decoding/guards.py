"""Guarded decoding: of what a pass chooses only that is written with which a check of the state still holds.

A pass offers positions ℓ₁, ℓ₂ … in the order of the strategy, with tokens v₁, v₂ … that do not see each other. In that
order each v is written if the check c holds of the state with it, or else its position stays masked:

    s ← s with v_i at ℓ_i   if c(s with v_i at ℓ_i),    i = 1, 2 …

The first position, the surest, tries its tokens in the order of their probability until c holds, so that every pass
fills one position at least. If c holds with none of them this is a *dead end*: a check should hold with less written
wherever it holds with more, and so nothing that is written elsewhere would help. The trajectory ends there, incomplete.
A check that says what can still be completed meets none, and every decode by it ends right, whatever the model.
"""

import torch
from torch import Tensor

from dllm_rl.decoding.settings import Check, Decoding
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
        self.check = _check_of(how, trajectories.problems)

    def kept(
        self, scores: StateScores, states: Tensor, some: Tensor, choices: Choices
    ) -> tuple[Choices, Tensor, Tensor]:
        """Those with which the check holds; the tokens of the surest positions may be others than were chosen."""
        rows, ranks, positions, tokens = (each.clone() for each in choices)
        tried = _Tried(self, some)
        holds = torch.zeros_like(rows, dtype=torch.bool)

        # The surest: where its token is refused, the others by their probability, more and more at once.
        first = (ranks == 0).nonzero().squeeze(1)  # (A,)
        holds[first], _ = tried.write(rows[first], positions[first], tokens[first, None])
        left = first[~holds[first]]
        logits = scores.logits[scores.row_of[states[rows[left]], positions[left]]]  # (L, V)
        logits = logits.scatter(1, tokens[left, None], NEG_INF)  # that has been tried
        values, order = logits.sort(dim=1, descending=True, stable=True)
        order = order.where(values > NEG_INF, tokens[left, None])  # never the mask
        begin, count = 0, 1
        while len(left) and begin < order.shape[1]:
            holds[left], tokens[left] = tried.write(rows[left], positions[left], order[:, begin : begin + count])
            refused = ~holds[left]
            left, order = left[refused], order[refused]
            begin, count = begin + count, min(2 * count, MOST_TOKENS)
        stuck = torch.zeros_like(some, dtype=torch.bool)
        stuck[rows[first]] = ~holds[first]
        self.trajectories.stuck[some] = stuck

        # The others in their order: of one trajectory one after the other, of all trajectories at once.
        for rank in range(1, int(ranks.max()) + 1):
            at = ((ranks == rank) & ~stuck[rows]).nonzero().squeeze(1)
            holds[at], _ = tried.write(rows[at], positions[at], tokens[at, None])

        # What is left of each trajectory's choices is numbered anew.
        offered, written = (sums_at(rows, each, len(some)) for each in (torch.ones_like(rows), holds.long()))
        rows = rows[holds]
        ranks = torch.arange(len(rows), device=rows.device) - (written.cumsum(0) - written)[rows]
        return (rows, ranks, positions[holds], tokens[holds]), tried.checks, offered - written


class _Tried:
    """What A trajectories hold, and would hold with more, while one pass is checked."""

    def __init__(self, guard: Guarded, some: Tensor) -> None:
        self.check, self.problems = guard.check, guard.trajectories.problems
        self.responses = guard.trajectories.responses[some]  # (A, R)
        self.of = guard.trajectories.problem_of[some]  # (A,)
        self.checks = torch.zeros_like(some)

    def write(self, rows: Tensor, positions: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Write at a position of each row `(B,)` the first of its tokens `(B, C)` with which the check holds.

        Returns:
            Whether there is one, bool `(B,)`, and which, int64 `(B,)`.
        """
        each = torch.arange(len(rows), device=rows.device)
        states = self.responses[rows].unsqueeze(1).repeat(1, tokens.shape[1], 1)  # (B, C, R)
        states[each, :, positions] = tokens
        flat = states.flatten(0, 1)  # (B·C, R)
        found = self.check(self.problems, flat, self.of[rows].repeat_interleave(tokens.shape[1]))
        if not isinstance(found, Tensor) or found.dtype != torch.bool or found.shape != flat.shape[:1]:
            told = f"{found.dtype} {tuple(found.shape)}" if isinstance(found, Tensor) else f"a {type(found).__name__}"
            raise TypeError(f"a guard returned {told}; it must return torch.bool ({len(flat)},), one for each state")
        holds, first = found.view(tokens.shape).any(1), found.view(tokens.shape).byte().argmax(1)
        self.responses[rows[holds]] = states[each, first][holds]
        self.checks[rows] += tokens.shape[1]
        return holds, tokens[each, first]


def _check_of(how: Decoding, problems: UnmaskBatch) -> Check:
    """The function that a guard is or names.

    Raises:
        ValueError: It names a check that the problems do not have.
    """
    match how.guard:
        case "completable":
            if type(problems).completable is UnmaskBatch.completable:
                raise ValueError(
                    f"guard='completable' would read the answers off {type(problems).__name__}, which has no check of "
                    "its own; define completable(responses, of), or give a function"
                )
            return lambda problems, states, of: problems.completable(states, of)
        case "rules":
            return lambda problems, states, of: problems.allowed(states, of)
        case check:
            assert callable(check)
            return check
