"""Answers of a form, against enumeration and against a function that is tried; plain text in, plain text out."""

import json
import re
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
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
from scripts.shared.small_tokenizer import build_small_tokenizer
from tests.dllm_rl.helpers.tiny_text import text_model, tokenizer
from tests.dllm_rl.models.test_adapter_training import dream_model
from tests.helpers import SHORT

pytest.importorskip("outlines_core", reason="needs the extra grammar: pip install 'sudoku-dllm[grammar]'")
MASK, END, PAD = 4, 5, 6
NAME, AGE = {"type": "string", "minLength": 1, "maxLength": 9}, {"type": "integer"}
RECORD = {"type": "object", "properties": {"name": NAME, "age": AGE}, "required": ["name", "age"]}


def words(*names: str) -> PreTrainedTokenizerFast:
    """A tokenizer of these tokens alone, <mask>, <eos> and <pad> behind them."""
    backend = Tokenizer(
        models.WordLevel({name: place for place, name in enumerate([*names, "<mask>", "<eos>", "<pad>"])})
    )
    backend.decoder = decoders.Fuse()
    special = {"mask_token": "<mask>", "eos_token": "<eos>", "pad_token": "<pad>"}
    return PreTrainedTokenizerFast(tokenizer_object=backend, **special)


def completions(answer: Any, tokens: list[int]) -> list[tuple[int, ...]]:
    return list(product(*(tokens if token == MASK else [token] for token in answer)))


@settings(max_examples=150, deadline=None)
@given(st.data(), st.integers(1, 5), st.integers(1, 4))
def test_sets_are_those_of_enumeration_and_stay_so_while_answers_are_written(
    data: Any, states: int, length: int
) -> None:
    state, tokens = st.integers(0, states - 1), st.integers(0, 3)
    moves = data.draw(st.lists(st.dictionaries(tokens, state), min_size=states, max_size=states))
    final = data.draw(st.sets(state))
    automaton = Automaton(dict(enumerate(moves)), 0, final)

    def accepted(answer: tuple[int, ...]) -> bool:
        at: int | None = 0
        for token in answer:
            at = None if at is None else moves[at].get(token)
        return at in final

    answer = data.draw(st.lists(st.one_of(tokens, st.just(MASK)), min_size=length, max_size=length))
    sets, row = Sets(automaton, np.array([answer]), MASK), np.zeros(1, np.int64)
    for position in data.draw(st.permutations(range(length))):
        right = [each for each in completions(sets.answers[0].tolist(), [*range(4)]) if accepted(each)]
        fresh = Sets(automaton, sets.answers.copy(), MASK)
        assert np.array_equal(fresh.forward, sets.forward) and np.array_equal(fresh.backward, sets.backward)
        assert sets.completable().tolist() == [bool(right)]
        if sets.answers[0, position] == MASK:
            kinds, at = sets.kinds(row, row + position)[0], {each[position] for each in right}
            known = range(len(automaton.kinds))
            assert {token for token in known if kinds[automaton.kinds[token]]} == at
            tried = data.draw(st.lists(tokens, min_size=1, max_size=4))
            holds, which = sets.write(row, row + position, np.array([tried]))
            assert holds.tolist() == [bool(at & {*tried})]
            assert (
                not holds[0] or which[0] == next(token for token in tried if token in at) == sets.answers[0, position]
            )


REGEX = st.recursive(
    st.sampled_from(["a", "b", "[ab]", "ab"]),
    lambda part: st.one_of(
        st.builds("({}|{})".format, part, part),
        st.builds("{}{}".format, part, part),
        st.builds("({}){}".format, part, st.sampled_from("*?+")),
    ),
    max_leaves=5,
)


