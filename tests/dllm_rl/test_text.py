"""Answers of a form, against enumeration and against a check that is tried; plain text in, plain text out."""

import json
import re
import sys
from dataclasses import replace
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from dllm_rl import Decoding, Pattern, TextBatch, UnmaskArguments, UnmaskTrainer, complete, decode
from dllm_rl.models.adapter import as_policy_model
from dllm_rl.text.automaton import Automaton, Sets
from dllm_rl.text.pattern import token_texts
from scripts.shared.small_tokenizer import build_small_tokenizer
from tests.dllm_rl.helpers.tiny_text import text_model, tokenizer
from tests.dllm_rl.helpers.weights import moved_from, weights
from tests.dllm_rl.models.test_adapter_training import dream_model
from tests.helpers import SHORT
from tests.helpers.refusals import refused
from tests.llm_rl.rollout.test_spans import byte_fallback, byte_level, unigram

MASK, END, PAD = 4, 5, 6
NAME, AGE = {"type": "string", "minLength": 1, "maxLength": 9}, {"type": "integer"}
RECORD = {"type": "object", "properties": {"name": NAME, "age": AGE}, "required": ["name", "age"]}


def words(*names: str) -> PreTrainedTokenizerFast:
    """A tokenizer of these four tokens, and those above."""
    vocabulary = {name: token for token, name in enumerate([*names, "<mask>", "<eos>", "<pad>"])}
    backend = Tokenizer(models.WordLevel(vocabulary))
    backend.decoder = decoders.Fuse()
    special = {"mask_token": "<mask>", "eos_token": "<eos>", "pad_token": "<pad>"}
    return PreTrainedTokenizerFast(tokenizer_object=backend, **special)


def completions(answer: Any, tokens: list[int]) -> list[tuple[int, ...]]:
    return list(product(*(tokens if token == MASK else [token] for token in answer)))


@settings(max_examples=150)
@given(st.randoms(use_true_random=False))
def test_sets_are_those_of_enumeration_and_stay_so_while_an_answer_is_written(drawn) -> None:
    states, length = drawn.randint(1, 5), drawn.randint(1, 4)
    moves = [{token: drawn.randrange(states) for token in range(4) if drawn.random() < 0.4} for _ in range(states)]
    final = {state for state in range(states) if drawn.random() < 0.5}

    def accepted(answer: tuple[int, ...]) -> bool:
        state: int | None = 0
        for token in answer:
            state = None if state is None else moves[state].get(token)
        return state in final

    answer, row = [drawn.choice([0, 1, 2, 3, *[MASK] * 6]) for _ in range(length)], torch.tensor([0])
    sets = Sets(Automaton(dict(enumerate(moves)), 0, final), torch.tensor([answer]), MASK)
    for position in drawn.sample(range(length), length):
        fresh = Sets(sets.automaton, torch.from_numpy(sets.answers), MASK)
        assert (fresh.forward == sets.forward).all() and (fresh.backward == sets.backward).all()
        right = [each for each in completions(sets.answers[0].tolist(), [0, 1, 2, 3]) if accepted(each)]
        assert sets.completable().tolist() == [bool(right)]
        if sets.answers[0, position] == MASK:
            may = {each[position] for each in right}
            assert sets.tokens(row, row + position, 9).nonzero()[:, 1].tolist() == sorted(may)
            tried = [drawn.choice([0, 1, 2, 3, MASK, 8]) for _ in range(drawn.randint(1, 3))]
            holds, which = sets.write(row, row + position, torch.tensor([tried]))
            first = next((token for token in tried if token in may), MASK)
            assert (bool(holds), sets.answers[0, position]) == (first != MASK, first) and (not holds or which == first)


REGEX = st.recursive(
    st.sampled_from(["a", "b", "[ab]", "ab"]),
    lambda part: st.builds("({}{}{}){}".format, part, st.sampled_from(["|", ""]), part, st.sampled_from(["", *"*?+"])),
    max_leaves=5,
)


