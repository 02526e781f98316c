import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_rl.tools.calls import CallError, CallFormat, ToolCall, find_calls
from tests.helpers.refusals import refused

FORMAT = CallFormat()


def call(body: str) -> str:
    return f"<tool_call>\n{body}\n</tool_call>"


def test_calls_are_read_in_order_whatever_stands_around_them() -> None:
    place, hint = call('{"name": "place", "arguments": {"row": 1}}'), call('{"name": "hint"}')
    text = f"I try. {place} and {hint} now"
    assert find_calls(text, FORMAT) == [ToolCall("place", {"row": 1}), ToolCall("hint", {})]
    both = call('[{"name": "a"}, {"name": "b", "arguments": {}}]')
    assert find_calls(both, FORMAT) == [ToolCall("a", {}), ToolCall("b", {})]
    assert find_calls("The answer is 4.", FORMAT) == []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("place 1 2 3", "is no JSON: Expecting value"),
        ('{"name": 3}', "is not of the form"),
        ('"place"', "is not of the form"),
        ('{"name": "place", "arguments": "{}"}', "is not of the form"),
        ('[{"name": "place"}, 4]', "is not of the form"),
        ("[" * 100_000, "too deeply nested"),
    ],
)
def test_a_call_that_cannot_be_read_says_what_is_wrong(body: str, said: str) -> None:
    first, second = find_calls(call(body) + call('{"name": "hint"}'), FORMAT)
    assert isinstance(first, CallError) and said in str(first) and len(str(first)) < 200
    assert second == ToolCall("hint", {})


def test_a_call_without_an_end_is_an_error() -> None:
    (error,) = find_calls('<tool_call>{"name": "hint"}', FORMAT)
    assert isinstance(error, CallError) and "does not end with </tool_call>" in str(error)


def test_a_format_of_ones_own() -> None:
    def read(body: str) -> list[ToolCall]:
        name, *numbers = body.split()
        return [ToolCall(name, dict(zip("rcd", map(int, numbers), strict=False)))]

    own = CallFormat("[", "]", "=>", read)
    assert find_calls("so [place 1 2 3]", own) == [ToolCall("place", {"r": 1, "c": 2, "d": 3})]
    refused("result_start is ''", lambda: CallFormat(result_start=""))


JSON: Any = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda each: st.lists(each, max_size=3))


@given(st.lists(st.tuples(st.text(min_size=1), st.dictionaries(st.text(), JSON, max_size=3)), max_size=3))
def test_what_is_written_as_json_is_read_again(calls: list[tuple[str, dict[str, Any]]]) -> None:
    written = "".join(call(json.dumps({"name": name, "arguments": given})) for name, given in calls)
    if "<tool_call>" not in json.dumps(calls) and "</tool_call>" not in json.dumps(calls):
        assert find_calls(written, FORMAT) == [ToolCall(*each) for each in calls]
