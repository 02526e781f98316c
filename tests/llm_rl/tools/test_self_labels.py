"""Self-labelling on a bigram model whose probabilities are given, so that each number is worked out by hand."""

from collections.abc import Mapping
from math import log
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from llm_rl.rollout.sft import IGNORED
from llm_rl.tools.calls import CallError, CallFormat, ToolCall
from llm_rl.tools.self_labels import SelfLabelOptions, SelfLabels, following_loss, self_labelled_rows
from llm_rl.tools.trajectories import TrajectoryDataset
from tests.helpers.refusals import refused
from tests.llm_rl.helpers.tiny_grpo import with_template
from tests.llm_rl.helpers.tool_play import END, ScriptedEngine, chat_model, chat_tokenizer

TEMPLATE = (
    "{% for tool in tools or [] %}{{ tool.function.name }}{% endfor %}"
    "{% for m in messages %}{% if m.role == 'tool' %}={{ m.content }}{% else %}{{ m.content }}<|im_end|>{% endif %}"
    "{% endfor %}"
)
"""A result stands between `=` and what the model writes next."""
ROW = {"prompt": [{"role": "user", "content": "?"}], "chosen": "so 7!x", "of": "a friend"}
BIGRAMS = {
    " ": {"[": 0.5, "7": 0.1}, "7": {"!": 0.25, "[": 0.2}, "=": {"7": 0.2, "!": 0.3}, "6": {"7": 0.8, "!": 0.01},
    "3": {"7": 0.05, "!": 0.9}, "!": {"x": 0.4, "[": 0.01},
}  # fmt: skip


def read(body: str) -> list[ToolCall]:
    if not body.isdecimal():
        raise CallError("no number")
    return [ToolCall("after", {"number": int(body)})]


FORMAT = CallFormat("[", "]", "=", read)


def after(number: int) -> str:
    """The number that follows.

    Args:
        number: Any number.
    """
    if number == 9:
        raise ValueError("too large")
    return str(number + 1)


def names() -> Any:
    return with_template(chat_tokenizer(), TEMPLATE)


def bigram_model(probabilities: Mapping[str, Mapping[str, float]]) -> LlamaForCausalLM:
    """A Llama without layers: p(next | last) as given, what is left over is shared evenly by all other tokens."""
    size = len(chat_tokenizer())
    config = LlamaConfig(
        vocab_size=size, hidden_size=size, head_dim=2, num_attention_heads=1, num_hidden_layers=0, rms_norm_eps=0.0,
        tie_word_embeddings=False,
    )  # fmt: skip
    model = LlamaForCausalLM(config).double()
    table = torch.full((size, size), 1 / size, dtype=torch.float64)  # (last, next)
    for last, row in probabilities.items():
        table[token(last)] = (1 - sum(row.values())) / (size - len(row))
        for following, probability in row.items():
            table[token(last), token(following)] = probability
    model.model.embed_tokens.weight.data = torch.eye(size, dtype=torch.float64)
    model.lm_head.weight.data = table.log().T / size**0.5  # the norm scales a one-hot state by the root of its size
    return model


def token(letter: str) -> int:
    (found,) = chat_tokenizer()(letter, add_special_tokens=False)["input_ids"]
    return int(found)


def label(engine: ScriptedEngine, bigrams: Mapping[str, Mapping[str, float]] = BIGRAMS, **options: Any) -> SelfLabels:
    given: dict[str, Any] = {"options": SelfLabelOptions(**{"calls": 2, "filter_threshold": 0.1, **options})}
    return self_labelled_rows(
        bigram_model(bigrams), names(), [dict(ROW)], [after], call_format=FORMAT, engine=engine, **given
    )