@settings(max_examples=60, deadline=None)
@given(st.data(), REGEX, st.sets(st.text("ab", min_size=2, max_size=3), min_size=2, max_size=2), st.booleans())
def test_a_pattern_is_that_of_the_text_that_its_tokens_spell(
    data: Any, regex: str, longer: set[str], exact: bool
) -> None:
    names = ["a", "b", *sorted(longer)]
    pattern = Pattern(words(*names), regex=regex, exact=exact)

    def right(answer: tuple[int, ...]) -> bool:
        cut = len(answer) if exact or END not in answer else answer.index(END)
        text = answer[:cut]
        spelled = {*text} <= {0, 1, 2, 3} and re.fullmatch(regex, "".join(names[token] for token in text))
        return bool(spelled) and {*answer[cut:]} <= {END, PAD}

    tokens = [0, 1, 2, 3, END, PAD]
    states = data.draw(
        st.lists(st.lists(st.sampled_from([*tokens, MASK, MASK, MASK]), min_size=3, max_size=3), min_size=4, max_size=4)
    )
    found = pattern.completable(torch.tensor(states), MASK)
    assert found.tolist() == [any(map(right, completions(state, tokens))) for state in states]


def parsed(text: str) -> Any:
    """The record of a text, which has its form."""
    record = json.loads(text)
    assert list(record) == ["name", "age"] and 1 <= len(record["name"]) <= 9 and type(record["age"]) is int
    return record


@pytest.mark.parametrize("count", [1, 4, None])
def test_every_answer_has_the_form_and_is_that_of_trying_token_by_token(count: int | None) -> None:
    names, pattern = tokenizer(), Pattern(tokenizer(), schema=RECORD)

    def tried(problems: Any, states: Tensor, of: Tensor) -> Tensor:
        return pattern.completable(states, problems.mask_id)

    for seed, strategy in product(range(3), ("probability", "random")):
        batch = TextBatch.of(names, ["a", "b"], 32, names.mask_token_id)
        by_sets, by_trying = (
            decode(
                text_model(seed).double(),
                batch,
                Decoding(strategy, tokens_per_step=count, guard=guard),
                generator=torch.Generator().manual_seed(seed),
            )
            for guard in (pattern, tried)
        )
        assert torch.equal(by_sets.step_of, by_trying.step_of) and torch.equal(by_sets.rejected, by_trying.rejected)
        assert torch.equal(by_sets.responses, by_trying.responses) and not by_sets.dead_end.any()
        assert bool((by_sets.checks <= by_trying.checks).all())
        for row in by_sets.responses.tolist():
            parsed(names.decode(row, skip_special_tokens=True))


def test_more_states_than_a_word_has_bits_and_a_length_that_is_exact() -> None:
    names, long = words("a", "b", "ab", "c"), "(ab){40}c?"
    pattern = Pattern(names, regex=long, exact=True)
    state = torch.full((1, 81), MASK)
    assert pattern.shortest == 40 and len(pattern.automaton.first) == 2
    state[0, 70], state[0, 79] = 0, 1  # in 81 tokens all letters stand alone
    assert pattern.completable(state, MASK).item()
    state[0, 3] = 2
    assert not pattern.completable(state, MASK).item()
    for form, length, words_ in (
        ({"regex": long}, 39, "the pattern needs 40 tokens, has 39"),
        ({"regex": long, "exact": True}, 82, "problem 0: no answer of the pattern has exactly 82 tokens"),
        ({"choices": ["ab.c", "(c"]}, 9, "matches no text that the tokenizer can spell"),
        ({"regex": "a", "choices": ["a"]}, 1, "takes one of regex, schema and choices, got regex and choices"),
        ({"choices": "ab"}, 1, "must be a list of at least one text"),
        ({"regex": "a("}, 1, "regex matches no text that the tokenizer can spell: Failed to build"),
        ({"regex": r"[^\s\S]"}, 1, "matches no text"),
    ):
        with pytest.raises(ValueError, match=re.escape(words_)):
            problems = TextBatch.of(tokenizer(), ["a"], length, MASK)
            Pattern(names, **form).look(problems, problems.responses, torch.tensor([0]))
    with pytest.raises(ValueError, match="mask_id=3 is the token b'c'"):
        pattern.look(TextBatch.of(tokenizer(), ["a"], 80, 3), state, torch.tensor([0]))
    with pytest.raises(ValueError, match="is not that of its tokens"):
        Pattern(build_small_tokenizer(), regex="1")
    with pytest.raises(ValueError, match="no token that ends an answer"):
        Pattern(tokenizer(eos_token=None), regex="1")


