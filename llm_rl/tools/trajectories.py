"""Supervised fine-tuning on conversations with tools, an expert's or good roll-outs, with the masks of roll-outs."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from llm_rl.rollout.data import Sample, check_row, encode_answer, encode_prompt
from llm_rl.rollout.sft import IGNORED, SupervisedDataset
from llm_rl.tools.calls import CallFormat, ToolCall
from llm_rl.tools.template import ResultFrame, check_shows_tools
from llm_rl.tools.toolbox import Toolbox


def encode_trajectory(
    row: Mapping[str, Any],
    tokenizer: Any,
    schemas: Sequence[Mapping[str, Any]],
    frame: ResultFrame,
    call_format: CallFormat,
) -> Sample:
    """A conversation as one sample, with the tokens that a roll-out of the same turns would give.

    A row has "prompt", messages, and "completion", the messages after it: each turn of the model, followed by a message
    of the role "tool" for each call; the last one is the model's. Calls stand in its text, as in what reward functions
    see of roll-outs, or in "tool_calls"; `call_format` writes these. `schemas` are those of the tools, unless the row
    has "tools" of its own. A row of another form is a `ValueError`.
    """
    prompt = encode_prompt(check_row(row)["prompt"], tokenizer, {"tools": list(row.get("tools") or schemas)})
    ids: list[int] = []
    given: list[bool] = []
    results: list[list[int]] = []
    spoken = False  # whether a turn of the model came before
    for message in check_completion(row.get("completion")):
        if message["role"] == "tool":
            results.append(frame.encode(message["content"]))
            continue
        if spoken:
            between = frame.between(results, tokenizer.eos_token_id)
            ids, given = ids + between, given + [True] * len(between)
        turn = encode_answer(_text_of(message, call_format), tokenizer, tokenizer.eos_token_id)
        ids, given = ids + turn, given + [False] * len(turn)
        results, spoken = [], True
    return Sample(row, prompt, ids, truncated=False, given=given if any(given) else None)


def _text_of(message: Mapping[str, Any], call_format: CallFormat) -> str:
    parts = [message["content"]] if message["content"] else []
    for each in message.get("tool_calls") or []:
        function = each.get("function", each)
        call = ToolCall(function["name"], function["arguments"])
        parts.append(f"{call_format.start}{call_format.write(call)}{call_format.end}")
    return "\n".join(parts)


def check_completion(messages: Any) -> list[Mapping[str, Any]]:
    """The completion of a row; `ValueError` unless messages in which results stand between the model's turns."""
    form = "messages of 'assistant', each but the last followed by one of 'tool' or more"
    if not isinstance(messages, Sequence) or isinstance(messages, str) or not messages:
        raise ValueError(f"completion of a row is {messages!r}; it must be a list of {form}")
    roles = []
    for message in messages:
        if not isinstance(message, Mapping) or not isinstance(message.get("content"), str):
            raise ValueError(f"completion of a row has {message!r}; a message has a 'role' and a text as 'content'")
        roles.append(message.get("role"))
    if roles[0] != "assistant" or roles[-1] != "assistant" or not {*roles} <= {"assistant", "tool"}:
        raise ValueError(f"completion of a row has the roles {roles}; it must be {form}")
    if ("assistant", "assistant") in pairwise(roles):
        raise ValueError(
            f"completion of a row has the roles {roles}: two turns without a result between; it must be {form}"
        )
    return list(messages)


class TrajectoryDataset(SupervisedDataset):
    """Conversations with tools as tokens, with labels on the model's turns alone.

    Args:
        rows: Rows as `encode_trajectory` takes them.
        tokenizer: The tokenizer.
        tools: The tools that the prompts tell of. None: each row has "tools", JSON schemas of its own.
        call_format: How calls are written. None: as `CallFormat` has it.

    Raises:
        ValueError: There are no rows, one is of another form or without tools, the tokenizer has no end token, or its
            chat template does not show the tools.
    """

    def __init__(
        self,
        rows: Sequence[Mapping[str, Any]],
        tokenizer: Any,
        tools: Sequence[Callable[..., Any]] | None,
        call_format: CallFormat | None = None,
    ) -> None:
        self._format = call_format or CallFormat()
        self._schemas = Toolbox(tools or []).schemas
        if tools is None and (missing := [index for index, row in enumerate(rows) if not row.get("tools")]):
            raise ValueError(f"row {missing[0]} has no 'tools'; give it their JSON schemas, or all rows tools=[…]")
        told = {str(schemas): schemas for schemas in [self._schemas, *(row.get("tools") or [] for row in rows)]}
        for schemas in told.values():
            check_shows_tools(tokenizer, schemas, {})
        self._frame = ResultFrame(tokenizer, {})
        super().__init__(rows, tokenizer)

    def _encode(self, row: Mapping[str, Any]) -> dict[str, list[int]]:
        sample = encode_trajectory(row, self._tokenizer, self._schemas, self._frame, self._format)
        flags = sample.given or [False] * len(sample.completion_ids)
        turns = [IGNORED if flag else token for token, flag in zip(sample.completion_ids, flags, strict=True)]
        return {
            "input_ids": sample.prompt_ids + sample.completion_ids,
            "labels": [IGNORED] * len(sample.prompt_ids) + turns,
        }
