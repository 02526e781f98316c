"""What the objectives have in common: completions, their masked copies, and the clipped surrogate of an estimate.

An estimate of log π(completion) is made of masked copies of it: in copy m of row b the positions `masked[b, m]` hold
the mask token, and the model says log p of the completion's own token at every position of the copy. What an objective
adds is which positions are masked, which of those log-probabilities are taken (`scored`), and with what weight.

    copies = objective.copies(completions, generator)            # once an update: old and reference see the same ones
    new, old = (log p of completions.tokens, given copies.inputs(completions, mask_id), for each policy)  # (B, M, L)
    loss = objective.loss(new, copies, objective.advantages(rewards), old, reference)

Tensors have B rows (P prompts of G completions each, one prompt's after another), M copies and L positions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import torch
from torch import Tensor

from llm_rl.core import ClipConfig, KLEstimator, Reduction, aggregate, approx_kl, clipped_surrogate
from llm_rl.core._options import option


@dataclass(frozen=True, eq=False)
class Completions:
    """Sampled completions with their prompts.

    Attributes:
        tokens: int64 `(B, L)`, prompt and completion.
        completed: bool `(B, L)`, the positions that the sampler filled, one or more a row.
        counted: bool `(B, L)`, those of them that count: up to the end of the text.
        steps: int64 `(B, L)`, ≥ 0 where `completed`: the pass of the sampler that filled a position.

    Raises:
        ValueError: Shapes or types differ, a row has nothing that counts, or something counts that was not sampled.
    """

    tokens: Tensor
    completed: Tensor
    counted: Tensor
    steps: Tensor

    def __post_init__(self) -> None:
        for name in ("completed", "counted", "steps"):
            value, dtype = getattr(self, name), torch.int64 if name == "steps" else torch.bool
            if value.shape != self.tokens.shape or value.dtype != dtype:
                raise ValueError(
                    f"{name} is {value.dtype} {tuple(value.shape)}; give {dtype} {tuple(self.tokens.shape)}, as tokens"
                )
        if bool((self.counted & ~self.completed).any()):
            raise ValueError("counted holds positions outside completed; pass counted & completed")
        if not bool(self.counted.any(1).all()):
            raise ValueError(f"row {int((~self.counted.any(1)).nonzero()[0])} has no position that counts; drop it")

    def of(self, rows: Tensor) -> "Completions":
        """Some of them, int64 `(N,)`."""
        return Completions(self.tokens[rows], self.completed[rows], self.counted[rows], self.steps[rows])

    @property
    def ranks(self) -> Tensor:
        """int64 `(B, L)`, how many completed positions lie before each."""
        return self.completed.cumsum(1) - self.completed.long()

    def rows(self) -> list[Tensor]:
        """The completed positions of each row, int64 `(T_b,)`."""
        return [row.nonzero().squeeze(1) for row in self.completed]


class Copies(NamedTuple):
    """Masked copies of completions.

    Attributes:
        masked: bool `(B, M, L)`, where a copy holds the mask token.
        scored: bool `(B, M, L)`, where the log-probability of the completion's token is taken.
        weights: `(B, M, L)` of a floating type, the weight with which it enters the estimate.
        counted: bool `(B, L)`, the positions that count, as in the completions.
    """

    masked: Tensor
    scored: Tensor
    weights: Tensor
    counted: Tensor

    def of(self, rows: Tensor) -> "Copies":
        """Those of some rows, int64 `(N,)`."""
        return Copies(*(field[rows] for field in self))

    def inputs(self, completions: Completions, mask_id: int) -> Tensor:
        """int64 `(B, M, L)`, what the model is given."""
        return completions.tokens.unsqueeze(1).masked_fill(self.masked, mask_id)

    def token_estimates(self, logprobs: Tensor) -> Tensor:
        """Σ_m weight · log p, `(B, L)`, for log-probabilities `(B, M, L)`."""
        return (logprobs.masked_fill(~self.scored, 0.0) * self.weights).sum(1)


class Objective(Protocol):
    """An objective of the field.

    Attributes:
        paper: Its arXiv number.
        drawn: Whether its copies are drawn at random, from the positions of the completion alone; else they are made of
            the passes of the sampler, and nothing is drawn.
    """

    paper: ClassVar[str]
    drawn: ClassVar[bool]

    def advantages(self, rewards: Tensor) -> Tensor:
        """What it makes of rewards `(P, G)`, `(P, G)`."""
        ...

    def copies(self, completions: Completions, generator: torch.Generator) -> Copies:
        """The masked copies that it asks the model about, drawn in the order of the published code."""
        ...

    def loss(
        self, logprobs: Tensor, copies: Copies, advantages: Tensor, old: Tensor | None = None, ref: Tensor | None = None
    ) -> Tensor:
        """The loss, to be minimized.

        Args:
            logprobs: `(B, M, L)`, log p of the completions' tokens at each position of each copy.
            copies: Those that `copies` made.
            advantages: `(P, G)` with P · G = B, without gradient.
            old: `(B, M, L)`, those of the policy that sampled. None: `logprobs`, so that every ratio is 1.
            ref: `(B, M, L)`, those of the reference. None: no divergence from it.

        Returns:
            Scalar of the type of `logprobs`, or float32 if that is wider.
        """
        ...


@dataclass(kw_only=True)
class Surrogate(ClipConfig):
    """The clipped surrogate with a divergence from a reference, which most of the objectives share."""

    kl_weight: float = option(0.04, "Weight of the divergence from the reference.")
    estimator: ClassVar[KLEstimator] = "k3"

    def values(
        self,
        logprobs: Tensor,
        old: Tensor | None,
        reference: Tensor | None,
        advantages: Tensor,
        estimate: Callable[[Tensor], Tensor] = lambda logprobs: logprobs,
    ) -> Tensor:
        """min(R·A, clip(R)·A) − kl_weight · KL, for each entry of an estimate of log π.

        Log-ratios are clamped to ±20, which no published code does.

        Args:
            logprobs: `(B, M, L)`.
            old: The same under the policy that sampled; None: `logprobs`.
            reference: The same under the reference; None: no divergence.
            advantages: Broadcastable to the estimate.
            estimate: Makes log π of the three.
        """
        new = estimate(logprobs)
        sampled = new.detach() if old is None else estimate(old)
        objective = clipped_surrogate(new, sampled, advantages, self.clip_low, self.clip_high).objective
        if reference is None:
            return objective
        return objective - self.kl_weight * approx_kl(new, estimate(reference), estimator=self.estimator)


@dataclass(kw_only=True)
class TokenSurrogate(Surrogate):
    """The surrogate of an estimate for each token, for a mean over tokens."""

    reduction: Reduction = option("seq_mean_token_mean", "Normalizer of the sum over tokens.")

    def loss(
        self, logprobs: Tensor, copies: Copies, advantages: Tensor, old: Tensor | None = None, ref: Tensor | None = None
    ) -> Tensor:
        """See `Objective.loss`."""
        values = self.values(logprobs, old, ref, advantages.reshape(-1, 1), copies.token_estimates)
        return -aggregate(values, copies.counted, self.reduction)


def whole_copy(completions: Completions, prompt_rate: float, generator: torch.Generator) -> Copies:
    """One copy: the whole completion masked, and each token of the prompt with probability `prompt_rate`."""
    drawn = torch.rand(completions.tokens.shape, generator=generator)
    masked = completions.completed | (drawn < prompt_rate)
    scored = completions.counted.unsqueeze(1)
    return Copies(masked.unsqueeze(1), scored, torch.ones(scored.shape), completions.counted)


def trajectory_copies(completions: Completions, steps: Tensor, shrink: int = 1) -> Copies:
    """The states that the sampler passed through, each scored at the positions that it filled next.

    Args:
        completions: The completions.
        steps: int64 `(B, L)`, when a completed position was filled; equal numbers make one state.
        shrink: So many states in a row are made one, ≥ 1.

    Returns:
        As many copies as the longest trajectory has states; behind the end of a shorter one nothing is scored.
    """
    if shrink < 1:
        raise ValueError(f"shrink is {shrink}; so many states are made one, give 1 or more")
    order = torch.full_like(steps, -1)
    for row, filled in enumerate(completions.rows()):
        order[row, filled] = torch.unique(steps[row, filled], return_inverse=True)[1] // shrink
    state = torch.arange(int(order.max()) + 1).unsqueeze(1)  # (M, 1)
    scored = (order.unsqueeze(1) == state) & completions.counted.unsqueeze(1)
    return Copies(order.unsqueeze(1) >= state, scored, torch.ones(scored.shape), completions.counted)
