"""A training of seconds for the kill test: `python kill_test_trainer.py unmask|grpo|trl --output_dir FOLDER`.

    python -m sudoku_dllm.kill_test -- python -m scripts.benchmarks.kill_test_trainer grpo --output_dir {folder}

Started again, it goes on from the last checkpoint. "grpo" is `llm_rl.grpo.trainer.GRPOTrainer` and "trl" the trainer of
that name in TRL, with the same model, prompts, rewards and schedule; "unmask" is `dllm_rl.UnmaskTrainer`.
Models are random and tokenizers made here. A roll-out serves `--num_iterations` optimizer steps; each step leaves a
checkpoint.
"""

import argparse
from pathlib import Path
from typing import Any

import torch
from transformers import Trainer
from transformers.trainer_utils import get_last_checkpoint
from transformers.utils import logging

from dllm_rl import SudokuTask, UnmaskArguments, UnmaskTrainer
from llm_rl import GRPOArguments, GRPOTrainer
from scripts.benchmarks.grpo_contenders import NO_TRL, trl_installed, trl_trainer
from scripts.shared.small_tokenizer import build_small_tokenizer
from scripts.shared.tiny_llada import tiny_llada
from scripts.shared.tiny_llama import tiny_llama, word_tokenizer
from sudoku_env import build_prompt, generate, pre_fill

WORDS = ("[pad]", "[end]", *"red green blue one two three sky sea sun moon".split())
COMMON: dict[str, Any] = {
    "learning_rate": 1e-3, "lr_scheduler_type": "cosine", "logging_steps": 1, "save_strategy": "steps", "save_steps": 1,
    "report_to": "none", "disable_tqdm": True, "use_cpu": True, "seed": 7, "num_generations": 4,
}  # fmt: skip


def low_ids(completion_ids: list[list[int]], **kwargs: Any) -> list[float]:
    """A reward: the share of words in the first half of the vocabulary."""
    return [sum(token < len(WORDS) // 2 for token in ids) / max(1, len(ids)) for ids in completion_ids]


def trainer_of(name: str, **options: Any) -> Trainer:
    """One of the three trainers with a random model, whose completions differ."""
    if name == "unmask":
        names = build_small_tokenizer(4, chunk=1)
        boards = generate(16, size=4, clues=(8, 10), rule="singles", seed=1).boards
        puzzles = [pre_fill(build_prompt(board, "compact"), names, 17) for board in boards]
        args = UnmaskArguments(**COMMON, **options, per_device_train_batch_size=2)
        return UnmaskTrainer(
            tiny_llada(len(names), names.mask_token_id, 0), args, puzzles, SudokuTask(names.pad_token_id)
        )
    options |= {"per_device_train_batch_size": 8, "max_completion_length": 8}
    tokenizer = word_tokenizer(WORDS, pad="[pad]", end="[end]", padding_side="left")
    ends = {"bos_token_id": None, "eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    model = tiny_llama(len(WORDS), max_position_embeddings=64, **ends)
    prompts = [{"prompt": f"{first} {second}"} for first in WORDS[2:6] for second in WORDS[8:12]]
    if name == "grpo":
        return GRPOTrainer(model, low_ids, GRPOArguments(**COMMON, **options), prompts, tokenizer)
    if not trl_installed():
        raise SystemExit(NO_TRL)
    options |= {"gradient_checkpointing": False, "bf16": False, "loss_type": "grpo", "log_completions": True}
    return trl_trainer(model, low_ids, prompts, tokenizer, **COMMON, **options, beta=0.0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("trainer", choices=("unmask", "grpo", "trl"))
    parser.add_argument("--output_dir", required=True)
    parser.add_argument("--max_steps", type=int, default=32)
    parser.add_argument("--num_iterations", type=int, default=4, help="optimizer steps that a roll-out serves")
    given = vars(parser.parse_args())
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    name, folder = given.pop("trainer"), given["output_dir"]
    trainer = trainer_of(name, **given)
    # transformers itself fails where there is no checkpoint yet.
    found = get_last_checkpoint(folder) if Path(folder).is_dir() else None
    trainer.train(resume_from_checkpoint=found if name == "trl" else "last")
    trainer.save_model()
    trainer.save_state()
