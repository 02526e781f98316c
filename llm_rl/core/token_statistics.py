"""Log-probabilities and entropies of chosen tokens without ever holding the logits of all tokens over the vocabulary.

Rows (time) and vocabulary are walked in blocks with a running maximum (the online softmax of arXiv:1805.02867). The
backward pass computes each block again and writes the gradient in closed form, so what is kept between the passes has
the size of the inputs.
"""

from typing import NamedTuple

from torch import Tensor

from llm_rl.core._blockwise import Chunks, FromHidden, FromLogits
from llm_rl.core._checks import check_all, check_count, check_index, check_positive, check_rank

ROW_CHUNK = 1024
VOCAB_CHUNK = 4096


class TokenStatistics(NamedTuple):
    """What is known of each token; both differentiable, float32 (float64 from float64).

    Attributes:
        logprobs: log softmax(logits / temperature) at the token.
        entropy: Entropy of that distribution in nats.
    """

    logprobs: Tensor
    entropy: Tensor


def token_statistics(
    logits: Tensor,
    index: Tensor,
    *,
    temperature: float = 1.0,
    row_chunk: int = ROW_CHUNK,
    vocab_chunk: int = VOCAB_CHUNK,
) -> TokenStatistics:
    """Log-probability of one outcome a row and the row's entropy, from logits that exist already.

    Nothing of the logits' size is kept beside them: no float32 copy, no log-softmax.

    Args:
        logits: `(…, V)`, at least one finite in each row; −inf marks an impossible outcome.
        index: int64 `(…)`, in 0 … V−1.
        temperature: > 0.
        row_chunk: Rows at a time, ≥ 1.
        vocab_chunk: Outcomes at a time, ≥ 1.

    Returns:
        Tensors `(…)`. Second derivatives are not available.

    Raises:
        ValueError: Shapes do not fit, `index` is not int64 or out of range, or a number is out of range.
    """
    check_rank("logits", logits, 1, "(…, V)")
    _check(index, logits, "logits", logits.shape[-1], temperature, row_chunk, vocab_chunk)
    rows = logits.reshape(-1, logits.shape[-1])
    logprobs, entropy = FromLogits.apply(rows, index.reshape(-1), temperature, Chunks(row_chunk, vocab_chunk))
    return TokenStatistics(logprobs.reshape(index.shape), entropy.reshape(index.shape))


def linear_token_statistics(
    hidden_states: Tensor,
    weight: Tensor,
    index: Tensor,
    *,
    bias: Tensor | None = None,
    temperature: float = 1.0,
    row_chunk: int = ROW_CHUNK,
    vocab_chunk: int = VOCAB_CHUNK,
) -> TokenStatistics:
    """`token_statistics(hidden_states @ weightᵀ + bias, index)` with at most one block of logits in memory.

    A block is computed in the dtype of the inputs, as the model's own head would, and then promoted; for a head in
    float32 pass float32 tensors. Autocast does not reach inside.

    Args:
        hidden_states: `(…, D)`, what the output head receives.
        weight: `(V, D)`, the output head, of the dtype of `hidden_states`.
        index: int64 `(…)`, in 0 … V−1.
        bias: `(V,)` of the same dtype. None: none.
        temperature: > 0.
        row_chunk: Rows of a block, ≥ 1.
        vocab_chunk: Outcomes of a block, ≥ 1.

    Returns:
        Tensors `(…)`, differentiable in `hidden_states`, `weight` and `bias`, once.

    Raises:
        ValueError: Shapes or dtypes do not fit, `index` is not int64 or out of range, or a number is out of range.
    """
    check_rank("hidden_states", hidden_states, 1, "(…, D)")
    if weight.ndim != 2 or weight.shape[1] != hidden_states.shape[-1]:
        raise ValueError(
            f"weight has shape {tuple(weight.shape)}; hidden_states of {tuple(hidden_states.shape)} ask for "
            f"(V, {hidden_states.shape[-1]})"
        )
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError(f"bias has shape {tuple(bias.shape)}; weight asks for {tuple(weight.shape[:1])}")
    for name, tensor in (("weight", weight), ("bias", bias)):
        if tensor is not None and tensor.dtype != hidden_states.dtype:
            raise ValueError(
                f"{name} has dtype {tensor.dtype} but hidden_states has {hidden_states.dtype}; cast one of them"
            )
    _check(index, hidden_states, "hidden_states", weight.shape[0], temperature, row_chunk, vocab_chunk)
    rows = hidden_states.reshape(-1, hidden_states.shape[-1])
    logprobs, entropy = FromHidden.apply(
        rows, weight, bias, index.reshape(-1), temperature, Chunks(row_chunk, vocab_chunk)
    )
    return TokenStatistics(logprobs.reshape(index.shape), entropy.reshape(index.shape))


def _check(
    index: Tensor, rows: Tensor, name: str, vocabulary: int, temperature: float, row_chunk: int, vocab_chunk: int
) -> None:
    check_index(index, rows, name)
    check_positive("temperature", temperature)
    for chunk_name, chunk in (("row_chunk", row_chunk), ("vocab_chunk", vocab_chunk)):
        check_count(chunk_name, chunk)
    if index.numel() == 0 or vocabulary == 0:
        raise ValueError(f"{name} has shape {tuple(rows.shape)} and the vocabulary {vocabulary}: there is nothing")
    message = f"index must lie in 0 … {vocabulary - 1} (put any valid id, not -100, where the result is masked later)"
    check_all((index >= 0) & (index < vocabulary), message, index)
