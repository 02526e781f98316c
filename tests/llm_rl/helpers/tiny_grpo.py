"""A tiny random Llama, a tokenizer trained on the spot and rewards, small enough to train within a test."""

import copy
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from llm_rl.grpo.arguments import GRPOArguments
from llm_rl.grpo.trainer import GRPOTrainer
from tests.helpers import SHORT

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))

WORDS = ["red", "green", "blue", "one", "two", "three", "sky", "sea", "sun", "moon"]
CHAT = (
    "{% for message in messages %}{{ message['role'] }} {{ message['content'] }} {% endfor %}"
    "{% if add_generation_prompt %}assistant{% endif %}"
)
EXPERTS = [
    {"prompt": "red", "completion": " one two"},
    {"prompt": "sky sea", "completion": " three"},
    {"prompt": [{"role": "user", "content": "sun"}], "completion": [{"role": "assistant", "content": " moon one one"}]},
]
"""Answers for CHORD."""
Kind = TypeVar("Kind")
SAVING: dict[str, Any] = {"save_strategy": "steps", "save_steps": 1}
TIMES = {"train_runtime", "train_samples_per_second", "train_steps_per_second"}


@cache
def tokenizer() -> PreTrainedTokenizerFast:
    """Of a few words."""
    texts = [" ".join([first, *WORDS, "user assistant"]) for first in WORDS] * 3
    return byte_pairs(texts, 90, sorted(set("".join(texts))), chat_template=CHAT)


def byte_pairs(texts: Sequence[str], size: int, alphabet: Sequence[str], **options: Any) -> PreTrainedTokenizerFast:
    """Byte-pair encoding trained on texts; pad is the end token."""
    backend = Tokenizer(models.BPE(unk_token=None))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    ends = {"eos_token": "<|end|>", "pad_token": "<|end|>"}
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=["<|end|>"], initial_alphabet=alphabet, show_progress=False
    )
    backend.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=backend, **ends, **options)


def with_template(names: Any, template: str | None) -> Any:
    """A copy of a tokenizer with another chat template."""
    changed = copy.deepcopy(names)
    changed.chat_template = template
    return changed


def new_model(seed: int = 0, dtype: torch.dtype = torch.float32, **changes: Any) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    settings = {
        "vocab_size": len(tokenizer()), "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128, "initializer_range": 0.2,
        "tie_word_embeddings": False, "bos_token_id": None, "eos_token_id": tokenizer().eos_token_id,
        "pad_token_id": tokenizer().pad_token_id,
    }  # fmt: skip
    return LlamaForCausalLM(LlamaConfig(**{**settings, **changes})).to(dtype)


def move(model: Any, seed: int, size: float) -> None:
    """Add noise to what is trained."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter += size * torch.randn(parameter.shape, generator=generator)


def rows(count: int = 8) -> list[dict[str, Any]]:
    """Prompts of different length with a column of their own, the token that is wanted."""
    names = tokenizer()
    return [
        {"prompt": " ".join(WORDS[: 1 + index % 3]), "wanted": 1 + 7 * index % (len(names) - 1)}
        for index in range(count)
    ]


def distinct_rows(count: int = 8) -> list[dict[str, Any]]:
    """Prompts that all differ."""
    return [{"prompt": f"{first} {second}"} for first, second in pairwise(WORDS)][:count]


def small_ids(completion_ids: list[list[int]], **kwargs: Any) -> list[float]:
    """Share of tokens with a small id."""
    return [sum(token < 20 for token in ids) / max(1, len(ids)) for ids in completion_ids]


def unless_cut(completion_ids: list[list[int]], **kwargs: Any) -> list[float | None]:
    """`small_ids`, and no score for a completion without end token."""
    ended = [ids[-1:] == [tokenizer().eos_token_id] for ids in completion_ids]
    return [share if end else None for share, end in zip(small_ids(completion_ids), ended, strict=True)]


def uneven(completion_ids: list[list[int]], **kwargs: Any) -> list[float]:
    """`small_ids`, and 2 more for every second completion: no group is without spread, whatever is drawn."""
    return [share + 2.0 * (number % 2) for number, share in enumerate(small_ids(completion_ids))]


def least_at_two(completion_ids: list[list[int]], trainer_state: Any, **kwargs: Any) -> list[float]:
    """`small_ids`, and 2 more at all steps but the second: whatever is drawn, the second has the least."""
    return [share + 2.0 * (trainer_state.global_step != 2) for share in small_ids(completion_ids)]


def ones(completion_ids: list[list[int]], **kwargs: Any) -> list[float]:
    """The same for all."""
    return [1.0] * len(completion_ids)


def length(completion_ids: list[list[int]], **kwargs: Any) -> list[float]:
    return [len(ids) / 10 for ids in completion_ids]


def go_on(row: Mapping[str, Any], turns: Sequence[str]) -> str | None:
    """Answers, unless the model's last turn is short; in the second answer with another text."""
    return None if len(turns[-1]) < 4 else " two" if len(turns) == 1 else " three sea"


def settings(folder: Path, **changes: Any) -> dict[str, Any]:
    """Arguments of a short training with roll-outs of 8 completions, for any trainer of roll-outs."""
    sizes = {"max_steps": 1, "per_device_train_batch_size": 8, "max_completion_length": 6}
    return {"output_dir": str(folder), **sizes, **SHORT, **changes}


def arguments(folder: Path, **changes: Any) -> GRPOArguments:
    return GRPOArguments(**settings(folder, **{"num_generations": 4, **changes}))


def trainer_of(
    kind: Callable[..., Kind], arguments: Callable[..., Any], folder: Path, model: Any = None,
    *, reward_funcs: Any = small_ids, data: Any = None, names: Any = None, given: Any = None, **changes: Any,
) -> Kind:  # fmt: skip
    """A trainer of roll-outs, unless told otherwise of the tiny model on the tiny rows."""
    model, data = new_model() if model is None else model, rows() if data is None else data
    return kind(model, reward_funcs, arguments(folder, **changes), data, names or tokenizer(), **(given or {}))


def trainer(folder: Path, model: Any = None, **changes: Any) -> GRPOTrainer:
    return trainer_of(GRPOTrainer, arguments, folder, model, **changes)


def untimed(lines: list[dict[str, float]]) -> list[dict[str, float]]:
    """Log lines without what the clock decides."""
    return [{name: value for name, value in line.items() if name not in TIMES} for line in lines]
