"""A task of one's own: the hidden states of an unknown automaton, which one written state after another tells.

An automaton has a few states and inputs; each input permutes the states, at random and the same way in every problem. A
problem is a trace of it, s₀ a₀ s₁ a₁ … s_T: all inputs and some states are written, the other states are asked for. The
model is not told what the inputs do. A hidden state is definite when the state before or behind it is written: that one
and the input between determine it. So the givens determine everything, one state after another, and a state far from
all that is written can be learned only by heart.

Nothing here can be renamed or moved: a permutation of states or inputs, or a trace read backwards, belongs to another
automaton, so there is no symmetry to make data of. This module is complete: copy it to start a task (docs/own_task.md).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dllm_rl import UnmaskBatch


@dataclass(frozen=True, eq=False)
class Automaton:
    """What each input does to each state.

    Attributes:
        moves: int64 `(A, S)`, the state that follows under each of A inputs on each of S states; rows are permutations.

    Raises:
        ValueError: A row is no permutation of the states.
    """

    moves: NDArray[np.int64]

    def __post_init__(self) -> None:
        if self.moves.ndim != 2 or (np.sort(self.moves, axis=1) != np.arange(self.moves.shape[1])).any():
            raise ValueError(f"each input must permute the states, but the moves are {self.moves.tolist()}")

    @classmethod
    def random(cls, states: int, inputs: int, seed: int) -> "Automaton":
        """An automaton whose inputs are independent random permutations."""
        rng = np.random.default_rng(seed)
        return cls(np.stack([rng.permutation(states) for _ in range(inputs)]))


@dataclass(frozen=True)
class Trace:
    """A problem: what an automaton did, and which of its states are written.

    Attributes:
        states: s₀ … s_T.
        inputs: a₀ … a_{T−1}.
        given: Whether each state is written.
    """

    states: tuple[int, ...]
    inputs: tuple[int, ...]
    given: tuple[bool, ...]

    @property
    def solution(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """What is no longer new once it was seen, whatever is given."""
        return self.states, self.inputs


def draw_traces(
    automaton: Automaton, count: int, *, length: int, given: tuple[int, int], seed: int, exclude: Collection[Trace] = ()
) -> list[Trace]:
    """Different traces from random first states under random inputs.

    Args:
        automaton: The automaton.
        count: Number of traces.
        length: States of a trace.
        given: Fewest and most states that are written; their number and places are random.
        seed: Random seed.
        exclude: Traces that are not drawn again, with whatever givens, e.g. those of training.

    Raises:
        ValueError: No state is given or more than there are, or so many different traces are not found.
    """
    if not 1 <= given[0] <= given[1] <= length:
        raise ValueError(f"given={given} must be two numbers, at least 1 and at most length={length}")
    rng = np.random.default_rng(seed)
    inputs_of, states_of = automaton.moves.shape
    seen, found = {trace.solution for trace in exclude}, list[Trace]()
    for _ in range(100 * count):
        if len(found) == count:
            return found
        inputs = rng.integers(inputs_of, size=length - 1).tolist()
        states = [int(rng.integers(states_of))]
        for one in inputs:
            states.append(int(automaton.moves[one, states[-1]]))
        written = np.isin(np.arange(length), rng.permutation(length)[: rng.integers(given[0], given[1] + 1)])
        trace = Trace(tuple(states), tuple(inputs), tuple(written.tolist()))
        if trace.solution not in seen:
            seen.add(trace.solution)
            found.append(trace)
    if len(found) == count:
        return found
    raise ValueError(
        f"found {len(found)} new traces of {length} states, not {count}; make them longer or ask for fewer"
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class TraceBatch(UnmaskBatch):
    """Q traces of T + 1 states as s₀ a₀ s₁ … s_T, without a prompt; judged are the states, at even positions."""

    def definite(self, responses: Tensor, of: Tensor) -> Tensor:
        """The hidden states beside a written one, bool `(N, 2T + 1)`."""
        hidden = responses[:, ::2] == self.mask_id  # (N, T + 1)
        beside = torch.zeros_like(hidden)
        beside[:, 1:] |= ~hidden[:, :-1]
        beside[:, :-1] |= ~hidden[:, 1:]
        definite = torch.zeros_like(responses, dtype=torch.bool)
        definite[:, ::2] = hidden & beside
        return definite


@dataclass(frozen=True)
class TraceTask:
    """Traces of equal length over S states and A inputs.

    Tokens are the states 0 … S − 1, then the inputs, then the mask.

    Attributes:
        states: S.
        inputs: A.
    """

    states: int
    inputs: int

    record_classes: ClassVar[tuple[type, ...]] = (TraceBatch,)

    @property
    def mask_id(self) -> int:
        """The mask token, the last one."""
        return self.states + self.inputs

    def batch(self, problems: Sequence[Trace]) -> TraceBatch:
        """The traces as tensors.

        Raises:
            ValueError: There are none, or they differ in length.
        """
        if len(lengths := {len(trace.states) for trace in problems}) != 1:
            raise ValueError(f"a batch takes traces of one length, got lengths {sorted(lengths)}")
        states, given = (torch.tensor([getattr(trace, name) for trace in problems]) for name in ("states", "given"))
        answers = torch.empty(len(problems), 2 * states.shape[1] - 1, dtype=torch.long)  # (Q, 2T + 1)
        answers[:, ::2] = states
        answers[:, 1::2] = self.states + torch.tensor([trace.inputs for trace in problems])
        judged = torch.zeros_like(answers, dtype=torch.bool)
        judged[:, ::2] = True
        hidden = torch.zeros_like(judged)
        hidden[:, ::2] = ~given
        return TraceBatch(
            prompt_ids=answers.new_empty(len(problems), 0),
            prompt_mask=None,
            responses=answers.masked_fill(hidden, self.mask_id),
            answers=answers,
            judged=judged,
            scored=torch.zeros_like(judged),
            mask_id=self.mask_id,
        )
