"""Selected log-probabilities and entropies block by block, with their exact gradient; see `token_statistics`."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from llm_rl.core._checks import promote

LOWEST = -1e30
"""Stands for −inf in products with a weight that is 0."""

Scores = Callable[[slice, slice], Tensor]
"""Rows and columns → scores `(n, v)`, float32 or float64, temperature applied."""


class Chunks(NamedTuple):
    """Largest extent of a block: in rows and in columns, the outcomes, ≥ 1 each."""

    rows: int
    columns: int


class FromLogits(torch.autograd.Function):
    """Log-probabilities and entropies, `(M,)` each, from logits `(M, V)` and an index `(M,)`."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, index: Tensor, temperature: float, chunks: Chunks) -> tuple[Tensor, Tensor]:
        """Saves the logits as they came, the index and three numbers a row."""
        scores = _logit_scores(logits, temperature)
        normalizer, logprobs, entropy = _statistics(scores, index, logits.shape[1], chunks)
        ctx.save_for_backward(logits, index, normalizer, entropy)
        ctx.temperature, ctx.chunks = temperature, chunks
        ctx.set_materialize_grads(False)
        return logprobs, entropy

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_logprobs: Tensor | None, grad_entropy: Tensor | None) -> tuple[Tensor | None, ...]:
        """Gradient by the logits, in their dtype."""
        logits, *saved = ctx.saved_tensors
        grad_logits = torch.empty_like(logits)
        scores = _logit_scores(logits, ctx.temperature)
        for rows, columns, grad in _gradients(scores, logits.shape[1], ctx.chunks, saved, grad_logprobs, grad_entropy):
            grad_logits[rows, columns] = grad.div_(ctx.temperature)
        return grad_logits, None, None, None


