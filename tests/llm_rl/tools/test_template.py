"""The chat template with tools, and what stands between turns in templates of other kinds."""

import pytest

from llm_rl.tools.calls import CallFormat, ToolCall, find_calls
from llm_rl.tools.template import ResultFrame, check_shows_tools
from llm_rl.tools.toolbox import Toolbox
from tests.helpers.refusals import refused
from tests.llm_rl.helpers.tiny_grpo import CHAT, with_template
from tests.llm_rl.helpers.tool_play import END, chat_tokenizer


def look(place: str) -> str:
    """Look somewhere.

    Args:
        place: Where.
    """
    return place


def test_our_template_shows_tools_calls_and_results() -> None:
    call = {"type": "function", "function": {"name": "look", "arguments": {"place": 'a "b" <c>'}}}
    messages = [
        {"role": "system", "content": "Be good."},
        {"role": "user", "content": "Where?"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "here"},
    ]
    schemas = Toolbox([look]).schemas
    text = chat_tokenizer().apply_chat_template(messages, tools=schemas, add_generation_prompt=True, tokenize=False)
    system, user, assistant, tool, opened = text.split("<|im_start|>")[1:]
    assert system.startswith("system\nBe good.\n\nYou can call these tools") and '"description": "Where."' in system
    assert user == f"user\nWhere?{END}\n" and tool == f"tool\n<tool_response>\nhere\n</tool_response>{END}\n"
    assert find_calls(assistant, CallFormat()) == [ToolCall("look", {"place": 'a "b" <c>'})]
    assert opened == "assistant\n"


def test_what_stands_between_turns_is_the_templates() -> None:
    """After an end token that the model wrote, after none, and for two results; in a template that groups them."""
    grouping = (
        "{% for m in messages %}{% if m.role == 'tool' %}"
        "{% if messages[loop.index0 - 1].role != 'tool' %}USER {% endif %}[{{ m.content }}]"
        "{% if loop.last or messages[loop.index0 + 1].role != 'tool' %}<|im_end|>{% endif %}"
        "{% else %}{{ m.role }} {{ m.content }}<|im_end|> {% endif %}{% endfor %}"
        "{% if add_generation_prompt %}GO{% endif %}"
    )
    names = with_template(chat_tokenizer(), grouping)
    frame = ResultFrame(names, {})
    results = [frame.encode("one"), frame.encode("two")]
    end, other = names.eos_token_id, names("x")["input_ids"][0]
    assert names.decode(frame.between(results, end)) == " USER [one][two]<|im_end|>GO"
    assert names.decode(frame.between(results[:1], other)) == "<|im_end|> USER [one]<|im_end|>GO"


def test_templates_that_do_not_do() -> None:
    schemas = Toolbox([look]).schemas
    check_shows_tools(chat_tokenizer(), schemas, {})
    with pytest.raises(ValueError, match=r"does not show the tool 'look'; set processing_class.chat_template"):
        check_shows_tools(with_template(chat_tokenizer(), CHAT), schemas, {})
    refused("has no chat template", lambda: check_shows_tools(with_template(chat_tokenizer(), None), schemas, {}))
    silent = with_template(
        chat_tokenizer(), "{% for m in messages %}{% if m.role != 'tool' %}{{ m.content }}{% endif %}{% endfor %}"
    )
    with pytest.raises(ValueError, match="drops answers of the model or messages of the role 'tool'"):
        ResultFrame(silent, {}).between([[1]], 0)
