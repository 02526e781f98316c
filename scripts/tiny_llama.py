"""A random Llama of some thousand parameters and a tokenizer with one token a word, made in no time."""

from collections.abc import Sequence
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast


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
