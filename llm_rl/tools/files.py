"""Conversations with tools from files of JSON lines."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llm_rl.rollout.loading import read_lines
from llm_rl.tools.trajectories import check_completion

FORM = '{"messages": [{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}, …]}'


class TrajectoryFileError(ValueError):
    """A file of conversations cannot be read; the message names the file, the line and the remedy."""


def read_trajectories(path: str | Path) -> list[dict[str, Any]]:
    """Rows for `TrajectoryDataset` from a file of JSON lines, one conversation a line; empty lines are passed over.

    A line is an object with "prompt" and "completion" as `encode_trajectory` takes them, such as a line of
    `completions.jsonl`, or with "messages", the whole conversation: all up to the first turn of the model is then the
    prompt, the rest the completion. The arguments of calls may be objects or, as servers write them, JSON in a text; a
    content of null is an empty text. "tools", the JSON schemas of the conversation's own tools, and all other columns
    stay.

    Args:
        path: The file, in UTF-8.

    Raises:
        TrajectoryFileError: There is no such file, it has no row, or a line cannot be used.
    """
    try:
        return read_lines(path, _row, f"one conversation a line, as {FORM}")
    except (OSError, UnicodeDecodeError) as error:
        raise TrajectoryFileError(f"{path} cannot be read ({error}); name a file of JSON lines in UTF-8") from error
    except ValueError as error:
        raise TrajectoryFileError(str(error)) from error


def _row(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        reason = "too deeply nested" if isinstance(error, RecursionError) else str(error)
        raise ValueError(f"not JSON ({reason}); write one object a line, without line breaks in it") from None
    if not isinstance(found, dict):
        raise ValueError(f"a {type(found).__name__}, {line[:60]}; write an object, as {FORM}")
    if "messages" in found:
        found = _split(found)
    if "prompt" not in found or "completion" not in found:
        raise ValueError(f"has {sorted(found)}; give 'messages', or 'prompt' and 'completion'")
    prompt, completion = (_messages(found[name]) for name in ("prompt", "completion"))
    if not isinstance(prompt, list) or not prompt:
        raise ValueError(f"'prompt' is {str(prompt)[:60]!r}; it must be a list of messages, as tools are told by them")
    for message in prompt:
        if not isinstance(message, dict) or not all(isinstance(message.get(key), str) for key in ("role", "content")):
            raise ValueError(f"the prompt has {str(message)[:60]!r}; a message has texts as 'role' and 'content'")
    if "tools" in found:
        _check_tools(found["tools"])
    return {**found, "prompt": prompt, "completion": check_completion(completion)}


def _check_tools(tools: Any) -> None:
    """Whether these are JSON schemas of tools, at least one."""
    functions = [tool.get("function") if isinstance(tool, dict) else None for tool in tools or [None]]
    if not isinstance(tools, list) or not all(
        isinstance(f, dict) and isinstance(f.get("name"), str) for f in functions
    ):
        raise ValueError(
            f"'tools' is {str(tools)[:60]!r}; give a list of {{'type': 'function', 'function': {{'name': …}}}}, or none"
        )


def _split(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with the conversation cut before the first turn of the model."""
    messages = row["messages"]
    roles = [m.get("role") if isinstance(m, dict) else None for m in messages] if isinstance(messages, list) else []
    if "assistant" not in roles or roles[0] == "assistant":
        raise ValueError(
            f"'messages' has the roles {roles}; give a list that begins with 'system' or 'user' and has an 'assistant'"
        )
    first = roles.index("assistant")
    if "user" in roles[first:]:
        raise ValueError(
            "the user speaks again after a turn of the model; make it two rows, the second with all before that in its "
            "'prompt' and what follows in its 'completion'"
        )
    kept = {name: value for name, value in row.items() if name != "messages"}
    return {**kept, "prompt": messages[:first], "completion": messages[first:]}


def _messages(messages: Any) -> Any:
    """Messages in the one form that templates take; anything else as it is."""
    return [_message(message) for message in messages] if isinstance(messages, list) else messages


def _message(message: Any) -> Any:
    """A message whose content is a text and whose calls have arguments as objects."""
    if not isinstance(message, dict):
        return message
    calls = message.get("tool_calls")
    changed = {**message, "content": "" if message.get("content") is None and calls else message.get("content")}
    if not calls:
        return {name: value for name, value in changed.items() if name != "tool_calls"}
    return {**changed, "tool_calls": [_call(each) for each in (calls if isinstance(calls, list) else [calls])]}


def _call(call: Any) -> dict[str, Any]:
    """A call of the form `{"type": "function", "function": {"name": …, "arguments": {…}}}`."""
    function = call.get("function", call) if isinstance(call, dict) else None
    arguments = function.get("arguments", {}) if isinstance(function, dict) else None
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError as error:
            raise ValueError(f"the arguments {arguments[:60]!r} of a call are no JSON ({error}); mend them") from None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str) or not isinstance(arguments, dict):
        raise ValueError(
            f"'tool_calls' has {str(call)[:60]!r}; write {{'function': {{'name': '…', 'arguments': {{…}}}}}}"
        )
    return {"type": "function", "function": {"name": function["name"], "arguments": arguments}}