def test_without_outlines_core_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "outlines_core", None)
    with pytest.raises(ImportError, match=r"pip install 'sudoku-dllm\[grammar\]'"):
        Pattern(tokenizer(), regex="a")


def test_parts_of_a_schema_that_cannot_be_held_to_are_named() -> None:
    tags = {"type": "array", "items": {"enum": ["a", "b"]}, "uniqueItems": True, "maxItems": 2, "minItems": 0}
    age = {"type": "integer", "title": "Age", "minimum": 0, "maximum": 120, "default": 1}
    name = {"type": "string", "minLength": 2, "pattern": "a+"}
    properties = {"age": age, "tags": tags, "minimum": name, "one": {"$ref": "#/$defs/one"}}
    schema = {
        "$defs": {"one": {"type": "number", "multipleOf": 2}, "unused": {"type": "null"}},
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "required": ["age", "tags", "minimum", "other"],
    }
    dropped = ["/$defs/one/multipleOf", "/properties/age/minimum", "/properties/age/maximum"]
    dropped += ["/properties/tags/uniqueItems", "/properties/minimum/pattern", "/required/3"]
    with pytest.warns(
        UserWarning, match="not held to these parts of the schema: " + ", ".join(map(re.escape, dropped)) + "$"
    ):
        Pattern(tokenizer(), schema=schema)
    with pytest.raises(ValueError, match="cannot be held to parts of the schema: /maximum; leave"):
        Pattern(tokenizer(), schema=json.dumps({"type": "integer", "maximum": 3}), strict=True)
    Pattern(tokenizer(), schema=RECORD, strict=True)


class Records(TextBatch):
    """Answers that are judged by their form."""

    pattern = Pattern(tokenizer(), schema=RECORD)


class RecordTask:
    """Prompts as problems."""

    record_classes = (Records,)

    def batch(self, problems: Any) -> Records:
        return Records.of(tokenizer(), problems, 20, tokenizer().mask_token_id)


@pytest.mark.parametrize(
    "told",
    [
        {"on_error": "redraw", "judged_weight": 1.0},
        {"on_error": "guard", "ce_weight": 1.0, "ce_target": "own", "num_generations": 1},
    ],
)
def test_a_training_by_the_form_alone(told: Any, tmp_path: Path) -> None:
    shared = {
        "policy_weight": 0.0,
        "f_weight": 0.0,
        "tokens_per_step": 2,
        "max_steps": 1,
        "per_device_train_batch_size": 2,
    }
    args = UnmaskArguments(str(tmp_path), **{**SHORT, **shared, **told})
    trainer = UnmaskTrainer(text_model(), args, ["a", "bb"], RecordTask())
    before = text_model().state_dict()
    trainer.train()
    assert any(not torch.equal(value, before[name]) for name, value in trainer.model.state_dict().items())


@pytest.mark.parametrize(
    "model", [text_model().double(), as_policy_model(dream_model().double(), shifted=True)], ids=["llada", "adapter"]
)
def test_prompts_of_unequal_length_get_the_answers_that_they_get_alone(model: Any) -> None:
    names = tokenizer()
    prompts = ["a", "interest", [{"role": "user", "content": "true"}]]
    how = Decoding("margin", tokens_per_step=2)
    assert TextBatch.of(names, prompts[2:], 1, 0).prompt_ids.tolist() == [names("<true>:")["input_ids"]]
    together = complete(model, names, prompts, 12, how)
    assert together == [complete(model, names, [prompt], 12, how)[0] for prompt in prompts]
    guarded = complete(model, names, prompts, 24, Decoding("margin", tokens_per_step=None, guard=Records.pattern))
    assert len(list(map(parsed, guarded))) == 3
    with pytest.raises(ValueError, match="give a list of prompts"):
        complete(model, names, "a", 12, how)
    nothing = Decoding("margin", guard=lambda problems, states, of: torch.zeros_like(of, dtype=torch.bool))
    with pytest.raises(ValueError, match="brought prompt 0 to a dead end"):
        complete(model, names, prompts, 12, nothing)
