"""A Llama from random weights after some supervised steps: the start of the trials that need no model to begin with."""

from pathlib import Path
from typing import Any

from transformers import LlamaForCausalLM, PrinterCallback

from llm_rl import supervised_trainer
from llm_rl.training import RunArguments
from scripts.tiny_llama import tiny_llama
from sudoku_dllm.trials.trial import short_training


def taught_llama(
    rows: Any, words: Any, seed: int, folder: Path, *, batch_size: int, learning_rate: float, steps: int, **sizes: Any
) -> LlamaForCausalLM:
    """Make it, and train it.

    Args:
        rows: What it learns, as `supervised_trainer` takes it.
        words: The tokenizer, whose end and padding tokens are the model's.
        seed: Random seed of weights and training.
        folder: Where the training may write.
        batch_size: Rows of a step.
        learning_rate: Rate, which falls to 0.
        steps: Supervised steps.
        **sizes: Passed on to `LlamaConfig`.
    """
    model = tiny_llama(
        len(words),
        seed,
        **sizes,
        initializer_range=0.02,
        bos_token_id=None,
        eos_token_id=words.eos_token_id,
        pad_token_id=words.pad_token_id,
    )
    settings = short_training(folder, batch_size, seed, learning_rate) | {"max_steps": steps, "warmup_steps": 20}
    trainer = supervised_trainer(model, RunArguments(**settings), rows, words)
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    return model
