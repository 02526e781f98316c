"""Log-probabilities and entropies from logits: always in log space, always in float32 or wider.

A temperature is applied after the promotion to float32: dividing bfloat16 logits would round them first.
"""

import torch
from torch import Tensor

from llm_rl.core._checks import check_index, check_mask, check_positive, check_rank, promote


def masked_log_softmax(logits: Tensor, mask: Tensor | None = None, *, temperature: float = 1.0) -> Tensor:
    """Log-probabilities, log softmax(logits / temperature), over the outcomes that exist.

    Args:
        logits: `(…, V)`; −inf marks an impossible outcome. Logits outside the mask may hold anything.
        mask: bool `(…, V)`, the outcomes that exist. None: all of them.
        temperature: > 0.

    Returns:
        `(…, V)` float32 (float64 for float64 logits); −inf, with gradient 0, at impossible outcomes. A row without a
        possible outcome is −inf throughout (and not NaN).

    Raises:
        ValueError: The mask does not fit, or the temperature is not positive.
    """
    check_rank("logits", logits, 1, "(…, V)")
    check_positive("temperature", temperature)
    impossible = logits == -torch.inf
    if mask is not None:
        check_mask(mask, "logits", logits)
        impossible = impossible | ~mask
    scores = promote(logits).masked_fill(impossible, -torch.inf) / temperature
    scores = scores.masked_fill(impossible.all(-1, keepdim=True), 0.0)
    return scores.log_softmax(-1).masked_fill(impossible, -torch.inf)


def entropy_from_logits(logits: Tensor, mask: Tensor | None = None, *, temperature: float = 1.0) -> Tensor:
    """Entropy of softmax(logits / temperature) in nats, −Σ p log p.

    Arguments and errors are those of `masked_log_softmax`.

    Returns:
        `(…)` float32 (float64 for float64 logits). A row without a possible outcome has 0: leave it out of averages.
    """
    logprobs = masked_log_softmax(logits, mask, temperature=temperature)
    return -(logprobs.exp() * logprobs.masked_fill(logprobs == -torch.inf, 0.0)).sum(-1)


def selective_log_softmax(logits: Tensor, index: Tensor, *, temperature: float = 1.0) -> Tensor:
    """Log-probability of one outcome a row, log softmax(logits / temperature)[index].

    Args:
        logits: `(…, V)`, at least one finite in each row; −inf marks an impossible outcome.
        index: int64 `(…)`, in 0 … V−1 (no −100: put any valid index where the result is masked later).
        temperature: > 0.

    Returns:
        `(…)` float32 (float64 for float64 logits).

    Raises:
        ValueError: Shapes do not fit, `index` is not int64, or the temperature is not positive.
    """
    check_rank("logits", logits, 1, "(…, V)")
    check_index(index, logits, "logits")
    check_positive("temperature", temperature)
    scores = promote(logits) / temperature
    return scores.gather(-1, index.unsqueeze(-1)).squeeze(-1) - scores.logsumexp(-1)


def next_token_logprobs(logits: Tensor, input_ids: Tensor, *, temperature: float = 1.0) -> Tensor:
    """Log-probability of every token but the first, given those before it, from an autoregressive model's logits.

    Args:
        logits: `(B, T, V)`; position t predicts token t+1.
        input_ids: int64 `(B, T)`, T ≥ 2, the tokens that the logits were computed from.
        temperature: > 0.

    Returns:
        `(B, T−1)` float32 (float64 for float64 logits): entry t belongs to token t+1. A mask over tokens pairs with
        it as `mask[:, 1:]`.

    Raises:
        ValueError: For the reasons of `selective_log_softmax`, or there are fewer than two tokens.
    """
    if logits.ndim != 3:
        raise ValueError(f"logits has shape {tuple(logits.shape)}; expected (B, T, V)")
    check_index(input_ids, logits, "logits")
    if input_ids.shape[1] < 2:
        raise ValueError(f"input_ids has shape {tuple(input_ids.shape)}; the next token needs at least two tokens")
    return selective_log_softmax(logits[:, :-1], input_ids[:, 1:], temperature=temperature)
