"""A training of seconds for the kill test: `python kill_test_trainer.py unmask|grpo|trl --output_dir FOLDER`.

    python -m sudoku_dllm.kill_test -- python -m scripts.benchmarks.kill_test_trainer grpo --output_dir {folder}

Started again, it goes on from the last checkpoint. "grpo" is `llm_rl.grpo.trainer.GRPOTrainer` and "trl" the trainer of
that name in TRL, with the same model, prompts, rewards and schedule; "unmask" is `dllm_rl.UnmaskTrainer`.
Models are random and tokenizers made here. A roll-out serves `--num_iterations` optimizer steps; each step leaves a
checkpoint.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast, Trainer
from transformers.trainer_utils import get_last_checkpoint
from transformers.utils import logging

from dllm_rl import SudokuTask, UnmaskArguments, UnmaskTrainer
from llm_rl import GRPOArguments, GRPOTrainer
from scripts.benchmarks.grpo_contenders import NO_TRL, trl_installed
from scripts.shared.small_tokenizer import build_small_tokenizer
from scripts.shared.tiny_llada import tiny_llada
from scripts.shared.tiny_llama import tiny_llama, word_tokenizer
from sudoku_env import build_prompt, generate, pre_fill

WORDS = ("[pad]", "[end]", *"red green blue one two three sky sea sun moon".split())
COMMON: dict[str, Any] = {
    "learning_rate": 1e-3,
    "lr_scheduler_type": "cosine",
    "logging_steps": 1,
    "save_strategy": "steps",
    "save_steps": 1,
    "report_to": "none",
    "disable_tqdm": True,
    "use_cpu": True,
    "seed": 7,
}
GRPO: dict[str, Any] = {"per_device_train_batch_size": 8, "num_generations": 4, "max_completion_length": 8}


def tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer with one token a word."""
    return word_tokenizer(WORDS, pad="[pad]", end="[end]", padding_side="left")


def model() -> LlamaForCausalLM:
    """A random model whose completions differ."""
    return tiny_llama(
        len(WORDS),
        max_position_embeddings=64,
        bos_token_id=None,
        eos_token_id=WORDS.index("[end]"),
        pad_token_id=WORDS.index("[pad]"),
    )


def low_ids(completion_ids: list[list[int]], **kwargs: Any) -> list[float]:
    """A reward: the share of words in the first half of the vocabulary."""
    return [sum(token < len(WORDS) // 2 for token in ids) / max(1, len(ids)) for ids in completion_ids]


def prompts() -> list[dict[str, str]]:
    """Sixteen prompts."""
    return [{"prompt": f"{first} {second}"} for first in WORDS[2:6] for second in WORDS[8:12]]


def grpo(folder: str, steps: int, iterations: int) -> Trainer:
    """The GRPO trainer of `llm_rl`."""
    args = GRPOArguments(folder, max_steps=steps, num_iterations=iterations, **GRPO, **COMMON)
    return GRPOTrainer(model(), low_ids, args, prompts(), tokenizer())


def trl(folder: str, steps: int, iterations: int) -> Trainer:
    """The GRPO trainer of TRL."""
    if not trl_installed():
        raise SystemExit(NO_TRL)
    from datasets import Dataset
    from trl import GRPOConfig
    from trl import GRPOTrainer as TRLTrainer

    given = {"gradient_checkpointing": False, "bf16": False, "loss_type": "grpo", "log_completions": True}
    args = GRPOConfig(folder, max_steps=steps, num_iterations=iterations, beta=0.0, **GRPO, **COMMON, **given)
    data = Dataset.from_list(prompts())
    return TRLTrainer(model(), low_ids, args=args, train_dataset=data, processing_class=tokenizer())


def unmask(folder: str, steps: int, iterations: int) -> Trainer:
    """The unmasking trainer of `dllm_rl`."""
    names = build_small_tokenizer(4, chunk=1)
    boards = generate(16, size=4, clues=(8, 10), rule="singles", seed=1).boards
    puzzles = [pre_fill(build_prompt(board, "compact"), names, 17) for board in boards]
    model = tiny_llada(len(names), names.mask_token_id, 0)
    args = UnmaskArguments(
        folder, max_steps=steps, num_iterations=iterations, per_device_train_batch_size=2, num_generations=4, **COMMON
    )
    return UnmaskTrainer(model, args, puzzles, SudokuTask(names.pad_token_id))


TRAINERS: dict[str, Callable[[str, int, int], Trainer]] = {"unmask": unmask, "grpo": grpo, "trl": trl}


def main() -> None:
    """Train from the beginning or from the last checkpoint, and save the model and the log."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("trainer", choices=TRAINERS)
    parser.add_argument("--output_dir", required=True)
    parser.add_argument("--max_steps", type=int, default=32)
    parser.add_argument("--num_iterations", type=int, default=4, help="optimizer steps that a roll-out serves")
    given = parser.parse_args()
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    trainer = TRAINERS[given.trainer](given.output_dir, given.max_steps, given.num_iterations)
    # transformers itself fails where there is no checkpoint yet.
    found = get_last_checkpoint(given.output_dir) if Path(given.output_dir).is_dir() else None
    trainer.train(resume_from_checkpoint=found if given.trainer == "trl" else "last")
    trainer.save_model()
    trainer.save_state()


if __name__ == "__main__":
    main()