@settings(max_examples=60)
@given(st.randoms(use_true_random=False), REGEX, st.booleans())
def test_a_pattern_is_that_of_the_text_that_its_tokens_spell(drawn, regex, exact) -> None:
    names = ["a", "b", *drawn.sample(["aa", "ab", "ba", "bb", "aba", "abb"], 2)]

    def right(answer: tuple[int, ...]) -> bool:
        cut = len(answer) if exact or END not in answer else answer.index(END)
        spelled = max(answer[:cut], default=0) < 4 and re.fullmatch(regex, "".join(names[t] for t in answer[:cut]))
        return bool(spelled) and {*answer[cut:]} <= {END, PAD}

    tokens = [0, 1, 2, 3, END, PAD]
    answers = [drawn.choices([*tokens, MASK], [1, 1, 1, 1, 1, 1, 6], k=3) for _ in range(4)]
    found = Pattern(words(*names), regex=regex, exact=exact).completable(torch.tensor(answers), MASK)
    assert found.tolist() == [any(map(right, completions(answer, tokens))) for answer in answers]


@pytest.mark.parametrize("build", [byte_level, byte_fallback, unigram])
def test_the_texts_of_tokens_spell_what_they_decode_to(build) -> None:
    names, text = build(), "the cell is 3 é"
    ids = [token for token in names(text)["input_ids"] if token not in names.all_special_ids]
    assert b"".join(token_texts(names)[token] for token in ids).decode().removeprefix(" ") == text


class Records(TextBatch):
    """Answers that are judged by their form."""

    pattern = Pattern(tokenizer(), schema=RECORD, strict=True)


class RecordTask:
    """Prompts as problems."""

    record_classes = (Records,)

    def batch(self, problems: Any) -> Records:
        return Records.of(tokenizer(), problems, 24, tokenizer().mask_token_id)


def is_record(text: str) -> bool:
    name, age = json.loads(text).items()
    return name[0] == "name" and 1 <= len(name[1]) <= 9 and age[0] == "age" and type(age[1]) is int


@pytest.mark.parametrize("count", [1, 4, None])
@pytest.mark.parametrize("strategy", ["probability", "random"])
def test_every_answer_has_the_form_and_is_that_of_trying_token_by_token(count, strategy) -> None:
    def tried(problems: TextBatch, states: Tensor, of: Tensor) -> Tensor:
        return problems.completable(states, of)

    problems, how = RecordTask().batch(["a", "b"]), Decoding(strategy, tokens_per_step=count)
    by_form, by_name, by_trying = (
        decode(text_model().double(), problems, replace(how, guard=guard), generator=torch.Generator().manual_seed(0))
        for guard in (Records.pattern, "completable", tried)
    )
    for name in ("responses", "step_of", "rejected", "dead_end"):
        assert torch.equal(getattr(by_form, name), getattr(by_trying, name))
        assert torch.equal(getattr(by_form, name), getattr(by_name, name))
    assert len(Records.pattern.automaton.first) > 1  # more states than a word has bits
    offered = (by_form.step_of >= 0).sum(1) + by_form.rejected.sum(1)
    assert not by_form.dead_end.any() and bool((by_form.checks.sum(1) <= offered + by_form.forward_passes).all())
    assert all(is_record(tokenizer().decode(row, skip_special_tokens=True)) for row in by_form.responses.tolist())


def test_what_cannot_be_a_form_or_does_not_fit_is_refused_before_a_pass(monkeypatch) -> None:
    names = words("a", "b", "ab", "c")
    for form, length, mask, told in (
        ({"regex": "(ab){4}"}, 3, MASK, "the pattern needs 4 tokens, has 3"),
        ({"regex": "(ab){4}", "exact": True}, 9, MASK, "problem 0: no answer of the pattern has exactly 9 tokens"),
        ({"regex": "c*"}, 9, 3, "mask_id=3 is the token b'c'; use another"),
        ({"choices": ["ab.c", "(c"]}, 9, MASK, "choices matches no text that the tokenizer can spell"),
        ({"regex": r"[^\s\S]"}, 9, MASK, "regex matches no text that the tokenizer can spell"),
        ({"regex": "a("}, 9, MASK, "regex matches no text that the tokenizer can spell: Failed to build"),
        ({"choices": "ab"}, 9, MASK, "choices='ab' must be a list of at least one text"),
        ({"regex": "a", "choices": ["a"]}, 9, MASK, "one of regex, schema and choices, got regex and choices"),
    ):
        with pytest.raises(ValueError, match=re.escape(told)):
            guard = Pattern(names, **form)
            decode(text_model(), TextBatch.of(tokenizer(), ["a"], length, mask), Decoding("margin", guard=guard))
    refused("is not that of its tokens", lambda: Pattern(build_small_tokenizer(), regex="1"))
    refused("no token that ends an answer", lambda: Pattern(tokenizer(eos_token=None), regex="1"))
    monkeypatch.setitem(sys.modules, "outlines_core", None)
    refused(r"pip install 'sudoku-dllm\[grammar\]'", lambda: Pattern(names, regex="a"), ImportError)


