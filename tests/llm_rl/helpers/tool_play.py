"""Tools for tests: a byte-level tokenizer that merges across borders, a scripted engine and a counting environment."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from llm_rl.rollout.generation import Completion, SamplingParams
from llm_rl.tools.template import TOOL_CHAT_TEMPLATE
from llm_rl.tools.toolbox import Toolbox, methods_of
from tests.llm_rl.helpers.fixed_engine import Weightless

END = "<|im_end|>"
FRAME = "\n<|im_start|>tool\n<tool_response>\n", "\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
"""What stands between a turn and a result, and between the result and the next turn."""
CALL = '<tool_call>\n{"name": "up", "arguments": {"by": 1}}\n</tool_call>'
CALL_OBJECT = {"type": "function", "function": {"name": "up", "arguments": {"by": 1}}}


@cache
def chat_tokenizer(merged: tuple[str, ...] = ("ab", "\n\n", "11")) -> PreTrainedTokenizerFast:
    """A token for each byte, and one for each pair in `merged`, wherever the two meet; ChatML's tags are special.

    What the template tells of the tools of `Count` is one token too, which spares every pass most of a prompt.
    """
    letters = pre_tokenizers.ByteLevel.alphabet()
    shown = {byte: pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str(byte)[0][0] for byte in "ab\n1"}
    pairs = [(shown[pair[0]], shown[pair[1]]) for pair in merged]
    vocabulary = {letter: index for index, letter in enumerate(sorted(letters))}
    vocabulary |= {left + right: len(vocabulary) + index for index, (left, right) in enumerate(pairs)}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=pairs))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(END), AddedToken("<|im_start|>")])
    names = PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token=END, pad_token=END, chat_template=TOOL_CHAT_TEMPLATE
    )
    schemas = Toolbox([*methods_of(Count()).values()]).schemas
    told = names.apply_chat_template([{"role": "user", "content": ""}], tools=schemas, tokenize=False)
    names.add_tokens([told.partition("system\n")[2].partition(END)[0]])
    return names


def tokens(text: str) -> list[int]:
    """The tokens of a text one byte each where they are no end tokens: not what the tokenizer would give."""
    ids = []
    for index, part in enumerate(text.split(END)):
        ids += [chat_tokenizer().eos_token_id] if index else []
        ids += letters(part)
    return ids


def answered(text: str) -> str:
    """A result between two turns."""
    return text.join(FRAME)


def answered_tokens(ids: Sequence[int]) -> list[int]:
    """The tokens of a result in their frame, which merge with none of it."""
    before, behind = map(encoded, FRAME)
    return [*before, *ids, *behind]


def letters(text: str) -> list[int]:
    """The tokens of a text one byte each, tags too."""
    return [token for byte in text for token in encoded(byte)]


def encoded(text: str) -> list[int]:
    """What the tokenizer gives."""
    return chat_tokenizer()(text, add_special_tokens=False)["input_ids"]


def chat_model(seed: int = 0, dtype: torch.dtype = torch.float64, names: Any = None) -> LlamaForCausalLM:
    """A tiny random Llama for the tokenizer, or for another."""
    torch.manual_seed(seed)
    names = names or chat_tokenizer()
    shape = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
    ends = {"bos_token_id": None, "eos_token_id": names.eos_token_id, "pad_token_id": names.pad_token_id}
    config = LlamaConfig(vocab_size=len(names), max_position_embeddings=4096, initializer_range=0.2, **shape, **ends)
    return LlamaForCausalLM(config).to(dtype)


class ScriptedEngine(Weightless):
    """Writes given turns: the k-th list of texts is what it writes when it is asked the k-th time.

    Args:
        turns: Texts, cut to the longest completion; log-probabilities are −1, −2, … in each.
    """

    def __init__(self, *turns: Sequence[str]) -> None:
        self.turns = [list(texts) for texts in turns]
        self.asked: list[list[list[int]]] = []

    def generate(self, prompts: Sequence[Sequence[int]], params: SamplingParams) -> list[Completion]:
        texts = self.turns[len(self.asked)]
        self.asked.append([list(prompt) for prompt in prompts])
        assert len(texts) == len(prompts), (texts, len(prompts))
        found = []
        for text in texts:
            ids = tokens(text)[: params.max_new_tokens]
            found.append(Completion(ids, [-1.0 - place for place in range(len(ids))]))
        return found


class Count:
    """An environment in which one counts up to a number."""

    def __init__(self) -> None:
        self.goal = self.count = 0

    def reset(self, goal: int, **columns: Any) -> str | None:
        """Begins anew."""
        self.goal, self.count = goal, 0
        return f" to {goal}"

    def get_reward(self) -> float:
        """The share of the way."""
        return self.count / self.goal

    def up(self, by: int) -> str:
        """Count.

        Args:
            by: How many.
        """
        if by > 3:
            raise ValueError("too many")
        self.count += by
        return f"\nb{self.count}"


def up(by: object) -> str:
    """A call of `Count.up` as a model writes it, with its end token; it merges with the line break before it."""
    return f'\nab<tool_call>{{"name": "up", "arguments": {{"by": {by}}}}}</tool_call>{END}'
