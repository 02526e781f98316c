"""Preference pairs as tokens: the prompt once, and what the chosen and the rejected completion add to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from llm_rl.rollout.data import (
    RolloutBatch,
    Sample,
    check_data_set,
    check_row,
    encode_answer,
    encode_prompt,
    is_conversation,
    named_place,
    text_messages,
)


class PairDataset(Dataset[dict[str, Any]]):
    """Rows of pairs, encoded once: {"index", "prompt_ids", "chosen_ids", "rejected_ids"}.

    A row has a "prompt" (text or messages), "chosen" and "rejected"; each of these is a text, or messages where the
    prompt is messages. `room` are the positions of the model, None where there is no bound; errors call the rows by
    `name`.

    Raises:
        ValueError: There are no rows, or one cannot be encoded; the message names it.
    """

    def __init__(
        self, name: str, rows: Any, tokenizer: Any, chat_template_kwargs: Mapping[str, Any], room: int | None = None
    ) -> None:
        check_data_set(name, rows)
        if tokenizer.eos_token_id is None:
            raise ValueError("the tokenizer has no end token; set processing_class.eos_token")
        self.items: list[dict[str, Any]] = []
        for index in range(len(rows)):
            with named_place(f"row {index} of {name}"):
                item = encode_pair(rows[index], tokenizer, chat_template_kwargs)
                longest = len(item["prompt_ids"]) + max(len(item["chosen_ids"]), len(item["rejected_ids"]))
                if room is not None and longest > room:
                    raise ValueError(
                        f"{longest} tokens exceed the model's {room} positions; shorten it or leave it out"
                    )
            self.items.append({"index": index, **item})

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.items[index]


def encode_pair(row: Any, tokenizer: Any, chat_template_kwargs: Mapping[str, Any]) -> dict[str, list[int]]:
    """The tokens of a prompt and of its two completions: {"prompt_ids", "chosen_ids", "rejected_ids"}.

    A completion that is a text is encoded by itself and ends with the end token. One that is messages is what the chat
    template writes behind the prompt that opens the assistant's message.

    Raises:
        ValueError: The row lacks a part, a completion is neither text nor messages, has no token, or the template
            writes the prompt otherwise where a completion follows.
    """
    prompt = check_row(row)["prompt"]
    prompt_ids = encode_prompt(prompt, tokenizer, chat_template_kwargs)
    encoded = {"prompt_ids": prompt_ids}
    for name in ("chosen", "rejected"):
        value = row.get(name)
        if isinstance(value, str):
            ids = encode_answer(value, tokenizer, tokenizer.eos_token_id)
        elif is_conversation(value) and is_conversation(prompt):
            whole = tokenizer.apply_chat_template(
                text_messages([*prompt, *value]), tokenize=True, return_dict=False, **chat_template_kwargs
            )
            if list(whole[: len(prompt_ids)]) != prompt_ids:
                raise ValueError(
                    f"the chat template writes the prompt otherwise where {name!r} follows, so that they cannot be "
                    "told apart; give the completions as texts, or another template"
                )
            ids = whole[len(prompt_ids) :]
        else:
            raise ValueError(
                f"{name!r} is {value!r}; rows have 'prompt', 'chosen' and 'rejected', the last two a text, or messages "
                "where the prompt is messages"
            )
        if not len(ids):
            raise ValueError(f"{name!r} has no token")
        encoded[f"{name}_ids"] = [int(token) for token in ids]
    return encoded


@dataclass
class PairBatch:
    """A micro-batch of B pairs: 2 B completions, the chosen ones, then the rejected ones.

    `reference`, `(2, B)`, are their log-probabilities under the reference, summed over tokens; None without one.
    """

    completions: RolloutBatch
    reference: Tensor | None = None

    @classmethod
    def collate(
        cls, items: Sequence[Mapping[str, Any]], pad_id: int, *, device: torch.device | str = "cpu"
    ) -> "PairBatch":
        """Pads items of a `PairDataset`."""
        samples = [
            Sample({}, item["prompt_ids"], item[name], truncated=False)
            for name in ("chosen_ids", "rejected_ids")
            for item in items
        ]
        return cls(RolloutBatch.collate(samples, pad_id, device=device))
