"""Trajectories: decodes in progress, and how their states are cut into forward passes.

A state depends on which positions hold which tokens, not on the order in which they were filled, and all trajectories
of a problem start in the same state; so at each step the live trajectories are mapped to their distinct states first,
and each of those is forwarded once; problems that occur twice in a batch share theirs.
"""

from bisect import bisect_right
from collections.abc import Iterator

import torch
from torch import Tensor

from dllm_rl.decoding.settings import OnError
from dllm_rl.task import UnmaskBatch


class Trajectories:
    """T = Q·G decodes in progress; trajectory t belongs to problem t // G.

    Args:
        problems: The Q problems.
        num_generations: G.

    Attributes:
        problem_of: int64 `(T,)`, the problem of each.
        to_fill: int64 `(T,)`, positions to fill in all.
        responses: int64 `(T, R)`, what is written now.
        open: bool `(Q, R)`, the positions of the problems that are not given.
        filled: int64 `(T,)`, how many of them are filled now.
        errors: bool `(T,)`, whether a wrong token was written at a judged position.
        stuck: bool `(T,)`, whether a guard refused every token at the surest position, a dead end.
        alive: int64 `(A,)`, the trajectories that go on.
    """

    def __init__(self, problems: UnmaskBatch, num_generations: int = 1) -> None:
        if num_generations < 1:
            raise ValueError(f"num_generations={num_generations} must be at least 1")
        start, device = problems.responses, problems.responses.device
        self.problems = problems
        self.problem_of = torch.arange(len(problems), device=device).repeat_interleave(num_generations)
        self.open = start == problems.mask_id
        self.to_fill = self.open.sum(1)[self.problem_of]
        self.responses = start[self.problem_of]
        self.filled = torch.zeros_like(self.to_fill)
        self.errors = torch.zeros_like(self.to_fill, dtype=torch.bool)
        self.stuck = torch.zeros_like(self.errors)
        self.alive = self.to_fill.nonzero().squeeze(1)
        self._first_alike = _first_alike(problems)  # (Q,)

    @property
    def most_positions(self) -> int:
        """How many positions the longest trajectory fills."""
        return int(self.to_fill.max())

    def distinct_states(self) -> tuple[Tensor, Tensor, Tensor]:
        """Distinct live states `(S, R)`, the problem of each `(S,)`, and the state `(A,)` of each live trajectory."""
        problem = self._first_alike[self.problem_of[self.alive]]
        rows = torch.cat([problem[:, None], self.responses[self.alive]], dim=1)
        distinct, inverse = rows.unique(dim=0, return_inverse=True)
        return distinct[:, 1:], distinct[:, 0], inverse

    def wrong(self, trajectories: Tensor, positions: Tensor, tokens: Tensor) -> Tensor:
        """bool `(B,)`: whether tokens are wrong ones at judged positions; the arguments are int64 `(B,)`.

        Where several answers are right, all judged tokens of a decision that leaves none are wrong.
        """
        problems, of = self.problems, self.problem_of[trajectories]
        judged = problems.judged[of, positions]
        if not problems.several:
            return judged & (problems.answers[of, positions] != tokens)
        deciding, decision = trajectories.unique(return_inverse=True)  # (A,), (B,)
        states = self.responses[deciding]
        states[decision, positions] = tokens
        return judged & ~problems.completable(states, self.problem_of[deciding])[decision]

    def write(self, trajectories: Tensor, positions: Tensor, tokens: Tensor, wrong: Tensor, on_error: OnError) -> None:
        """Fill positions; takes what `wrong` took and gave, and a trajectory may come several times."""
        if on_error == "correct":
            tokens = torch.where(wrong, self.problems.answers[self.problem_of[trajectories], positions], tokens)
        self.responses[trajectories, positions] = tokens
        self.errors |= sums_at(trajectories, wrong.long(), len(self.errors)) > 0
        self.filled += sums_at(trajectories, torch.ones_like(trajectories), len(self.filled))

    def ended(self, on_error: OnError) -> Tensor:
        """bool `(T,)`: which are complete, stuck or, if errors end them, hold an error."""
        complete = (self.filled >= self.to_fill) | self.stuck
        return complete | self.errors if on_error in ("end", "redraw") else complete


def micro_batches(masked: Tensor, length: int, max_tokens: int, max_masked: int | None) -> Iterator[tuple[int, int]]:
    """Cut a list of states into runs that fit in one pass, each as long as possible.

    Args:
        masked: int64 `(S,)`, masked positions of each state, i.e. its rows of full-vocabulary logits.
        length: Tokens of a sequence.
        max_tokens: Largest number of tokens of a run.
        max_masked: Largest number of masked positions of a run; None is no bound but `max_tokens`.

    Yields:
        The first state of a run, and the first after it.

    Raises:
        ValueError: A budget does not hold one state.
    """
    if max_tokens < length:
        raise ValueError(
            f"max_tokens={max_tokens} does not hold one sequence of {length} tokens; raise it, or shorten responses"
        )
    before = [0, *masked.cumsum(0).tolist()] if max_masked is not None else []
    first = 0
    while first < len(masked):
        last = min(first + max_tokens // length, len(masked))
        if max_masked is not None:
            fitting = bisect_right(before, before[first] + max_masked) - 1
            if fitting == first:
                number = before[first + 1] - before[first]
                raise ValueError(
                    f"max_masked={max_masked} does not hold one state with {number} masked positions; raise it"
                )
            last = min(last, fitting)
        yield first, last
        first = last


def sums_at(places: Tensor, values: Tensor, count: int) -> Tensor:
    """`(count,)`: the sum of the values `(B,)` at each place, int64 `(B,)`, without a wait for a card."""
    return values.new_zeros(count).index_add_(0, places, values)


def _first_alike(problems: UnmaskBatch) -> Tensor:
    """int64 `(Q,)`: for each problem the first that is the same in everything that a batch holds."""
    # All columns side by side: float64 holds token ids exactly, as it does flags.
    columns = [getattr(problems, name) for name in problems.per_problem]
    rows = torch.cat([column.double().reshape(len(problems), -1) for column in columns if column is not None], dim=1)
    distinct, kind = rows.unique(dim=0, return_inverse=True)
    numbers = torch.arange(len(problems), device=kind.device)
    return numbers.new_full((len(distinct),), len(problems)).scatter_reduce(0, kind, numbers, "amin")[kind]
