"""VAPOR on the tiny Llama: a tokenizer that can write tags, an engine whose completions succeed and fail."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from tokenizers.pre_tokenizers import ByteLevel
from transformers import PreTrainedTokenizerFast

from llm_rl.rollout.generation import SamplingParams
from llm_rl.vapor import VAPORArguments, VAPORTrainer
from tests.llm_rl.helpers.fixed_engine import FixedEngine
from tests.llm_rl.helpers.tiny_grpo import WORDS, byte_pairs, move, new_model, settings, trainer_of

COMPLETIONS = [
    "<REASONING>red red</REASONING><RESPONSE>sky</RESPONSE>",
    "so <REASONING>red blue one</REASONING>. <RESPONSE>sea</RESPONSE>", "<REASONING>blue</REASONING>",
    "<REASONING>red one red", "</REASONING>red<REASONING>", "moon", "<REASONING>red</REASONING>>red",
]  # fmt: skip
"""Three or four succeed: the others have no end tag, the wrong order, or no tag."""
ROWS = [
    {
        "prompt": "red blue",
        "chosen": "<REASONING>one</REASONING><RESPONSE>sky sea</RESPONSE> sun",
        "rejected": "<RESPONSE>moon</RESPONSE>",
    },
    {"prompt": "one", "chosen": "<RESPONSE>two</RESPONSE>.", "rejected": "so<RESPONSE>sun sun sun</RESPONSE>"},
    {"prompt": "green sea", "chosen": "two", "rejected": "<RESPONSE>sun</RESPONSE>"},
    {"prompt": "two sun", "chosen": "<RESPONSE>sun</RESPONSE>", "rejected": "</RESPONSE>one<RESPONSE>"},
]
"""Rows of pairs; in the last two the response is not found in one of both."""


@cache
def tag_tokenizer() -> PreTrainedTokenizerFast:
    """Of any text, in which tags and what follows share tokens."""
    texts = [text for text in COMPLETIONS for _ in range(3)] + [" ".join(WORDS)] * 3
    return byte_pairs(texts, 320, ByteLevel.alphabet())


def tag_model(dtype: torch.dtype = torch.float32, **changes: Any) -> Any:
    names = tag_tokenizer()
    ends = {"eos_token_id": names.eos_token_id, "pad_token_id": names.pad_token_id}
    return new_model(dtype=dtype, vocab_size=len(names), **ends, **changes)


def shifted_model() -> Any:
    """A reference near `tag_model`, so that at the first update the ratios are not 1."""
    model = tag_model(torch.float64)
    move(model, seed=3, size=2e-3)
    return model


class WrittenEngine(FixedEngine):
    """The n-th completion of a prompt is one of `texts`, picked by a hash of its ids and n; some have an end token."""

    takes_pictures = False

    def __init__(self, texts: Sequence[str] = COMPLETIONS) -> None:
        self.texts = texts

    def written(self, digest: bytes, params: SamplingParams) -> list[int]:
        ids = tag_tokenizer()(self.texts[digest[0] % len(self.texts)])["input_ids"]
        return [*ids, params.eos_token_ids[0]] if digest[1] % 3 else ids


def red_count(completions: list[str], **kwargs: Any) -> list[float]:
    return [float(text.count("red")) for text in completions]


def arguments(folder: Path, **changes: Any) -> VAPORArguments:
    chosen = {"num_generations": 4, "max_completion_length": 40, "max_grad_norm": 0.0, **changes}
    return VAPORArguments(**settings(folder, **chosen))


def trainer(folder: Path, model: Any = None, *, given: Any = None, **changes: Any) -> VAPORTrainer:
    chosen = {"names": tag_tokenizer(), "reward_funcs": red_count, "data": ROWS, **changes}
    given = {"engine": WrittenEngine(), **(given or {})}
    return trainer_of(VAPORTrainer, arguments, folder, tag_model() if model is None else model, given=given, **chosen)
