"""Calls of tools in what a model writes: how they look, and how they are read."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from llm_rl.rollout.generation import SamplingParams

QUOTED = 60
"""Characters of a call that an error shows."""


@dataclass(frozen=True)
class ToolCall:
    """A call as a model wrote it, its arguments as JSON has them; whether there is such a tool is not looked at."""

    name: str
    arguments: Mapping[str, Any]


class CallError(ValueError):
    """A call that cannot be read; the message is meant for the model."""


def read_json_calls(body: str) -> list[ToolCall]:
    """The calls between two tags: `{"name": …, "arguments": {…}}`, or a list of such; else a `CallError`."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        reason = "too deeply nested" if isinstance(error, RecursionError) else str(error)
        raise CallError(f"the call {_quoted(body)} is no JSON: {reason}") from None
    calls = []
    for each in found if isinstance(found, list) else [found]:
        arguments = each.get("arguments", {}) if isinstance(each, dict) else None
        if not isinstance(arguments, dict) or not isinstance(each.get("name"), str):
            raise CallError(f'the call {_quoted(body)} is not of the form {{"name": "…", "arguments": {{…}}}}')
        calls.append(ToolCall(each["name"], arguments))
    return calls


def write_json_call(call: ToolCall) -> str:
    """The text between two tags that `read_json_calls` reads as a call."""
    return "\n" + json.dumps({"name": call.name, "arguments": dict(call.arguments)}, ensure_ascii=False) + "\n"


@dataclass(frozen=True)
class CallFormat:
    """How a model writes calls.

    Attributes:
        start: What stands before a call.
        end: What stands behind it.
        result_start: What a result begins with. A model that writes it makes up a result: its turn ends there.
        read: From the text between `start` and `end` to the calls; raises `CallError`.
        write: From a call to the text between them, for the turns of an expert.
    """

    start: str = "<tool_call>"
    end: str = "</tool_call>"
    result_start: str = "<tool_response>"
    read: Callable[[str], list[ToolCall]] = read_json_calls
    write: Callable[[ToolCall], str] = write_json_call

    def __post_init__(self) -> None:
        for name in ("start", "end", "result_start"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise ValueError(f"{name} is {getattr(self, name)!r}; it must be a text that is not empty")

    def ending(self, params: SamplingParams, tokenizer: Any) -> SamplingParams:
        """Sampling that also ends at the token that a result begins with, where that is one token."""
        stop = tokenizer.get_vocab().get(self.result_start)
        ends = {*params.eos_token_ids, *([] if stop is None else [int(stop)])}
        return replace(params, eos_token_ids=tuple(sorted(ends)))


def find_calls(text: str, call_format: CallFormat) -> list[ToolCall | CallError]:
    """The calls of a turn in order, and an error in the place of each that cannot be read; none: a final answer."""
    found: list[ToolCall | CallError] = []
    position = text.find(call_format.start)
    while position >= 0:
        begin = position + len(call_format.start)
        end = text.find(call_format.end, begin)
        if end < 0:
            found.append(CallError(f"the call {_quoted(text[begin:])} does not end with {call_format.end}"))
            break
        try:
            found += call_format.read(text[begin:end])
        except CallError as error:
            found.append(error)
        position = text.find(call_format.start, end + len(call_format.end))
    return found


def _quoted(text: str) -> str:
    text = text.strip()
    return repr(text[:QUOTED]) + ("…" if len(text) > QUOTED else "")