class FromHidden(torch.autograd.Function):
    """Log-probabilities and entropies from hidden states `(M, D)`, a head `(V, D)` and a bias `(V,)` or None."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, index: Tensor, temperature: float, chunks: Chunks
    ) -> tuple[Tensor, Tensor]:
        """Saves the inputs and three numbers a row."""
        scores = _head_scores(hidden, weight, bias, temperature)
        normalizer, logprobs, entropy = _statistics(scores, index, weight.shape[0], chunks)
        ctx.save_for_backward(hidden, weight, bias, index, normalizer, entropy)
        ctx.temperature, ctx.chunks = temperature, chunks
        ctx.set_materialize_grads(False)
        return logprobs, entropy

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_logprobs: Tensor | None, grad_entropy: Tensor | None) -> tuple[Tensor | None, ...]:
        """Gradients by hidden states, weight and bias, added up in float32 or wider."""
        hidden, weight, bias, *saved = ctx.saved_tensors
        wide = promote(hidden[:0]).dtype
        by_hidden, by_weight, by_bias = (
            torch.zeros_like(tensor, dtype=wide) if needed else None
            for tensor, needed in zip((hidden, weight, bias), ctx.needs_input_grad, strict=False)
        )
        scores = _head_scores(hidden, weight, bias, ctx.temperature)
        for rows, columns, grad in _gradients(scores, weight.shape[0], ctx.chunks, saved, grad_logprobs, grad_entropy):
            grad.div_(ctx.temperature)
            if by_bias is not None:
                by_bias[columns] += grad.sum(0)
            grad = grad.to(weight.dtype)
            with torch.autocast(grad.device.type, enabled=False):
                if by_hidden is not None:
                    by_hidden[rows] += grad @ weight[columns]
                if by_weight is not None:
                    by_weight[columns] += grad.T @ hidden[rows]
        pairs = ((by_hidden, hidden), (by_weight, weight), (by_bias, bias))
        return *(None if grad is None else grad.to(tensor.dtype) for grad, tensor in pairs), None, None, None


def _logit_scores(logits: Tensor, temperature: float) -> Scores:
    return lambda rows, columns: promote(logits[rows, columns]) / temperature


def _head_scores(hidden: Tensor, weight: Tensor, bias: Tensor | None, temperature: float) -> Scores:
    def scores(rows: slice, columns: slice) -> Tensor:
        with torch.autocast(hidden.device.type, enabled=False):
            block_bias = None if bias is None else bias[columns]
            return promote(torch.nn.functional.linear(hidden[rows], weight[columns], block_bias)) / temperature

    return scores


def _statistics(scores: Scores, index: Tensor, vocabulary: int, chunks: Chunks) -> tuple[Tensor, ...]:
    """Normalizer `(M, 2)` (maximum and logarithm of the sum), log-probability and entropy, `(M,)` each."""
    results = []
    for rows in _blocks(index.shape[0], chunks.rows):
        running = _RunningSoftmax(index[rows])
        for columns in _blocks(vocabulary, chunks.columns):
            running.add(scores(rows, columns), columns)
        results.append(running.result())
    return tuple(torch.cat(parts) for parts in zip(*results, strict=True))


def _gradients(
    scores: Scores,
    vocabulary: int,
    chunks: Chunks,
    saved: list[Tensor],
    grad_logprobs: Tensor | None,
    grad_entropy: Tensor | None,
) -> Iterator[tuple[slice, slice, Tensor]]:
    """Each block with the gradient by its scores."""
    index, normalizer, entropy = saved
    for rows in _blocks(index.shape[0], chunks.rows):
        for columns in _blocks(vocabulary, chunks.columns):
            grad = _grad_scores(
                scores(rows, columns),
                columns,
                index[rows],
                normalizer[rows],
                entropy[rows],
                None if grad_logprobs is None else grad_logprobs[rows],
                None if grad_entropy is None else grad_entropy[rows],
            )
            yield rows, columns, grad


class _RunningSoftmax:
    """Σ e^(x−m) and Σ e^(x−m)(x−m) under a running maximum m, over the blocks of the vocabulary."""

    def __init__(self, index: Tensor) -> None:
        self.index = index
        self.maximum: Tensor | None = None

    def add(self, scores: Tensor, columns: slice) -> None:
        """Takes in `scores` `(n, v)`, the outcomes `columns` of the vocabulary."""
        if self.maximum is None:
            lowest = torch.finfo(scores.dtype).min
            self.maximum = scores.new_full(scores.shape[:1], lowest)
            self.chosen = torch.zeros_like(self.maximum)
            self.total = torch.zeros_like(self.maximum)
            self.moment = torch.zeros_like(self.maximum)
        # Under a higher maximum what was added up shrinks, and the moment moves along.
        maximum = torch.maximum(self.maximum, scores.amax(-1))
        drop = (self.maximum - maximum).clamp(min=LOWEST)
        shifted = scores - maximum.unsqueeze(-1)
        weights = shifted.exp()
        shrink = drop.exp()
        self.moment = shrink * (self.moment + drop * self.total)
        self.moment += (weights * shifted.clamp(min=LOWEST)).sum(-1)
        self.total = shrink * self.total + weights.sum(-1)
        self.maximum = maximum
        local, here = _local(self.index, columns)
        self.chosen = torch.where(here, scores.gather(-1, local).squeeze(-1), self.chosen)

    def result(self) -> tuple[Tensor, Tensor, Tensor]:
        """Log-normalizer, log-probability of the chosen outcome, entropy: each `(n,)`."""
        assert self.maximum is not None
        log_total = self.total.log()
        logprobs = (self.chosen - self.maximum) - log_total
        return torch.stack([self.maximum, log_total], -1), logprobs, log_total - self.moment / self.total


def _grad_scores(
    scores: Tensor,
    columns: slice,
    index: Tensor,
    normalizer: Tensor,
    entropy: Tensor,
    grad_logprobs: Tensor | None,
    grad_entropy: Tensor | None,
) -> Tensor:
    """Gradient by the scores: g_logp (1[chosen] − p) − g_H p (log p + H)."""
    logp = (scores - normalizer[:, :1]) - normalizer[:, 1:]
    grad = logp.exp()
    slope = torch.zeros_like(normalizer[:, :1]) if grad_logprobs is None else -grad_logprobs.unsqueeze(-1)
    if grad_entropy is not None:
        slope = slope - grad_entropy.unsqueeze(-1) * (logp.clamp(min=LOWEST) + entropy.unsqueeze(-1))
    grad *= slope
    if grad_logprobs is not None:
        local, here = _local(index, columns)
        grad.scatter_add_(-1, local, (grad_logprobs * here).unsqueeze(-1))
    return grad


def _local(index: Tensor, columns: slice) -> tuple[Tensor, Tensor]:
    """Index `(n, 1)` within a block of the vocabulary, clamped into it, and bool `(n,)`: whether it lies there."""
    here = (index >= columns.start) & (index < columns.stop)
    return (index - columns.start).clamp(0, columns.stop - columns.start - 1).unsqueeze(-1), here


def _blocks(size: int, chunk: int) -> Iterator[slice]:
    return (slice(start, min(start + chunk, size)) for start in range(0, size, chunk))
