"""A 4×4 model and puzzles small enough to train within a test."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedTokenizerFast, TrainerCallback

import dllm_rl.training.trainer
from dllm_rl.models.llada import LladaForMaskedLM
from dllm_rl.sft import SftArguments, SftDataset, SftTrainer, masked_diffusion_loss
from dllm_rl.sudoku import SudokuTask
from dllm_rl.training.arguments import UnmaskArguments
from dllm_rl.training.trainer import UnmaskTrainer
from dllm_rl.training.two_rates import TwoRateOptimizer
from scripts.shared.small_tokenizer import build_small_tokenizer
from scripts.shared.tiny_llada import tiny_llada
from sudoku_env.board import Board
from sudoku_env.generator import generate
from sudoku_env.prompts.text import build_prompt
from sudoku_env.prompts.tokens import PreFilled, pre_fill
from tests.helpers import SHORT

TAIL = 2
TIMES = {"train_runtime", "train_samples_per_second", "train_steps_per_second"}


@cache
def tokenizer() -> PreTrainedTokenizerFast:
    return build_small_tokenizer(4, chunk=1)


@cache
def puzzles(count: int, seed: int = 1, template: str = "compact", answers: str = "one") -> list[PreFilled]:
    boards = generate(count, size=4, clues=(8, 10), rule="singles", seed=seed).boards
    return prefilled(boards, template, answers)


def prefilled(boards: Board, template: str = "compact", answers: str = "one") -> list[PreFilled]:
    return [pre_fill(build_prompt(board, template), tokenizer(), 1 + 16 + TAIL, answers=answers) for board in boards]


def sudoku_task(with_tail: bool = False, **changes: Any) -> SudokuTask:
    """Those puzzles as problems; only with their tail are the tokens after the map known."""
    names = tokenizer()
    return SudokuTask(pad_id=names.pad_token_id, tail_id=names.eos_token_id if with_tail else None, **changes)


def new_model(seed: int = 0) -> LladaForMaskedLM:
    names = tokenizer()
    return tiny_llada(len(names), names.mask_token_id, seed, rope_theta=100.0)


@cache
def _warm_weights() -> dict[str, torch.Tensor]:
    model, names = new_model(), tokenizer()
    data = SftDataset(sudoku_task(with_tail=True).batch(puzzles(64)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(60):
        rows = torch.randint(len(data), (32,))
        loss = masked_diffusion_loss(model, data.input_ids[rows].long(), data.maskable[rows], names.mask_token_id)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.state_dict()


def warm_model() -> LladaForMaskedLM:
    """A model that writes digits, some of them right, so that trajectories of a group differ."""
    model = new_model()
    model.load_state_dict(_warm_weights())
    return model


def arguments(folder: Path, **changes: Any) -> UnmaskArguments:
    chosen: dict[str, Any] = {
        "output_dir": str(folder), "max_steps": 1, "per_device_train_batch_size": 2, "num_generations": 4,
        "position_temperature": 1.0, **SHORT,
    }  # fmt: skip
    return UnmaskArguments(**{**chosen, **changes})


def trainer(
    folder, model=None, *, args=None, data=None, task=None, callbacks=None, count=8, **changes
) -> UnmaskTrainer:
    """Of the warm model on so many puzzles, with a step of two, unless told otherwise."""
    model, args = warm_model() if model is None else model, args or arguments(folder, **changes)
    data = puzzles(count) if data is None else data
    return UnmaskTrainer(model, args, data, task or sudoku_task(), callbacks=callbacks)


def trained(folder: Path, model: Any = None, **changes: Any) -> UnmaskTrainer:
    """A trainer that has ended."""
    run = trainer(folder, model, **changes)
    run.train()
    return run


def sft_trainer(
    folder, model=None, *, kind=SftArguments, data=None, callbacks=None, count=16, short=0, **changes
) -> SftTrainer:
    """Of puzzles with compact prompts, and others with short ones."""
    model, args = new_model() if model is None else model, kind(**{**SHORT, "output_dir": str(folder), **changes})
    given = [*puzzles(count), *(puzzles(short, seed=2, template="short") if short else ())]
    data = data or SftDataset(sudoku_task(with_tail=True).batch(given))
    return SftTrainer(model=model, args=args, train_dataset=data, callbacks=callbacks)


def recorded(monkeypatch: pytest.MonkeyPatch, name: str, keep: Callable[..., Any]) -> list[Any]:
    """What is kept of each call of a function by trainers, by its arguments and what it returned."""
    kept: list[Any] = []
    original = getattr(dllm_rl.training.trainer, name)

    def recording(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        kept.append(keep(args, kwargs, result))
        return result

    monkeypatch.setattr(dllm_rl.training.trainer, name, recording)
    return kept


def logged(of: UnmaskTrainer, name: str) -> list[float]:
    return [line[name] for line in of.state.log_history if name in line]


def untimed(lines: list[dict[str, float]]) -> list[dict[str, float]]:
    """Log lines without what the clock decides."""
    return [{name: value for name, value in line.items() if name not in TIMES} for line in lines]


class KeepGradients(TrainerCallback):
    """Copies what the optimizer is about to apply at each step: `.grad`, and the second term's gradients if kept."""

    def __init__(self) -> None:
        self.first, self.second = [], []

    def on_pre_optimizer_step(self, args, state, control, model=None, optimizer=None, **kwargs):
        self.first.append([param.grad.clone() for param in model.parameters() if param.grad is not None])
        inner = getattr(optimizer, "optimizer", optimizer)
        if isinstance(inner, TwoRateOptimizer):
            self.second.append([gradient.clone() for gradient in inner.second_gradients if gradient is not None])

    def tensors(self) -> dict[str, torch.Tensor]:
        """All gradients by name."""
        steps = [(f"first.{n}", each) for n, each in enumerate(self.first)]
        steps += [(f"second.{n}", each) for n, each in enumerate(self.second)]
        return {f"{name}.{index}": gradient for name, each in steps for index, gradient in enumerate(each)}
