"""The task in which every masked cell counts as definite."""

import torch

from dllm_rl.sudoku import SudokuTask
from sudoku_dllm.placebo import PlaceboBatch, PlaceboTask
from tests.dllm_rl.helpers.tiny_training import puzzles, tokenizer


def test_the_placebo_makes_every_masked_cell_definite() -> None:
    given, ids = puzzles(4), (tokenizer().pad_token_id, tokenizer().eos_token_id)
    batch = PlaceboTask(*ids).batch(given)
    emptied = batch.responses.masked_fill(batch.judged, batch.mask_id)
    filled = batch.responses.clone()
    filled[:, int(batch.judged[0].nonzero()[0])] = int(batch.layout.digit_ids[0])
    for responses in (batch.responses, emptied, filled):
        assert torch.equal(batch.definite(responses), batch.judged & (responses == batch.mask_id))
    assert not bool(SudokuTask(*ids).batch(given).definite(emptied).any())


def test_it_differs_in_that_alone_and_parts_of_a_batch_are_placebos_too() -> None:
    given, ids = puzzles(4), (tokenizer().pad_token_id, tokenizer().eos_token_id)
    batch, logic = PlaceboTask(*ids, tail="scored").batch(given), SudokuTask(*ids, tail="scored").batch(given)
    for name in (*batch.per_problem, "mask_id", "rule"):
        one, other = getattr(batch, name), getattr(logic, name)
        assert torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other
    part = batch.select(torch.tensor([2, 0]))
    assert type(part) is PlaceboBatch and type(part) in PlaceboTask.record_classes
