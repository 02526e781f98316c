from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from llm_rl.core import aggregate, aggregate_loss, loss_counts, loss_type_weights
from tests.helpers.warm_process import run_in_two_processes
from tests.llm_rl.core.test_aggregate import MASK, VALUES
from tests.llm_rl.helpers.loss_type_steps import LOSS_TYPES, ROWS, gradients


def longest(loss_type: str) -> int | None:
    return 4 if loss_type == "dr_grpo" else None


@pytest.mark.parametrize(
    ("loss_type", "expected"),
    [
        ("grpo", 12 / 2),  # (2 + 10) / 2: the fully masked row is no sequence
        ("bnpo", 16 / 4),
        ("dapo", 16 / 4),
        ("dr_grpo", 16 / (2 * 4)),  # with L = 4
    ],
)
def test_by_hand(loss_type: str, expected: float) -> None:
    values = VALUES.clone().requires_grad_()
    loss = aggregate_loss(values, MASK, loss_type, max_length=longest(loss_type))  # type: ignore[arg-type]
    assert loss.item() == pytest.approx(expected)
    loss.backward()
    weights = loss_type_weights(MASK, loss_type, max_length=longest(loss_type))  # type: ignore[arg-type]
    assert torch.equal(values.grad, weights)  # type: ignore[arg-type]


def test_where_it_departs_from_the_reductions() -> None:
    with_tokens = VALUES[:2], MASK[:2]
    assert aggregate_loss(*with_tokens, "grpo") == aggregate(*with_tokens, "seq_mean_token_mean")
    assert aggregate_loss(VALUES, MASK, "dapo") == aggregate(VALUES, MASK, "mean")
    assert aggregate_loss(VALUES, MASK, "grpo").item() == pytest.approx(6)
    assert aggregate(VALUES, MASK, "seq_mean_token_mean").item() == pytest.approx(4)


@given(st.integers(0, 2**31), st.sampled_from(LOSS_TYPES), st.lists(st.integers(0, 6), max_size=4))
def test_micro_batches_add_up_to_the_whole(seed: int, loss_type: str, cuts: list[int]) -> None:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(6, 4, generator=generator, dtype=torch.float64)
    mask = torch.rand(6, 4, generator=generator) < 0.4
    parts = [rows.tolist() for rows in torch.tensor_split(torch.randperm(6, generator=generator), sorted(cuts))]
    counts = loss_counts(*(mask[rows] for rows in parts))
    whole = aggregate_loss(values, mask, loss_type, max_length=longest(loss_type))  # type: ignore[arg-type]
    total = sum(
        aggregate_loss(values[rows], mask[rows], loss_type, counts, max_length=longest(loss_type)).item()  # type: ignore[arg-type]
        for rows in parts
    )
    assert total == pytest.approx(whole.item(), abs=1e-12)


@pytest.mark.parametrize("loss_type", LOSS_TYPES)
def test_accumulation_does_not_change_the_gradient(loss_type: str) -> None:
    whole = gradients(loss_type, [list(range(ROWS))])
    cut = gradients(loss_type, [[0, 3], [7], [2, 1, 5, 4, 6]])
    for name, gradient in whole.items():
        assert gradient.abs().max() > 1e-3
        assert (cut[name] - gradient).abs().max() < 1e-12


def test_two_processes_have_the_gradient_of_one(tmp_path: Path) -> None:
    """The rows dealt unevenly to two processes of two micro-batches each, under DistributedDataParallel."""
    script = Path(__file__).parents[1] / "helpers" / "loss_type_steps.py"
    done = run_in_two_processes(script, [tmp_path])
    assert done.returncode == 0, done.stderr[-4000:]
    for loss_type in LOSS_TYPES:
        whole = gradients(loss_type, [list(range(ROWS))])
        for rank in (0, 1):
            dealt = load_file(tmp_path / f"{loss_type}-{rank}.safetensors")
            assert dealt.keys() == whole.keys()
            for name, gradient in whole.items():
                assert (dealt[name] - gradient).abs().max() < 1e-6, (loss_type, name)
