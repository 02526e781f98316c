"""`scripts/sudoku/masks.py`: which cells are masked."""

from pathlib import Path

import pytest
import torch

from dllm_rl import LladaForMaskedLM, SudokuTask, load
from dllm_rl.sft import SftDataset, collate
from scripts.sudoku.masks import left_open, top_ratios
from sudoku_dllm.answers import shortest_answer
from sudoku_env import build_prompt, generate

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def start() -> LladaForMaskedLM:
    return load(ROOT / "data" / "base9x9")[0].float()


@pytest.fixture(scope="module")
def batch() -> dict[str, torch.Tensor]:
    _, tokenizer = load(ROOT / "data" / "base9x9")
    boards = generate(6, size=9, clues=(22, 30), rule=None, seed=77).boards
    puzzles = [shortest_answer(tokenizer, build_prompt(board, "compact"), 9) for board in boards]
    rows = SftDataset(SudokuTask(tokenizer.pad_token_id, tokenizer.eos_token_id).batch(puzzles))
    return collate([rows[number] for number in range(len(rows))])


def test_ratios_are_one_in_each_part_of_their_interval() -> None:
    for _ in range(20):
        ratios = top_ratios(16).flatten().sort().values
        assert ratios.amin() >= 0.5 and ratios.amax() < 1
        assert (ratios.diff() - (1 - 1e-3) / 32).abs().max() < 1e-5


def test_what_is_left_open_is_what_the_model_is_least_sure_of(start, batch) -> None:
    inputs, maskable = batch["input_ids"].long(), batch["maskable"]
    mask_id = start.config.mask_token_id
    with torch.no_grad():
        best = start(input_ids=inputs.masked_fill(maskable, mask_id), logits_mask=maskable).logits.softmax(-1).amax(-1)
    sure = torch.zeros(inputs.shape).masked_scatter(maskable, best)
    for open_ in (0, 1, 20):
        left = left_open(start, inputs, maskable, torch.full((len(inputs),), open_), mask_id)
        assert (left.sum(1) == open_).all() and not (left & ~maskable).any()
        if open_ == 20:
            assert sure[left].mean() < sure[maskable & ~left].mean()
