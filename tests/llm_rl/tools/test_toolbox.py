import threading
from typing import Any

import pytest

from llm_rl.tools.calls import ToolCall
from llm_rl.tools.toolbox import Toolbox, ToolResult, methods_of
from tests.helpers.refusals import refused
from tests.llm_rl.helpers.tool_play import Count


def add(a: int, b: float = 1.0, note: str | None = None) -> float:
    """Add two numbers.

    Args:
        a: The first.
        b: The second.
        note: Not read.
    """
    return a + b


def fail(what: str) -> str:
    """Fail.

    Args:
        what: The message.
    """
    raise KeyError(what)


def test_a_schema_comes_from_hints_and_docstring() -> None:
    (schema,) = Toolbox([add]).schemas
    function = schema["function"]
    assert function["name"] == "add" and function["description"] == "Add two numbers."
    assert function["parameters"]["required"] == ["a"]
    assert function["parameters"]["properties"]["a"] == {"type": "integer", "description": "The first."}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"a": 2, "b": 0.5}, ToolResult("2.5", "returned")),
        ({"a": 2, "note": None}, ToolResult("3.0", "returned")),
        ({"a": "2"}, ToolResult('Error: a must be of type integer, got "2".', "refused")),
        ({"a": True}, ToolResult("Error: a must be of type integer, got true.", "refused")),
        ({"a": None}, ToolResult("Error: a must be of type integer, got null.", "refused")),
        ({"a": 2, "c": 1}, ToolResult("Error: add has no argument 'c', only ['a', 'b', 'note'].", "refused")),
        ({"b": 2}, ToolResult("Error: add lacks the arguments ['a'].", "refused")),
    ],
)
def test_calls_with_right_and_wrong_arguments(arguments: dict[str, Any], expected: ToolResult) -> None:
    assert Toolbox([add]).call(ToolCall("add", arguments)) == expected


def test_what_a_tool_raises_becomes_a_text() -> None:
    box = Toolbox([fail])
    assert box.call(ToolCall("fail", {"what": "x"})) == ToolResult("Error: KeyError: 'x'", "raised")
    assert box.call(ToolCall("fail", {"what": "x"}), timeout=5.0).outcome == "raised"
    assert box.call(ToolCall("add", {})) == ToolResult("Error: there is no tool 'add', only ['fail'].", "refused")


def test_a_tool_that_does_not_answer_in_time() -> None:
    done = threading.Event()

    def wait() -> bool:
        """Wait."""
        return done.wait(20)

    try:
        result = Toolbox([wait]).call(ToolCall("wait", {}), timeout=0.05)
        assert result == ToolResult("Error: wait did not answer within 0.05 seconds.", "timed_out")
    finally:
        done.set()
    assert Toolbox([wait]).call(ToolCall("wait", {}), timeout=5.0) == ToolResult("true", "returned")


class Hiding(Count):
    def _hidden(self) -> None: ...


def test_the_tools_of_an_environment_are_its_other_public_methods() -> None:
    first, second = Hiding(), Hiding()
    assert list(methods_of(first)) == ["up"]
    box = Toolbox([*methods_of(first).values()])
    for expected in ("\nb1", "\nb2"):
        assert box.call(ToolCall("up", {"by": 1}), methods_of(second)).text == expected
    assert (first.count, second.count) == (0, 2)


def test_what_is_no_tool() -> None:
    async def later() -> None:
        """Wait."""

    def bare(a): ...  # type: ignore[no-untyped-def]

    refused("two tools are called 'add'", lambda: Toolbox([add, add]))
    refused("'later' is a coroutine function", lambda: Toolbox([later]))
    refused(r"'bare' cannot be described to a model: .*docstring", lambda: Toolbox([bare]))
    refused("tools has 3", lambda: Toolbox([3]))  # type: ignore[list-item]
