"""Chat templates with tools: what stands around results, and a template for models whose own knows no tools."""

from collections.abc import Mapping, Sequence
from typing import Any

from llm_rl.rollout.data import plain_ids
from llm_rl.rollout.pictures import refuse_pictures

_ANSWER, _RESULT = "0answer0of0the0model0", "0result{}0of0a0tool0"

TOOL_CHAT_TEMPLATE = r"""
{%- set opened = messages[0]['role'] == 'system' -%}
{%- set system = messages[0]['content'] if opened else '' -%}
{%- if tools or system -%}
{{ '<|im_start|>system\n' + system }}
{%- if tools -%}
{{ ('\n\n' if system else '') + 'You can call these tools, each described by a JSON schema:\n\n' }}
{%- for tool in tools -%}{{ tool | tojson }}{{ '\n' }}{%- endfor -%}
{{ '\nA call is written so:\n\n<tool_call>\n{"name": "NAME", "arguments": {"PARAMETER": VALUE}}\n</tool_call>\n\n' }}
{{- 'Then wait: the result comes in the next message. A message without a call is your final answer.' }}
{%- endif -%}
{{ '<|im_end|>\n' }}
{%- endif -%}
{%- for message in (messages[1:] if opened else messages) -%}
{{ '<|im_start|>' + message['role'] + '\n' }}
{%- if message['role'] == 'tool' -%}
{{ '<tool_response>\n' + message['content'] + '\n</tool_response>' }}
{%- else -%}
{{ message['content'] or '' }}
{%- for call in message['tool_calls'] or [] -%}
{%- set function = call['function'] or call -%}
{{ '\n' if message['content'] or not loop.first else '' }}
{{- '<tool_call>\n{"name": ' }}{{ function['name'] | tojson }}{{ ', "arguments": ' }}
{{- function['arguments'] | tojson }}{{ '}\n</tool_call>' }}
{%- endfor -%}
{%- endif -%}
{{ '<|im_end|>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\n' }}{%- endif -%}
"""
"""ChatML with tools, for models with the tokens `<|im_start|>` and `<|im_end|>` such as SmolLM2. See docs/tools.md."""


def check_shows_tools(tokenizer: Any, schemas: Sequence[Mapping[str, Any]], arguments: Mapping[str, Any]) -> None:
    """Raises `ValueError` for a processor, for no chat template, and for one that leaves out the name of a tool."""
    refuse_pictures(tokenizer, "tools")
    remedy = "set processing_class.chat_template = llm_rl.TOOL_CHAT_TEMPLATE, or another one with tools"
    if getattr(tokenizer, "chat_template", None) is None:
        raise ValueError(f"the tokenizer has no chat template, which tools are told by; {remedy}")
    shown = _rendered(tokenizer, [{"role": "user", "content": "x"}], {**arguments, "tools": list(schemas)})
    for schema in schemas:
        if schema["function"]["name"] not in shown:
            raise ValueError(f"the chat template does not show the tool {schema['function']['name']!r}; {remedy}")


class ResultFrame:
    """The tokens between a turn of the model and its next one, as a chat template has them, with results in between.

    Results are encoded for themselves and special tokens in them as plain text, so that no result can end a message.
    """

    def __init__(self, tokenizer: Any, arguments: Mapping[str, Any]) -> None:
        self._tokenizer, self._arguments = tokenizer, arguments
        self._pieces: dict[int, tuple[str, ...]] = {}

    def encode(self, text: str) -> list[int]:
        """The tokens of a result."""
        return plain_ids(text, self._tokenizer, split_special_tokens=True)

    def between(self, results: Sequence[Sequence[int]], last_token: int) -> list[int]:
        """What stands behind a turn of the model and before its next one: at least one result, with its surroundings.

        If the turn's last token is not the end token that the template puts behind a turn, that comes first.
        `ValueError` where the template drops what the model wrote, or results.
        """
        if len(results) not in self._pieces:
            self._pieces[len(results)] = self._split(len(results))
        head, *others = self._pieces[len(results)]
        end = self._tokenizer.decode([last_token], skip_special_tokens=False)
        ids = plain_ids(head.removeprefix(end), self._tokenizer)
        for result, piece in zip(results, others, strict=True):
            ids += [*result, *plain_ids(piece, self._tokenizer)]
        return ids

    def _split(self, count: int) -> tuple[str, ...]:
        """The texts before, between and behind results, after a turn of the model."""
        marks = [_RESULT.format(index) for index in range(count)]
        messages = [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": _ANSWER},
            *({"role": "tool", "content": mark} for mark in marks),
        ]
        rest = _rendered(self._tokenizer, messages, self._arguments)
        pieces = []
        for mark in (_ANSWER, *marks):
            before, found, rest = rest.partition(mark)
            if not found:
                raise ValueError(
                    "the chat template drops answers of the model or messages of the role 'tool'; give another one, "
                    "such as llm_rl.TOOL_CHAT_TEMPLATE"
                )
            pieces.append(before)
        return (*pieces[1:], rest)


def _rendered(tokenizer: Any, messages: Sequence[Mapping[str, Any]], arguments: Mapping[str, Any]) -> str:
    return tokenizer.apply_chat_template(list(messages), add_generation_prompt=True, tokenize=False, **arguments)
