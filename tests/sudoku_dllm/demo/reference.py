"""What Python does with the shipped models, for the page to be held against."""

from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from typing import Any

import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

from dllm_rl import Decoding, SudokuTask
from dllm_rl.decoding.loop import Step, decoding_steps
from dllm_rl.decoding.trajectories import Trajectories
from dllm_rl.sudoku import PuzzleBatch
from sudoku_dllm.answers import shortest_answer
from sudoku_dllm.models import packed_chunks
from sudoku_env import build_prompt, generate, pre_fill, read_prompts, read_puzzles

MODELS = ("llada-sudoku6x6", "llada-sudoku6x6-converged")
NINE = "llada-sudoku9x9"
"""A model without a prompt."""


def load(name: str) -> tuple[Any, Any]:
    return deepcopy(read(f"data/models/{name}"))


@cache
def read(folder: str) -> tuple[Any, Any]:
    return AutoModelForMaskedLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)


def problems(tokenizer: Any, count: int, few: bool = False) -> PuzzleBatch:
    """Puzzles, or 6×6 boards of few clues, on which every solution is right."""
    task = SudokuTask(tokenizer.pad_token_id, tokenizer.eos_token_id)
    if packed_chunks(tokenizer)[0] == 9:
        puzzles = read_puzzles("data/puzzles/sudoku9x9_test.csv", tier="singles").boards[:count]
        return task.batch([shortest_answer(tokenizer, build_prompt(board, "compact"), 9) for board in puzzles])
    if few:
        drawn = generate(count, size=6, clues=(0, 8), answers="any", seed=0).boards
        return task.batch([pre_fill(build_prompt(board, "compact"), tokenizer, 40, answers="any") for board in drawn])
    prompts = read_prompts("data/sudoku6x6_test.jsonl")[:count]
    return task.batch([pre_fill(prompt, tokenizer, 40) for prompt in prompts])


def boards(batch: PuzzleBatch) -> list[list[int]]:
    return batch.boards(batch.responses).tolist()


def python_steps(model: Any, batch: PuzzleBatch, how: Decoding, uniforms: torch.Tensor | None = None) -> list[Step]:
    with torch.no_grad():
        return list(decoding_steps(model, Trajectories(batch), how, uniforms=uniforms))


def of_trajectories(step: Step) -> Iterator[tuple[int, list[list[int]], list[int]]]:
    """Of each trajectory its number, its choices as [position, token], and the definite positions before them."""
    for row, state in zip(step.trajectories.tolist(), step.states.tolist(), strict=True):
        mine = (step.trajectories[step.rows] == row).nonzero().squeeze(1)
        choices = torch.stack([step.positions[mine], step.tokens[mine]], dim=1).tolist()
        yield row, choices, step.definite[state].nonzero().squeeze(1).tolist()