def test_the_weights_of_the_tokens_that_follow() -> None:
    logprobs = -torch.tensor([[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [3.0, torch.nan, 1.0, 1.0, 1.0, 1.0]])
    mask = torch.tensor([[True] * 6, [True] + [False] * 5])
    expected = (5 * 1 + 4 * 2 + 3 * 3 + 2 * 4 + 1 * 5) / 15
    assert following_loss(logprobs, mask).tolist() == pytest.approx([expected, 3 / 3])
    assert following_loss(logprobs, mask, reach=1).tolist() == pytest.approx([1.0, 3.0])
    assert following_loss(logprobs, mask, reach=2).tolist() == pytest.approx([(2 * 1 + 1 * 2) / 3, 2 * 3 / 3])
    refused("reach is 0", lambda: following_loss(logprobs, mask, reach=0))


def test_a_call_stays_where_its_result_helps() -> None:
    """A call is likely behind the blank (0.5) and the 7 (0.2); 6 and then 3 are what it gives there.

    Before the 7: nothing −ln 0.1, an empty result −ln 0.2, the result 6 −ln 0.8, and w_0 = 1/3: (ln 0.8 − ln 0.2)/3.
    Before the !: nothing −ln 0.25, empty −ln 0.3, the result 3 −ln 0.9: (ln 0.9 − ln 0.3)/3.
    """
    engine = ScriptedEngine(["5]", "2]", "2]", "2]"])
    found = label(engine)
    (row,) = found.rows
    assert row["of"] == "a friend" and row["gains"] == pytest.approx([log(4) / 3, log(3) / 3])
    assert row["completion"] == [
        {"role": "assistant", "content": "so [5]"},
        {"role": "tool", "content": "6"},
        {"role": "assistant", "content": "7[2]"},
        {"role": "tool", "content": "3"},
        {"role": "assistant", "content": "!x"},
    ]
    assert found.counts == {"rows": 1, "places": 2, "sampled": 4, "unreadable": 0, "returned": 3, "kept": 2}
    tokenizer = names()
    asked = [tokenizer.decode(ids) for ids in engine.asked[0]]
    assert asked == [f"after?{END}so ["] * 2 + [f"after?{END}so 7["] * 2


def test_the_loss_without_a_call_counts_too() -> None:
    """Where nothing is better than an empty result: −ln 0.6 against −ln 0.2, and 6 gives ln(0.8 / 0.6)/3 = 0.0959."""
    bigrams = {**BIGRAMS, " ": {"[": 0.3, "7": 0.6}}
    scripts = ["5]", "5]", "9]", "9]"]
    (row,) = label(ScriptedEngine(scripts), bigrams, filter_threshold=0.095).rows
    assert row["gains"] == pytest.approx([log(0.8 / 0.6) / 3])
    assert label(ScriptedEngine(scripts), bigrams, filter_threshold=0.097).rows == []


def test_places_are_the_likeliest_above_the_threshold() -> None:
    for options, texts in (
        ({"positions": 1, "calls": 1}, ["so "]),
        ({"sampling_threshold": 0.005, "calls": 1}, ["so ", "so 7", "so 7!"]),
        ({"sampling_threshold": 0.0, "calls": 1, "positions": 4}, ["", "so ", "so 7", "so 7!"]),
        ({"sampling_threshold": 0.6}, []),
    ):
        engine, tokenizer = ScriptedEngine(["x"] * len(texts)), names()
        found = label(engine, **options)
        before = [tokenizer.decode(ids) for asked in engine.asked for ids in asked]
        assert (
            before == [f"after?{END}{text}[" for text in texts]
            and found.rows == []
            and found.counts["unreadable"] == len(texts)
        ), options


def test_calls_that_are_none_and_tools_that_fail_are_counted() -> None:
    scripts = ["5", "x]", "9]", "5]", "5]5]", "2]", "5]", f"2{END}]"]
    found = label(ScriptedEngine(scripts), calls=4)
    assert found.counts == {"rows": 1, "places": 2, "sampled": 8, "unreadable": 3, "returned": 3, "kept": 2}
    assert [m["content"] for m in found.rows[0]["completion"] if m["role"] == "tool"] == ["6", "3"], "the best of two"
    long = label(ScriptedEngine(["12]", "5]"]), positions=1, max_result_tokens=1)
    assert long.counts["returned"] == 1


def test_gains_are_those_of_the_conversation_that_is_trained_on() -> None:
    """On a model with attention, against the losses of whole conversations, each encoded as training does."""
    model, tokenizer = chat_model(), chat_tokenizer()
    row = {"prompt": [{"role": "user", "content": "Count"}], "chosen": "so it is 4"}
    call = '<tool_call>\n{"name": "after", "arguments": {"number": 3}}\n</tool_call>'
    scripts = [call.removeprefix("<tool_call>"), "none"]
    options = SelfLabelOptions(2, 0.0, 1, filter_threshold=-100.0, reach=3, max_call_tokens=100, batch_size=2)
    given: dict[str, Any] = {"options": options, "engine": ScriptedEngine(scripts)}
    (found,) = self_labelled_rows(model, tokenizer, [row], [after], **given).rows
    first, told, last = (message["content"] for message in found["completion"])
    before = first.removesuffix(call)
    assert before + last == row["chosen"] and told == "4"

    def loss(*completion: dict[str, str]) -> float:
        conversation = {"prompt": row["prompt"], "completion": list(completion)}
        item = TrajectoryDataset([conversation], tokenizer, [after]).items[0]
        logps = model(torch.tensor([item["input_ids"]])).logits[0].log_softmax(-1)
        learned = [i for i, label in enumerate(item["labels"]) if label != IGNORED]
        places = learned[-1 - len(last.encode()) :][:3]  # the last is the end token
        weights = [3 / 6, 2 / 6, 1 / 6]
        terms = zip(weights, places, strict=True)
        return -sum(weight * logps[place - 1, item["input_ids"][place]].item() for weight, place in terms)

    def turn(content: str, role: str = "assistant") -> dict[str, str]:
        return {"role": role, "content": content}

    plain = loss(turn(before + last))
    empty, full = (loss(turn(first), turn(said, "tool"), turn(last)) for said in ("", "4"))
    assert found["gains"] == pytest.approx([min(plain, empty) - full], abs=1e-9)


def test_what_self_labelling_needs() -> None:
    model, tokenizer = chat_model(), chat_tokenizer()
    for row, said in (
        ({"prompt": "?", "chosen": "a"}, "row 0: 'prompt' must be messages and 'chosen' a text"),
        ({"prompt": ROW["prompt"], "chosen": None}, "row 0: 'prompt' must be messages"),
        ({"prompt": ROW["prompt"], "chosen": "a" * 4000}, "exceed the model's 4096 positions; shorten them"),
    ):
        with pytest.raises(ValueError, match=said):
            self_labelled_rows(model, tokenizer, [row], [after])
    refused("sampling_threshold is 1", lambda: SelfLabelOptions(sampling_threshold=1.0))
    refused("calls is 0", lambda: SelfLabelOptions(calls=0))
