"""Random numbers of roll-outs and draws from them.

A training roll-out must not depend on how its puzzles are split into passes or dealt to processes. So the uniforms of
a puzzle are a function of the seed, the optimizer step and the puzzle's number in the global batch alone, and a draw is
the inverse of a cumulative distribution at a uniform: the same one whatever else is drawn beside it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from llm_rl.core._checks import check_all

MOST_AT_ONCE = 2**24
"""Rows times tokens of the vocabulary that are drawn from at once, at 76 bytes each: 1.3 GB."""


def puzzle_noise(seed: int, step: int, numbers: Sequence[int], num_generations: int, decisions: int) -> Tensor:
    """Uniforms for the decisions of a roll-out, made on the CPU so that devices agree.

    Each puzzle has a Philox stream (Salmon et al. 2011) of its own: its uniforms do not depend on the other puzzles.

    Args:
        seed: Random seed of the training, 0 or greater.
        step: Optimizer steps before the roll-out.
        numbers: Q numbers of the puzzles in the global batch.
        num_generations: G, trajectories for each puzzle.
        decisions: C, the most choices of a trajectory.

    Returns:
        float64 `(T, C, 2)` in [0, 1): for the position and for the token of each choice.

    Raises:
        ValueError: A seed, step or number is negative.
    """
    parts = []
    for number in numbers:
        if min(seed, step, number) < 0:
            raise ValueError(f"seed={seed}, step={step} and puzzle number {number} must be 0 or greater")
        source = np.random.Generator(np.random.Philox(np.random.SeedSequence((seed, step, number))))
        # Choice by choice: whoever asks for more gets the same ones first.
        parts.append(source.random((decisions, num_generations, 2)).transpose(1, 0, 2))
    return torch.from_numpy(np.concatenate(parts))


@dataclass(frozen=True)
class StateNoise:
    """Uniforms of an update for the states of a roll-out, made on the CPU so that devices agree.

    Those of a state are a function of the key, its problem's number in the global batch and its place among the
    problem's states alone, however problems are dealt to processes, micro-batches and passes.

    Attributes:
        key: Whole numbers, 0 or greater, such as the seed and the optimizer step.
        first: The number of the roll-out's first problem in the global batch.
    """

    key: tuple[int, ...]
    first: int = 0

    @classmethod
    def drawn(cls, generator: torch.Generator | None = None) -> "StateNoise":
        """With a key that is drawn, by default from torch's global generator."""
        device = None if generator is None else generator.device
        return cls((int(torch.randint(2**62, (), generator=generator, device=device)),))

    def of_states(self, problem_of: Tensor, use: int, shape: tuple[int, ...] = ()) -> Tensor:
        """Uniforms for S states, float64 `(S, *shape)` in [0, 1) on their device.

        Args:
            problem_of: int64 `(S,)`, the problem of each state of the roll-out; a problem's states keep their order.
            use: What they are for; other uses have others.
            shape: How many a state needs.
        """
        # Made problem by problem, then put where the problem's states stand among all.
        problems = problem_of.cpu()
        counts = problems.bincount().tolist()
        parts = [self.source(use, self.first + row).random((count, *shape)) for row, count in enumerate(counts)]
        by_problem = torch.from_numpy(np.concatenate(parts) if parts else np.empty((0, *shape)))
        found = torch.empty_like(by_problem)
        found[problems.argsort(stable=True)] = by_problem
        return found.to(problem_of.device)

    def source(self, use: int, number: int = 0) -> np.random.Generator:
        """A stream for a use, of a problem by its number in the global batch."""
        key = (*self.key, number, 0, 1 + use)  # longer than the keys of `puzzle_noise`
        return np.random.Generator(np.random.Philox(np.random.SeedSequence(key)))


def fresh_uniforms(shape: tuple[int, ...], generator: torch.Generator | None, device: torch.device) -> Tensor:
    """Uniforms on a device, float64 in [0, 1); the generator may be on another, None is torch's global one."""
    source = device if generator is None else generator.device
    return torch.rand(shape, dtype=torch.float64, generator=generator, device=source).to(device)


def inverse_cdf(log_weights: Tensor, uniforms: Tensor) -> Tensor:
    """The index at which each row's cumulative distribution first exceeds its uniform.

    Cumulative sums are float64, which is exact enough for a vocabulary of any size.

    Args:
        log_weights: `(A, C)`, unnormalized, -inf where impossible.
        uniforms: float64 `(A,)` in [0, 1).

    Returns:
        int64 `(A,)`.

    Raises:
        ValueError: A row has no possible index, or holds NaN or +inf.
    """
    possible, cumulative, last = _cumulative(log_weights)
    # Rounding may leave the sum below the uniform: the last possible index is then the one, never one of probability 0.
    exceeds = possible & (cumulative > uniforms[:, None] * cumulative[:, -1:])
    return exceeds.scatter(1, last[:, None], True).byte().argmax(-1)


def inverse_cdf_of(logits: Tensor, rows: Tensor, uniforms: Tensor, temperature: float = 1.0) -> Tensor:
    """What `inverse_cdf(logits[rows] / temperature, uniforms)` returns, with few rows of a large vocabulary at once."""
    parts = (each.split(max(MOST_AT_ONCE // logits.shape[1], 1)) for each in (rows, uniforms))
    return torch.cat([inverse_cdf(logits[some] / temperature, of_them) for some, of_them in zip(*parts, strict=True)])


def inverse_cdf_at(log_weights: Tensor, rows: Tensor, uniforms: Tensor) -> Tensor:
    """What `inverse_cdf(log_weights[rows], uniforms)` returns, with each row's distribution summed up once.

    It is for many draws from few rows. Sums lie one behind the other, row r's in (r, r + 1], so that their precision
    is that of the number of rows; where a uniform is nearer than that to a sum, its neighbor may be drawn.

    Args:
        log_weights: `(M, V)`, unnormalized, -inf where impossible.
        rows: int64 `(B,)`, the row of each draw.
        uniforms: float64 `(B,)` in [0, 1).

    Returns:
        int64 `(B,)`.

    Raises:
        ValueError: A row has no possible index, or holds NaN or +inf.
    """
    _, cumulative, last = _cumulative(log_weights)
    columns, offset = cumulative.shape[1], torch.arange(len(cumulative), device=rows.device, dtype=cumulative.dtype)
    flat = (cumulative + offset[:, None]).flatten().cummax(0).values  # never falls, whatever the rounding
    place = torch.searchsorted(flat, offset[rows] + uniforms * cumulative[rows, -1], right=True)
    return torch.minimum(place - rows * columns, last[rows])


def _cumulative(log_weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Which indices are possible, bool `(A, C)`, sums of probabilities, float64 `(A, C)`, and last possible ones."""
    weights = torch.softmax(log_weights.double(), dim=-1)
    possible = weights > 0
    message = "a row of log-weights has no finite entry, or holds NaN or +inf, so nothing can be drawn"
    check_all(possible.any(-1), message)
    return possible, weights.cumsum(-1), possible.shape[1] - 1 - possible.flip(-1).byte().argmax(-1)
