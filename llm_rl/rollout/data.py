"""Prompts as text or chat messages, and what is kept of each completion. See docs/grpo.md."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor
from torch.utils.data import IterableDataset

from llm_rl.rollout.pictures import PicturedPrompt, Pictures, reads_pictures, tokenizer_of
from llm_rl.rollout.shared_prompts import group_by_prompt


@dataclass(frozen=True)
class Sample:
    """A prompt and one completion of it. Token in, token out: nothing is encoded again.

    Attributes:
        row: The row of the data set; `row["prompt"]` is a text or a list of messages.
        prompt_ids: Tokens of the prompt, a `PicturedPrompt` where it shows pictures.
        completion_ids: Sampled tokens up to and including the first end token; of a whole conversation also what stands
            between the model's turns.
        truncated: Whether there is no end token.
        engine_logprobs: Log-probabilities that the engine sampled with, one a token; None where it gave none.
        scores: What each reward function said, NaN where it does not apply; filled in by the trainer.
        earlier: The model's turns before this one in a conversation, each with what stood before it.
        given: Which tokens of the completion were not sampled, but given in answer to a turn; None: none of them.
        episode: What is known of the tools' side of a conversation (`llm_rl.tools.episodes.Episode`); None without.
    """

    row: Mapping[str, Any]
    prompt_ids: list[int]
    completion_ids: list[int]
    truncated: bool
    engine_logprobs: list[float] | None = None
    scores: list[float] = field(default_factory=list, compare=False)
    earlier: "tuple[Sample, ...]" = ()
    given: list[bool] | None = None
    episode: Any = field(default=None, compare=False)

    @property
    def cut_off(self) -> bool:
        """Whether it ended for want of length, turns or room, and not by itself."""
        return self.truncated

    @property
    def state_behind(self) -> list[int]:
        """The tokens that a next one would follow."""
        return [*self.prompt_ids, *self.completion_ids]


@contextmanager
def named_place(place: str) -> Iterator[None]:
    """A section whose `ValueError` says in front where in the data it comes from."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from error


def check_row(row: Any) -> Mapping[str, Any]:
    """The row itself; `ValueError` where it has no prompt."""
    if not isinstance(row, Mapping) or "prompt" not in row:
        held = sorted(row) if isinstance(row, Mapping) else type(row).__name__
        raise ValueError(f"a row of the data set has no 'prompt' but {held}; rows are dictionaries with a 'prompt'")
    return row


def check_data_set(name: str, rows: Any) -> None:
    """Raises `ValueError` unless rows can be drawn in any order, there is one, and the first one has a prompt."""
    check_indexed(name, rows)
    if not len(rows):
        raise ValueError(f"{name} has no rows")
    if isinstance(rows, Mapping):
        raise ValueError(f"{name} is a mapping of {sorted(map(str, rows))}; pass one of them, or a list of rows")
    check_row(rows[0])


def check_indexed(name: str, rows: Any) -> None:
    """Raises `ValueError` unless rows have a length and indices."""
    if isinstance(rows, IterableDataset) or not (hasattr(rows, "__getitem__") and hasattr(rows, "__len__")):
        raise ValueError(f"{name} is a {type(rows).__name__}; pass rows with a length and indices, as a list")


def check_rows(rows: Sequence[Any]) -> list[Mapping[str, Any]]:
    """`check_row` of each: the collator of trainers."""
    return [check_row(row) for row in rows]


def encode_prompt(prompt: Any, processing_class: Any, chat_template_kwargs: Mapping[str, Any]) -> list[int]:
    """The tokens of a prompt: text as the tokenizer encodes it, messages through the chat template.

    An end token that the tokenizer puts behind a text is cut, as the completion stands there. After messages that end
    with the assistant's the template continues that message, else it opens a new one. The messages of a processor give
    a `PicturedPrompt`.

    Raises:
        ValueError: The prompt is neither, has no token or two begin tokens in front, or one of the reasons of
            `text_messages` or, with a processor, `parts_of`; or the template leaves its system message out.
    """
    tokenizer, tensors = tokenizer_of(processing_class), {}
    if isinstance(prompt, str):
        ids = list(tokenizer(prompt)["input_ids"])
        if len(ids) > 1 and ids[-1] == tokenizer.eos_token_id:
            own = list(tokenizer(prompt, add_special_tokens=False)["input_ids"])
            ids = ids[:-1] if ids[-1 - len(own) : -1] == own else ids
    elif is_conversation(prompt):
        if reads_pictures(processing_class):
            messages = parts_of(prompt)
            given = {"return_dict": True, "return_tensors": "pt", **chat_template_kwargs}
            made = _through_template(messages, processing_class, given)
            ids = made["input_ids"][0].tolist()
            tensors = {name: value for name, value in made.items() if name not in ("input_ids", "attention_mask")}
        else:
            messages = text_messages(prompt)
            ids = list(_through_template(messages, processing_class, chat_template_kwargs))
        first, *others = messages
        if first["role"] == "system" and (text := first.get("content")):
            # What a template writes shows where it is written twice.
            doubled = f"{text} {text}" if isinstance(text, str) else [*text, *text]
            chats = (messages, [{**first, "content": doubled}, *others])
            once, twice = (_through_template(each, processing_class, chat_template_kwargs, False) for each in chats)
            if once == twice:
                raise ValueError(
                    f"the chat template leaves out the system message {text[:80]!r}; put it into the user's message, "
                    "or set another processing_class.chat_template"
                )
    else:
        raise ValueError(f"prompt is {prompt!r}; it must be a text or a list of messages with 'role' and 'content'")
    if not ids:
        raise ValueError(f"prompt {prompt!r} has no token; a completion needs at least one before it")
    begin = getattr(tokenizer, "bos_token_id", None)
    if begin is not None and ids[:2] == [begin, begin]:
        raise ValueError(
            f"prompt {str(prompt)[:80]!r} has two begin tokens in front, as tokenizer or chat template puts one there "
            f"already; pass it without its {tokenizer.bos_token!r}, or a rendered chat as its messages"
        )
    ids = [int(token) for token in ids]
    return PicturedPrompt(ids, tensors) if tensors else ids


