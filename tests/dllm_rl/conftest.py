import copy

import pytest
import torch
from transformers import PreTrainedTokenizerFast

from dllm_rl.models.llada import LladaForMaskedLM
from dllm_rl.policy import PolicyConfig
from dllm_rl.rollouts import rollout
from dllm_rl.sft import SftDataset, masked_diffusion_loss
from dllm_rl.sudoku import PuzzleBatch, SudokuTask
from scripts.sudoku.small_tokenizer import build_small_tokenizer
from sudoku_env.generator import generate
from sudoku_env.prompts.text import build_prompt
from sudoku_env.prompts.tokens import PreFilled, pre_fill
from tests.dllm_rl.helpers.tiny_llada import make_model

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerFast:
    return build_small_tokenizer(size=4, chunk=2)


@pytest.fixture(scope="session")
def puzzles(tokenizer: PreTrainedTokenizerFast) -> list[PreFilled]:
    """4×4 puzzles of 8 to 11 clues with two positions after the map; prompts of two lengths."""
    boards = generate(6, size=4, clues=(8, 11), rule="singles", seed=3).boards
    templates = ("compact", "short")
    return [
        pre_fill(build_prompt(board, template=templates[index % 2]), tokenizer, 19)
        for index, board in enumerate(boards)
    ]


@pytest.fixture(scope="session")
def fitted(tokenizer: PreTrainedTokenizerFast, puzzles: list[PreFilled]) -> LladaForMaskedLM:
    """A model that has half learned the puzzles by heart, so that some trajectories last and some do not."""
    model = make_model(vocab_size=len(tokenizer), mask_token_id=tokenizer.mask_token_id)
    task = SudokuTask(pad_id=tokenizer.pad_token_id, tail_id=tokenizer.eos_token_id)
    data = SftDataset(task.batch(puzzles))
    probe = PuzzleBatch.collate(puzzles[:3], pad_id=tokenizer.pad_token_id)
    policy = PolicyConfig(position_temperature=0.5, token_temperature=0.8)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    torch.manual_seed(1)
    for step in range(300):
        generator = torch.Generator().manual_seed(0)
        if (
            step % 3 == 0
            and rollout(model, probe, num_generations=24, policy=policy, generator=generator).solved.sum() >= 24
        ):
            return model.eval()
        loss = masked_diffusion_loss(
            model.train(),
            data.input_ids.long().repeat(2, 1),
            data.maskable.repeat(2, 1),
            tokenizer.mask_token_id,
            attention_mask=data.attention_mask.repeat(2, 1),
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    raise AssertionError("the model did not learn a third of its puzzles in 300 steps")


@pytest.fixture
def model(fitted: LladaForMaskedLM) -> LladaForMaskedLM:
    """A copy that a test may change."""
    return copy.deepcopy(fitted)


@pytest.fixture
def batch(puzzles: list[PreFilled], tokenizer: PreTrainedTokenizerFast) -> PuzzleBatch:
    """Three puzzles with prompts of different length, padded on the left."""
    return PuzzleBatch.collate(puzzles[:3], pad_id=tokenizer.pad_token_id)
