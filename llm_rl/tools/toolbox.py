"""Tools: their schemas from type hints and docstrings, and calling one within a limit of time."""

import inspect
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from transformers.utils import get_json_schema

from llm_rl.tools.calls import ToolCall

Outcome = Literal["returned", "refused", "raised", "timed_out"]
NOT_TOOLS = ("reset", "get_reward")
"""Public methods of an environment that the trainer calls, not the model."""

_TYPES: dict[str, tuple[type, ...]] = {
    "integer": (int,),
    "number": (int, float),
    "string": (str,),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


class ToolResult(NamedTuple):
    """What a call gave.

    Attributes:
        text: What the model is told.
        outcome: "returned"; "refused", where there is no such tool or the arguments do not fit; "raised"; "timed_out".
    """

    text: str
    outcome: Outcome


class Toolbox:
    """The tools of an episode, by name.

    Args:
        tools: Functions or bound methods with type hints and a docstring that describes each argument in google style,
            as `transformers.utils.get_json_schema` reads them.

    Attributes:
        schemas: A JSON schema for each, which chat templates take as `tools`.

    Raises:
        ValueError: A tool is no function, is a coroutine function, cannot be described, or two have one name.
    """

    def __init__(self, tools: Sequence[Callable[..., Any]]) -> None:
        self.functions: dict[str, Callable[..., Any]] = {}
        self.schemas: list[dict[str, Any]] = []
        for tool in tools:
            name = getattr(tool, "__name__", None)
            if not callable(tool) or not isinstance(name, str):
                raise ValueError(f"tools has {tool!r}; give functions or methods, with type hints and a docstring")
            if name in self.functions:
                raise ValueError(f"two tools are called {name!r}; rename one of them")
            if inspect.iscoroutinefunction(tool):
                raise ValueError(f"the tool {name!r} is a coroutine function; give a plain function that waits itself")
            try:
                self.schemas.append(get_json_schema(tool))
            except Exception as error:
                raise ValueError(f"the tool {name!r} cannot be described to a model: {error}") from error
            self.functions[name] = tool

    def call(
        self, call: ToolCall, functions: Mapping[str, Callable[..., Any]] | None = None, timeout: float | None = None
    ) -> ToolResult:
        """Call a tool; whatever it raises becomes a text.

        `functions` are those of one episode, by the same names, None those given at first. After `timeout` seconds the
        model is told that the tool did not answer, and its thread is left to itself; None: no limit.
        """
        if call.name not in self.functions:
            return ToolResult(f"Error: there is no tool {call.name!r}, only {sorted(self.functions)}.", "refused")
        if fault := self._fault(call):
            return ToolResult(f"Error: {fault}.", "refused")
        function = (self.functions if functions is None else functions)[call.name]
        try:
            value = _within(lambda: function(**call.arguments), timeout)
        except _TimedOutError:
            return ToolResult(f"Error: {call.name} did not answer within {timeout:g} seconds.", "timed_out")
        except Exception as error:
            return ToolResult(f"Error: {type(error).__name__}: {error}", "raised")
        return ToolResult(value if isinstance(value, str) else json.dumps(value, default=str), "returned")

    def _fault(self, call: ToolCall) -> str | None:
        """What is wrong with the arguments of a call, if anything."""
        (schema,) = [each["function"] for each in self.schemas if each["function"]["name"] == call.name]
        parameters = schema["parameters"]
        known: dict[str, Any] = parameters["properties"]
        for name, value in call.arguments.items():
            if name not in known:
                return f"{call.name} has no argument {name!r}, only {sorted(known)}"
            if not _fits(value, known[name]):
                return f"{name} must be of type {known[name]['type']}, got {json.dumps(value)[:60]}"
        missing = [name for name in parameters.get("required", []) if name not in call.arguments]
        return f"{call.name} lacks the arguments {missing}" if missing else None


def methods_of(environment: Any) -> dict[str, Callable[..., Any]]:
    """The tools of an environment: its public methods but `NOT_TOOLS`, by name."""
    found = inspect.getmembers(environment, inspect.ismethod)
    return {name: method for name, method in found if not name.startswith("_") and name not in NOT_TOOLS}


class _TimedOutError(Exception):
    """A tool did not answer in time."""


def _within(function: Callable[[], Any], timeout: float | None) -> Any:
    """What a function returns or raises, within so many seconds."""
    if timeout is None:
        return function()
    returned: list[Any] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            returned.append(function())
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(timeout)
    if raised:
        raise raised[0]
    if not returned:
        raise _TimedOutError
    return returned[0]


def _fits(value: Any, schema: Mapping[str, Any]) -> bool:
    """Whether a JSON value has the type of a schema, as far as that is one of JSON's names."""
    kind = schema.get("type")
    if value is None:
        return bool(schema.get("nullable")) or kind not in _TYPES
    if not isinstance(kind, str) or kind not in _TYPES:
        return True
    return isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))
