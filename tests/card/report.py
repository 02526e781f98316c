"""What a card can do: `make test-card` runs the tests of this folder on it and two trainers for a minute each.

It prints a block for a report. Without a card it says so and ends with 1.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from transformers import TrainerCallback

from dllm_rl import SudokuTask, UnmaskArguments, UnmaskTrainer, load
from sudoku_dllm.machine import as_text, environment
from sudoku_env import generate, pre_fill
from sudoku_env.prompts.text import build_prompt
from tests.helpers import SHORT
from tests.llm_rl.helpers import tiny_grpo

TESTS = ("test_devices.py", "test_on_the_card.py", "test_offloading.py")
LONG: dict[str, Any] = {**SHORT, "use_cpu": False, "max_steps": 100_000, "logging_steps": 50}
WIDE = {"hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 8, "num_attention_heads": 8}


class Clock(TrainerCallback):
    """Ends a training some seconds after its first step; counts what its model reads in them."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.began, self.states, self.tokens = seconds, 0.0, 0, 0

    def on_step_end(self, args, state, control, **kwargs):
        self.began = self.began or time.monotonic()
        control.should_training_stop = time.monotonic() - self.began > self.seconds

    def count(self, model: Any, given: Any, named: dict[str, Any]) -> None:
        """A hook before a forward pass."""
        ids = given[0] if given else named["input_ids"]
        if self.began:
            self.states, self.tokens = self.states + len(ids), self.tokens + ids.numel()


def rate(make: Callable[[Path], Any], seconds: float) -> str:
    """Rows and tokens that a trainer's model reads a second, and the most memory that the card's tensors took."""
    clock = Clock(seconds)
    with TemporaryDirectory() as folder:
        run = make(Path(folder))
        run.add_callback(clock)
        run.model.base_model.register_forward_pre_hook(clock.count, with_kwargs=True)
        torch.cuda.reset_peak_memory_stats()
        run.train()
        torch.cuda.synchronize()
    took, memory = time.monotonic() - clock.began, torch.cuda.max_memory_allocated() / 2**30
    each = f"{clock.states / took:.0f} states/s, {clock.tokens / took:.0f} tokens/s"
    return f"{run.state.global_step} steps, {each}, {memory:.2f} GiB"


def unmask(folder: Path, size: int = 32) -> UnmaskTrainer:
    """`UnmaskTrainer` on the 6×6 model."""
    model, tokenizer = load("llada-sudoku6x6")
    boards = generate(256, size=6, clues=(14, 18), rule="singles", seed=1).boards
    puzzles = [pre_fill(build_prompt(board, "compact"), tokenizer, 40) for board in boards]
    args = UnmaskArguments(**{**LONG, "output_dir": str(folder), "per_device_train_batch_size": size})
    return UnmaskTrainer(model, args, puzzles, SudokuTask(tokenizer.pad_token_id))


def grpo(folder: Path, size: int = 64) -> Any:
    """GRPO of a random Llama."""
    many = {**LONG, "per_device_train_batch_size": size, "max_completion_length": size}
    return tiny_grpo.trainer(folder, tiny_grpo.new_model(**WIDE), **many)


def main(seconds: float = 60) -> int:
    """Print the block; 0 where all tests passed."""
    if not torch.cuda.is_available():
        print(f"there is no card: torch {torch.__version__} sees no CUDA device; make test-ci pretends one")
        return 1
    tests = [str(Path(__file__).with_name(name)) for name in TESTS]
    command = [sys.executable, "-m", "pytest", "-q", "-m", "", "-p", "no:cacheprovider", *tests]
    told = {**os.environ, "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    tested = subprocess.run(command, env=told, stdout=subprocess.PIPE, text=True, check=False)
    print(tested.stdout, flush=True)
    block = {
        **environment(),
        "tests": (tested.stdout.strip().splitlines() or ["none ran"])[-1],
        "unmask": rate(unmask, seconds),
        "grpo": rate(grpo, seconds),
    }
    print(as_text(block))
    return tested.returncode


if __name__ == "__main__":
    sys.exit(main())
