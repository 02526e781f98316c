"""A Llama of some thousand parameters, random or after some supervised steps, and a tokenizer with one token a word."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, PrinterCallback

from llm_rl import supervised_trainer
from llm_rl.training import RunArguments
from sudoku_dllm.trials.trial import short_training


def word_tokenizer(words: Sequence[str], *, pad: str, end: str, **options: Any) -> PreTrainedTokenizerFast:
    """A tokenizer with one token a word, where texts have blanks between words.

    Args:
        words: The vocabulary, in the order of its ids, with `pad` and `end` among it.
        pad: The padding token, which unknown words become as well.
        end: The end token.
        **options: Passed on to the tokenizer, e.g. `padding_side`.
    """
    backend = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token=pad))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=backend, pad_token=pad, eos_token=end, **options)


def tiny_llama(vocab_size: int, seed: int = 0, **changes: Any) -> LlamaForCausalLM:
    """A random Llama of two layers, by default with weights so large that its completions differ.

    Args:
        vocab_size: Number of tokens.
        seed: Random seed of the weights; torch's global generator is set to it.
        **changes: Passed on to `LlamaConfig`, in place of the sizes here.
    """
    sizes: dict[str, Any] = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "initializer_range": 0.2,
    }
    torch.manual_seed(seed)
    return LlamaForCausalLM(LlamaConfig(vocab_size=vocab_size, **{**sizes, **changes}))


def taught_llama(
    rows: Any, words: Any, seed: int, folder: Path, *, batch_size: int, learning_rate: float, steps: int, **sizes: Any
) -> LlamaForCausalLM:
    """The start of the trials that need no model to begin with: made from random weights, and trained.

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
        len(words), seed, **sizes, initializer_range=0.02, bos_token_id=None, eos_token_id=words.eos_token_id,
        pad_token_id=words.pad_token_id,
    )  # fmt: skip
    settings = short_training(folder, batch_size, seed, learning_rate) | {"max_steps": steps, "warmup_steps": 20}
    trainer = supervised_trainer(model, RunArguments(**settings), rows, words)
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    return model
