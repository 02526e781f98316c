import copy
import os
from itertools import cycle

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerFast

from dllm_rl.decoding import Decoding, decode
from dllm_rl.decoding.rollouts import Rollout, rollout
from dllm_rl.models.llada import LladaForMaskedLM
from dllm_rl.sft import SftDataset, masked_diffusion_loss
from dllm_rl.sudoku import PuzzleBatch, SudokuTask
from scripts.shared.small_tokenizer import build_small_tokenizer
from sudoku_env.generator import generate
from sudoku_env.logic import definite_cells
from sudoku_env.prompts.text import build_prompt
from sudoku_env.prompts.tokens import PreFilled, pre_fill
from tests.dllm_rl.helpers.tiny_llada import make_model
from tests.dllm_rl.helpers.tiny_training import recorded
from tests.dllm_rl.helpers.update_checks import DRAWN
from tests.helpers.drawn import first_with

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerFast:
    return build_small_tokenizer(size=4, chunk=2)


@pytest.fixture(scope="session")
def puzzles(tokenizer: PreTrainedTokenizerFast) -> list[PreFilled]:
    """4×4 puzzles of 8 to 11 clues with two positions after the map; prompts of two lengths.

    The blanks of the first three are both odd and even in number; not all are singles, nor all singles naked singles.
    """

    def varied(boards: NDArray[np.uint8]) -> bool:
        first, blanks = boards[:3], (boards[:3] == 0).sum(1)
        naked, singles = ((definite_cells(first, rule) > 0).sum() for rule in ("naked_single", "singles"))
        return len({*(blanks % 2).tolist()}) == 2 and bool(naked < singles < blanks.sum())

    def draw(seed: int) -> NDArray[np.uint8]:
        return generate(6, size=4, clues=(8, 11), rule="singles", seed=seed).boards

    boards = first_with(varied, draw, seed=3)
    return [pre_fill(prompt, tokenizer, 19) for prompt in map(build_prompt, boards, cycle(("compact", "short")))]


@pytest.fixture(scope="session")
def fitted(tokenizer: PreTrainedTokenizerFast, puzzles: list[PreFilled]) -> LladaForMaskedLM:
    """A model that has half learned the puzzles by heart: of its trajectories some last and some do not.

    Greedily, by one token a pass and by three, it decodes some of the puzzles, and errs early in others. It learns in
    float32 and computes in float64: what a test compares with its reference, choices included, is then the same to the
    last digits that count.
    """
    model = make_model(vocab_size=len(tokenizer), mask_token_id=tokenizer.mask_token_id)
    problems = SudokuTask(pad_id=tokenizer.pad_token_id, tail_id=tokenizer.eos_token_id).batch(puzzles)
    data = SftDataset(problems)
    twice = [each.repeat(2, 1) for each in (data.input_ids.long(), data.maskable, data.attention_mask)]
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    torch.manual_seed(1)
    for step in range(300):
        if step % 3 == 0 and half_learned(model, problems):
            return model.double().eval()
        loss = masked_diffusion_loss(model.train(), *twice[:2], tokenizer.mask_token_id, attention_mask=twice[2])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    raise AssertionError("the model did not learn a third of its puzzles in 300 steps")


def half_learned(model: LladaForMaskedLM, problems: PuzzleBatch) -> bool:
    """Whether a third of the trajectories of three puzzles solve them, and greedy decodes both solve and err early."""
    probe, generator = problems.select(torch.arange(3)), torch.Generator().manual_seed(0)
    if int(rollout(model, probe, DRAWN, num_generations=24, generator=generator).solved.sum()) < 24:
        return False
    ways = (("margin", 1), ("margin", 3), ("probability", 1))
    decodes = [decode(model, problems, Decoding(name, tokens_per_step=count)) for name, count in ways]
    left = [record.forward_passes - record.error_step for record in decodes]  # passes from the first error on
    return all(bool((passes == 0).any() and (passes > 1).any()) for passes in left)


@pytest.fixture
def model(fitted: LladaForMaskedLM) -> LladaForMaskedLM:
    """A copy that a test may change."""
    return copy.deepcopy(fitted)


@pytest.fixture
def rollouts(monkeypatch: pytest.MonkeyPatch) -> list[Rollout]:
    """The roll-outs that trainers make during a test."""
    return recorded(monkeypatch, "rollout", lambda args, kwargs, result: result)


@pytest.fixture
def batch(puzzles: list[PreFilled], tokenizer: PreTrainedTokenizerFast) -> PuzzleBatch:
    """Three puzzles with prompts of different length, padded on the left."""
    return PuzzleBatch.collate(puzzles[:3], pad_id=tokenizer.pad_token_id)