def _through_template(
    messages: list[Any], processing_class: Any, chat_template_kwargs: Mapping[str, Any], tokenize: bool = True
) -> Any:
    goes_on = messages[-1]["role"] == "assistant"
    return processing_class.apply_chat_template(
        messages,
        add_generation_prompt=not goes_on,
        continue_final_message=goes_on,
        tokenize=tokenize,
        **{"return_dict": False, **chat_template_kwargs},
    )


def text_messages(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Messages whose contents are texts, as every chat template takes them: parts that are texts are joined.

    Another content, such as parts with an image, is a `ValueError`; only a message with calls needs none.
    """
    made = []
    for message in messages:
        content = message.get("content")
        if isinstance(content, (list, tuple)):
            of_text = [part for part in content if isinstance(part, Mapping) and part.get("type", "text") == "text"]
            texts = [text for part in of_text if isinstance(text := part.get("text"), str)]
            content = "".join(texts) if len(texts) == len(content) else content
        if not isinstance(content, str) and (content is not None or not message.get("tool_calls")):
            raise ValueError(
                f"the content of a message is {str(content)[:200]}, which is no text; give a text, or a list of parts "
                '{"type": "text", "text": …}: images and the like are not supported; '
                "GRPOTrainer and supervised_trainer take images with the model's AutoProcessor as processing_class"
            )
        made.append(dict(message) if content is None else {**message, "content": content})
    return made


def parts_of(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Messages with lists of parts, as templates of processors take them; `ValueError` unless of texts and pictures."""
    made = []
    for message in messages:
        parts: Any = message.get("content")
        parts = [{"type": "text", "text": parts}] if isinstance(parts, str) else parts
        parts = [*parts] if isinstance(parts, (list, tuple)) else [parts]
        for part in parts:
            kind = part.get("type") if isinstance(part, Mapping) else None
            held = part.get(kind) if kind in ("text", "image") else None
            if held is None or (kind == "text" and not isinstance(held, str)):
                raise ValueError(
                    f'the content of a message has {str(part)[:200]}; give a text, or parts {{"type": "text", "text": …'
                    '} and {"type": "image", "image": PIL.Image}'
                )
        made.append({**message, "content": parts})
    return made


def plain_ids(text: str, tokenizer: Any, **options: Any) -> list[int]:
    """The tokens of a text alone, without any that the tokenizer puts around."""
    return [int(token) for token in tokenizer(text, add_special_tokens=False, **options)["input_ids"]]


def encode_answer(text: str, tokenizer: Any, end_token: int) -> list[int]:
    """The tokens of an answer to learn from, and one end token, also where the text ends with that itself."""
    ids = plain_ids(text, tokenizer)
    return ids if ids[-1:] == [end_token] else [*ids, end_token]


def is_conversation(prompt: Any) -> bool:
    """Whether a prompt is a list of chat messages, at least one."""
    return (
        isinstance(prompt, Sequence)
        and not isinstance(prompt, str)
        and len(prompt) > 0
        and all(isinstance(message, Mapping) and "role" in message for message in prompt)
    )


def decode_completion(sample: Sample, processing_class: Any) -> Any:
    """The completion as reward functions see it: a text, or one assistant message in a list; no special tokens."""
    text = tokenizer_of(processing_class).decode(sample.completion_ids, skip_special_tokens=True)
    return [{"role": "assistant", "content": text}] if is_conversation(sample.row["prompt"]) else text


@dataclass
class RolloutBatch:
    """A micro-batch of completions, prompts padded on the left and completions on the right, as training needs it.

    Attributes:
        prompt_ids: int64 `(B, P)`.
        prompt_mask: bool `(B, P)`, tokens of the prompts.
        completion_ids: int64 `(B, T)`, T ≥ 1.
        completion_mask: bool `(B, T)`, the tokens that are there, the last end token included. Padding is told by
            position, so pad and end token may be the same.
        truncated: bool `(B,)`, completions without end token.
        loss_mask: bool `(B, T)`, the sampled tokens that count in the loss and its denominators.
        sampling_per_token_logps: float32 `(B, T)` from the engine; None where it gave none.
        old_per_token_logps: float32 `(B, T)`, under the policy at sampling. None: it is the one being trained, as every
            roll-out serves one update.
        ref_per_token_logps: float32 `(B, T)`; None without a reference.
        rewards: float32 `(B,)`, what the advantages are made from; NaN where no function scores the completion.
        advantages: float32 `(B,)`.
        owners: int64 `(B,)`, the conversation of the micro-batch that each row is a turn of; `rewards` then has one for
            each conversation. None: there are no turns.
        given_mask: bool `(B, T)`, tokens of the completions that were not sampled, but given in answer to the model:
            they are read and not trained on. None: there are none.
        sequences: int64 scalar, rows that count in the whole optimizer step, over micro-batches and processes.
        tokens: int64 scalar, tokens that count in the whole optimizer step.
        pictures: What a processor returned beside the tokens of the prompts; None: nothing.
    """

    prompt_ids: Tensor
    prompt_mask: Tensor
    completion_ids: Tensor
    completion_mask: Tensor
    truncated: Tensor
    loss_mask: Tensor
    sampling_per_token_logps: Tensor | None = None
    old_per_token_logps: Tensor | None = None
    ref_per_token_logps: Tensor | None = None
    rewards: Tensor | None = None
    advantages: Tensor | None = None
    owners: Tensor | None = None
    given_mask: Tensor | None = None
    sequences: Tensor | None = None
    tokens: Tensor | None = None
    pictures: Pictures | None = None

    @classmethod
    def collate(cls, samples: Sequence[Sample], pad_id: int, *, device: torch.device | str = "cpu") -> Self:
        """Pads samples; all sampled tokens count in the loss."""
        prompt_ids, prompt_mask = pad([sample.prompt_ids for sample in samples], pad_id, "left")
        completion_ids, completion_mask = pad([sample.completion_ids for sample in samples], pad_id, "right")
        given_mask = _given_mask(samples)
        sampled = completion_mask.clone() if given_mask is None else completion_mask & ~given_mask
        truncated = torch.tensor([sample.truncated for sample in samples])
        given = [sample.engine_logprobs for sample in samples if sample.engine_logprobs is not None]
        batch = cls(prompt_ids, prompt_mask, completion_ids, completion_mask, truncated, loss_mask=sampled)
        batch.given_mask, batch.pictures = given_mask, Pictures.of([sample.prompt_ids for sample in samples])
        if len(given) == len(samples):
            batch.sampling_per_token_logps = pad(given, 0.0, "right")[0]
        if torch.device(device).type != "cpu":
            for name, column in vars(batch).items():  # for copies of pinned memory the host need not wait
                if isinstance(column, Tensor):
                    setattr(batch, name, column.pin_memory().to(device, non_blocking=True))
        return batch

    @cached_property
    def prompt_groups(self) -> tuple[Tensor, Tensor]:
        """Which rows hold the same prompt (`group_by_prompt`)."""
        return group_by_prompt(self.prompt_ids, self.prompt_mask)

    @property
    def sampled_mask(self) -> Tensor:
        """bool `(B, T)`, the tokens that the policy sampled."""
        return self.completion_mask if self.given_mask is None else self.completion_mask & ~self.given_mask


def _given_mask(samples: Sequence[Sample]) -> Tensor | None:
    """bool `(B, T)`, the tokens of completions that were given; None where none was."""
    if all(sample.given is None for sample in samples):
        return None
    flags = [sample.given or [False] * len(sample.completion_ids) for sample in samples]
    return pad(flags, 0, "right")[0].bool()


def pad(rows: Sequence[Sequence[Any]], value: Any, side: str) -> tuple[Tensor, Tensor]:
    """Rows of different length as one tensor `(B, max(1, longest))` and the bool mask of what is not padding.

    The tensor is float32 where `value` is a float, else int64; `side` is "left" or "right".
    """
    width, dtype = max([1, *map(len, rows)]), torch.float32 if isinstance(value, float) else torch.int64
    mask = torch.arange(width) < torch.tensor([len(row) for row in rows])[:, None]
    mask = mask.flip(1) if side == "left" else mask
    values = torch.full(mask.shape, value, dtype=dtype)
    values[mask] = torch.tensor([item for row in rows for item in row], dtype=dtype)
    return values, mask
