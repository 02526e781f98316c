import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from llm_rl.core import entropy_from_logits, linear_token_statistics, selective_log_softmax, token_statistics

INF = math.inf


class LargestTensor(TorchDispatchMode):
    """Notes the number of elements of the largest tensor that any operation makes."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(tensor, torch.Tensor):
                self.elements = max(self.elements, tensor.numel())
        return result


def test_by_hand() -> None:
    # p ∝ 1, 2 at temperature 1 is p = 1/5, 4/5 at temperature 1/2.
    logits = torch.tensor([[0.0, math.log(2.0)], [5.0, -INF]])
    logprobs, entropy = token_statistics(logits, torch.tensor([1, 0]), temperature=0.5, vocab_chunk=1)
    assert logprobs.exp().tolist() == pytest.approx([0.8, 1.0])
    assert entropy.tolist() == pytest.approx([-(0.2 * math.log(0.2) + 0.8 * math.log(0.8)), 0.0])


@settings(max_examples=30)
@given(st.integers(0, 2**31), st.integers(1, 6), st.integers(1, 9), st.integers(1, 7), st.integers(1, 11))
def test_any_blocks_give_the_full_softmax(seed: int, rows: int, vocabulary: int, row_chunk: int, chunk: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = (30 * torch.randn(rows, vocabulary, generator=generator, dtype=torch.float64)).requires_grad_()
    index = torch.randint(vocabulary, (rows,), generator=generator)
    weights = torch.randn(2, rows, generator=generator, dtype=torch.float64)
    blocks = token_statistics(logits, index, temperature=0.7, row_chunk=row_chunk, vocab_chunk=chunk)
    whole = selective_log_softmax(logits, index, temperature=0.7), entropy_from_logits(logits, temperature=0.7)
    for one, other in zip(blocks, whole, strict=True):
        assert torch.allclose(one, other, atol=1e-9)
    gradients = [
        torch.autograd.grad((weights[0] * logprobs + weights[1] * entropy).sum(), logits)[0]
        for logprobs, entropy in (blocks, whole)
    ]
    assert torch.allclose(*gradients, atol=1e-9)


def test_gradients_by_finite_differences() -> None:
    torch.manual_seed(0)
    hidden, weight, bias = (
        torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((5, 3), (7, 3), (7,))
    )
    index = torch.randint(7, (5,))

    def statistics(hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> tuple:
        chunks = {"row_chunk": 2, "vocab_chunk": 3}
        return tuple(linear_token_statistics(hidden, weight, index, bias=bias, temperature=0.7, **chunks))

    assert torch.autograd.gradcheck(statistics, (hidden, weight, bias))
    assert torch.autograd.gradcheck(lambda h: statistics(h, weight.detach(), None)[0], (hidden,))
    assert torch.autograd.gradcheck(lambda w: statistics(hidden.detach(), w, None)[1], (weight,))


def test_from_hidden_states_equals_the_whole() -> None:
    torch.manual_seed(0)
    hidden, weight = torch.randn(2, 6, 4, requires_grad=True), torch.randn(50, 4, requires_grad=True)
    index, mixing = torch.randint(50, (2, 6)), torch.randn(2, 6)
    ours = linear_token_statistics(hidden, weight, index, temperature=0.6, row_chunk=5, vocab_chunk=16).logprobs
    theirs = selective_log_softmax(hidden @ weight.T, index, temperature=0.6)
    assert torch.allclose(ours, theirs, atol=1e-5)
    for one, other in zip(
        *(torch.autograd.grad((mixing * x).sum(), (hidden, weight)) for x in (ours, theirs)), strict=True
    ):
        assert torch.allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("with_entropy", [False, True])
def test_no_pass_ever_makes_more_than_a_block(with_entropy: bool) -> None:
    rows, width, vocabulary = 64, 2, 600
    hidden, weight = torch.randn(rows, width, requires_grad=True), torch.randn(vocabulary, width, requires_grad=True)
    index = torch.randint(vocabulary, (rows,))
    with LargestTensor() as largest:
        logprobs, entropy = linear_token_statistics(hidden, weight, index, row_chunk=16, vocab_chunk=128)
        (logprobs + entropy if with_entropy else logprobs).sum().backward()
    assert largest.elements == 16 * 128  # against 64 · 600 logits, and 600 · 2 weights
    assert hidden.grad is not None and weight.grad is not None


def test_what_is_kept_for_the_backward_pass() -> None:
    kept: list[torch.Tensor] = []

    def note(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor)
        return tensor

    logits = torch.randn(64, 600).bfloat16().requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        token_statistics(logits, torch.zeros(64, dtype=torch.int64), row_chunk=16)
    sizes = [tensor.numel() for tensor in kept if tensor.data_ptr() != logits.data_ptr()]
    assert len(kept) == 4  # the logits as they came, the index, the normalizer and the entropy
    assert max(sizes) <= 2 * 64


def test_half_precision_in_float32_out() -> None:
    torch.manual_seed(0)
    hidden, weight = torch.randn(8, 16).bfloat16().requires_grad_(), torch.randn(40, 16).bfloat16().requires_grad_()
    index = torch.randint(40, (8,))
    logprobs, entropy = linear_token_statistics(hidden, weight, index, row_chunk=3, vocab_chunk=40)
    logits = hidden @ weight.T
    assert logprobs.dtype == entropy.dtype == torch.float32
    assert torch.allclose(logprobs, selective_log_softmax(logits, index), atol=1e-5)
    assert torch.equal(token_statistics(logits, index)[0], token_statistics(logits.float(), index)[0])
    gradients = torch.autograd.grad(logprobs.sum(), (hidden, weight))
    exact = torch.autograd.grad(selective_log_softmax(hidden.float() @ weight.float().T, index).sum(), (hidden, weight))
    for one, other in zip(gradients, exact, strict=True):
        assert one.dtype == torch.bfloat16
        assert (one - other).abs().max() < 0.05 * other.abs().max()


def test_autocast_does_not_reach_inside() -> None:
    hidden, weight, index = torch.randn(4, 8, requires_grad=True), torch.randn(9, 8), torch.zeros(4, dtype=torch.int64)
    plain = linear_token_statistics(hidden, weight, index).logprobs
    (expected,) = torch.autograd.grad(plain.sum(), hidden)
    with torch.autocast("cpu", torch.bfloat16):
        cast = linear_token_statistics(hidden, weight, index).logprobs
        (gradient,) = torch.autograd.grad(cast.sum(), hidden)
    assert torch.equal(cast, plain)
    assert torch.equal(gradient, expected)


def test_extreme_logits_stay_finite() -> None:
    logits = torch.tensor([[3e38, -3e38, 0.0], [1e4, 1e4, -INF], [-INF, -1e30, -1e30]], requires_grad=True)
    logprobs, entropy = token_statistics(logits, torch.tensor([0, 1, 2]), vocab_chunk=1)
    assert logprobs.tolist() == pytest.approx([0.0, -math.log(2), -math.log(2)])
    assert entropy.tolist() == pytest.approx([0.0, math.log(2), math.log(2)])
    (logprobs + entropy).sum().backward()
    assert torch.isfinite(logits.grad).all()