def test_parts_of_a_schema_that_answers_are_not_held_to_are_named() -> None:
    """Those alone: not a title, what another part says as well, nor what is not referred to."""
    age = {"type": "integer", "title": "Age", "minimum": 0, "maximum": 120, "default": 1}
    tags = {"type": "array", "items": {"type": "string", "enum": ["a"]}, "uniqueItems": True, "minItems": 0}
    one = {"anyOf": [{"$ref": "#/$defs/one"}, {"type": "null"}]}
    properties = {"age": age, "tags": tags, "minimum": {"type": "string", "minLength": 2, "pattern": "a+"}, "one": one}
    schema = {"type": "object", "additionalProperties": False, "properties": properties, "required": ["age", "other"]}
    schema["$defs"] = {"one": {"type": "number", "multipleOf": 2}, "unused": {"type": "null", "maximum": 1}}
    with pytest.warns(UserWarning) as told:
        Pattern(tokenizer(), schema=schema)
    assert sorted(str(told[0].message).split(": ")[1].split(", ")) == [
        "/$defs/one/multipleOf",
        *(f"/properties/{name}" for name in ("age/maximum", "age/minimum", "minimum/pattern", "tags/uniqueItems")),
        "/required/1",
    ]
    with pytest.raises(ValueError, match="cannot be held to parts of the schema: /maximum; leave"):
        Pattern(tokenizer(), schema=json.dumps({"type": "integer", "maximum": 3}), strict=True)


@pytest.mark.parametrize("on_error", ["redraw", "guard"])
def test_a_model_is_trained_by_the_form_alone(on_error, tmp_path) -> None:
    told = {"judged_weight": 1.0} if on_error == "redraw" else {"ce_weight": 1.0, "ce_target": "own"}
    told |= {"on_error": on_error, "policy_weight": 0.0, "f_weight": 0.0, "num_generations": 1, "tokens_per_step": 2}
    args = UnmaskArguments(str(tmp_path), max_steps=1, per_device_train_batch_size=2, **SHORT, **told)
    model = text_model()
    UnmaskTrainer(model, args, ["a", "bb"], RecordTask()).train()
    assert moved_from(weights(text_model()), model)


@pytest.mark.parametrize("kind", ["llada", "adapter"])
def test_prompts_of_unequal_length_get_the_answers_that_they_get_alone(kind) -> None:
    names, prompts = tokenizer(), ["a", "interest", [{"role": "user", "content": "true"}]]
    model = text_model() if kind == "llada" else as_policy_model(dream_model(0, names), shifted=True)
    assert TextBatch.of(names, prompts[2:], 1, 0).prompt_ids.tolist() == [names("<true>:")["input_ids"]]
    for guard in (None, Records.pattern):
        how = Decoding("margin", tokens_per_step=3, guard=guard)
        together = complete(model.double(), names, prompts, 24, how)
        assert together == [complete(model, names, [prompt], 24, how)[0] for prompt in prompts]
    assert all(map(is_record, together))
    nothing = Decoding("margin", guard=lambda problems, states, of: torch.zeros_like(of, dtype=torch.bool))
    refused("brought prompt 0 to a dead end", lambda: complete(model, names, prompts, 12, nothing))
    refused("give a list of prompts", lambda: complete(model, names, "a", 12, nothing))


def test_the_records_of_the_example_have_the_form_and_the_label_is_the_least(monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "examples"))
    example = import_module("training_by_form")
    problems = example.RecordTask().batch(example.draw(40, 0))
    least, every = example.least(problems), torch.arange(40)
    given, mask = problems.responses != problems.mask_id, problems.mask_id
    assert bool(problems.completable(problems.answers, every).all() & problems.completable(least, every).all())
    assert torch.equal(least[given], problems.responses[given])
    for place in range(least.shape[1]):  # with what stands before it, no smaller token leaves a record
        before = torch.where(torch.arange(least.shape[1]) < place, least, problems.responses)
        for token in range(mask + 1, len(example.NAMES)):
            tried = before.index_fill(1, torch.tensor(place), token)
            smaller = ~given[:, place] & (token < least[:, place])
            assert not bool((smaller & problems.completable(tried, every)).any())
