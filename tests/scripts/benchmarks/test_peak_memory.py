"""The measure of memory counts every byte, and the lean update's peak depends on neither K, G nor Q."""

import pytest
import torch
from torch import Tensor

from dllm_rl.decoding import Decoding
from dllm_rl.decoding.rollouts import Rollout, rollout
from dllm_rl.policy import PolicyConfig
from dllm_rl.terms.objective import ObjectiveConfig
from dllm_rl.training.update import objective_pass
from scripts.benchmarks.naive_update import naive_pass
from scripts.benchmarks.work import peak_of_update, peak_tensor_bytes
from sudoku_env.generator import generate
from sudoku_env.prompts.text import build_prompt
from sudoku_env.prompts.tokens import pre_fill
from tests.dllm_rl.helpers.tiny_training import sudoku_task, tokenizer, warm_model

torch.set_num_threads(1)
KIB = 2**10


def test_the_peak_is_of_what_lives_at_once_and_did_not_before() -> None:
    before = [torch.zeros(64 * KIB)]

    def work() -> None:
        first = torch.zeros(KIB)  # 4 KiB
        second = torch.zeros(3 * KIB)  # 16 KiB together
        del first
        before.clear()  # counts 0, not less
        third = torch.zeros(2 * KIB)  # 20 KiB
        del second, third
        torch.zeros(4 * KIB)  # 16 KiB

    assert peak_tensor_bytes(work) == 20 * KIB


def test_temporaries_inside_operators_count() -> None:
    values = torch.zeros(KIB)
    assert peak_tensor_bytes(lambda: values.sort()) >= (4 + 8) * KIB


def test_work_that_allocates_nothing_is_refused() -> None:
    with pytest.raises(RuntimeError, match="allocated no CPU tensor"):
        peak_tensor_bytes(lambda: None)


def test_gradients_that_the_first_update_makes_do_not_count() -> None:
    model = torch.nn.Linear(1000, 500, bias=False)

    def update() -> None:
        model(torch.ones(1, 1000)).sum().backward()

    table = 4 * 1000 * 500
    assert table <= peak_of_update(model, update) < 1.01 * table  # this update's, not the kept sum


def played(puzzles: int, num_generations: int, clues: int) -> Rollout:
    """A roll-out of 4×4 puzzles with K = 16 - clues + 1."""
    boards = generate(puzzles, size=4, clues=(clues, clues), rule="singles", seed=1).boards
    prompts = [pre_fill(build_prompt(board, "compact"), tokenizer(), 1 + 16 + 1) for board in boards]
    how = Decoding("policy", policy=PolicyConfig(position_temperature=1.0), on_error="end")
    torch.manual_seed(3)
    return rollout(warm_model(), sudoku_task().batch(prompts), how, num_generations=num_generations)


def test_masked_positions_are_counted_without_looking_at_the_states() -> None:
    record = played(puzzles=4, num_generations=4, clues=8)
    assert torch.equal(record.masked, (record.responses == record.problems.layout.mask_id).sum(1))


def peaks(record: Rollout) -> tuple[int, int]:
    """Bytes of the naive and of the lean update; a lean pass holds 4 sequences and 12 masked positions."""
    model, lean = warm_model(), {"max_tokens": 4 * record.problems.length, "max_masked": 12}

    def backward(first: Tensor, second: Tensor) -> None:
        (first + second).backward()

    return (
        peak_of_update(model, lambda: naive_pass(model, record, backward, config=ObjectiveConfig())),
        peak_of_update(model, lambda: objective_pass(model, record, backward, config=ObjectiveConfig(), **lean)),
    )


def test_the_lean_peak_stays_where_it_is_when_g_k_or_q_is_four_times_as_large() -> None:
    """The smallest roll-out fills a pass: 4 states at the start with 3 masked positions each."""
    small = played(puzzles=4, num_generations=2, clues=14)
    naive, lean = peaks(small)
    larger = {"G": played(4, 8, 14), "K": played(4, 2, clues=5), "Q": played(16, 2, 14)}
    assert [record.decisions[0].item() for record in (small, *larger.values())] == [3, 3, 12, 3]
    for name, record in larger.items():
        naive_larger, lean_larger = peaks(record)
        assert lean_larger < 1.03 * lean, name
        if name != "K":  # a naive step costs the same; there are more of them
            assert naive_larger > 3 * naive, name
