"""The small model of a game for verl: a Llama taught the form of its answers."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from scripts.shared.tiny_llama import taught_llama, word_tokenizer

TEMPLATE = "{% for turn in messages %}{{ turn.role }} {{ turn.content }}\n{% endfor %}"


def chat_words(words: list[str]) -> PreTrainedTokenizerFast:
    """A token for each word, with a chat template; all other words of a prompt are one token."""
    tokenizer = word_tokenizer(["<end>", "<pad>", *words], pad="<pad>", end="<end>")
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def write_model(
    rows: Any, tokenizer: PreTrainedTokenizerFast, folder: Path, *, seed: int, steps: int, length: int
) -> LlamaForCausalLM:
    """Teach a model, and write it and its tokenizer.

    Args:
        rows: What it learns, as `supervised_trainer` takes it.
        tokenizer: The tokenizer.
        folder: Where they go.
        seed: Random seed.
        steps: Supervised steps.
        length: Longest sequence in tokens.
    """
    with TemporaryDirectory() as scratch:
        model = taught_llama(
            rows, tokenizer, seed, Path(scratch), batch_size=16, learning_rate=3e-3, steps=steps,
            max_position_embeddings=length,
        )  # fmt: skip
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model
