import copy
import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers.processors import TemplateProcessing
from transformers import GenerationConfig

from llm_rl.rollout.completions import sample_completions, sampling_params
from llm_rl.rollout.data import RolloutBatch, Sample, check_row, decode_completion, encode_answer, encode_prompt, pad
from llm_rl.rollout.generation import Completion, SamplingParams
from llm_rl.training.storage import load_record, save_record
from tests.helpers.refusals import refused
from tests.llm_rl.helpers.fixed_engine import Says
from tests.llm_rl.helpers.tiny_grpo import new_model, tokenizer

EOS = tokenizer().eos_token_id
SAMPLES = [
    Sample({"prompt": "red"}, [5, 6, 7], [3, EOS], truncated=False, engine_logprobs=[-1.0, -2.0]),
    Sample({"prompt": "red"}, [8], [4, 4, 4], truncated=True, engine_logprobs=[-3.0, -4.0, -5.0]),
    Sample({"prompt": "red"}, [9, 9], [EOS], truncated=False, engine_logprobs=[-6.0]),
]


def test_masks_with_pad_equal_to_the_end_token() -> None:
    batch = RolloutBatch.collate(SAMPLES, pad_id=EOS)
    assert batch.prompt_ids.tolist() == [[5, 6, 7], [EOS, EOS, 8], [EOS, 9, 9]]
    assert batch.prompt_mask.tolist() == [[True] * 3, [False, False, True], [False, True, True]]
    assert batch.completion_ids.tolist() == [[3, EOS, EOS], [4, 4, 4], [EOS, EOS, EOS]]
    assert batch.completion_mask.tolist() == [[True, True, False], [True] * 3, [True, False, False]]
    assert torch.equal(batch.loss_mask, batch.completion_mask) and batch.loss_mask is not batch.completion_mask
    assert batch.truncated.tolist() == [False, True, False]
    assert batch.sampling_per_token_logps.tolist() == [[-1, -2, 0], [-3, -4, -5], [-6, 0, 0]]


def test_batches_without_engine_logprobs_or_tokens() -> None:
    silent = [dataclasses.replace(SAMPLES[0], engine_logprobs=None), SAMPLES[1]]
    assert RolloutBatch.collate(silent, pad_id=0).sampling_per_token_logps is None
    empty = RolloutBatch.collate([Sample({}, [5], [], truncated=True)], pad_id=0)
    assert empty.completion_ids.shape == (1, 1) and not empty.completion_mask.any()
    assert pad([[], []], 0, "left")[0].dtype == torch.int64


def test_a_batch_survives_the_disk(tmp_path: Path) -> None:
    batch = RolloutBatch.collate(SAMPLES, pad_id=EOS)
    save_record([batch], tmp_path / "batch")
    (again,) = load_record(tmp_path / "batch", (RolloutBatch,))
    for field in dataclasses.fields(RolloutBatch):
        ours, theirs = getattr(batch, field.name), getattr(again, field.name)
        assert (ours is None and theirs is None) or torch.equal(ours, theirs)


def test_prompts_as_text_and_messages() -> None:
    names = tokenizer()
    assert encode_prompt("red sky", names, {}) == names("red sky")["input_ids"]
    asked = [{"role": "user", "content": "red"}]
    assert names.decode(encode_prompt(asked, names, {})) == "user red assistant"
    going_on = [*asked, {"role": "assistant", "content": "blue"}]
    assert names.decode(encode_prompt(going_on, names, {})).rstrip() == "user red assistant blue"
    for prompt in (7, [], ["red"], None):
        with pytest.raises(ValueError, match="must be a text or a list of messages"):
            encode_prompt(prompt, names, {})
    refused("has no token", lambda: encode_prompt("", names, {}))
    sample = Sample({"prompt": asked}, [1], [*names("blue")["input_ids"], EOS], truncated=False)
    assert decode_completion(sample, names) == [{"role": "assistant", "content": "blue"}]
    assert decode_completion(dataclasses.replace(sample, row={"prompt": "red"}), names) == "blue"
    refused(r"no 'prompt' but \['text'\]", lambda: check_row({"text": "red"}))
    refused("no 'prompt' but str", lambda: check_row("red"))


def with_ends(bos: str) -> Any:
    """A tokenizer that puts a begin token before a text, and the end token behind it."""
    names = copy.deepcopy(tokenizer())
    names.add_special_tokens({"bos_token": bos})
    ids = [(token, names.convert_tokens_to_ids(token)) for token in {bos, "<|end|>"}]
    names.backend_tokenizer.post_processor = TemplateProcessing(single=f"{bos} $A <|end|>", special_tokens=ids)
    return names


@pytest.mark.parametrize("bos", ["<|begin|>", "<|end|>"])
def test_begin_and_end_token_stand_once_around_prompt_and_answer(bos: str) -> None:
    names, words = with_ends(bos), tokenizer()("red sky")["input_ids"]
    begin, own_end = names.bos_token_id, [*words, EOS]
    assert names("red sky")["input_ids"] == [begin, *own_end]
    assert encode_prompt("red sky", names, {}) == [begin, *words]
    assert encode_prompt("red sky<|end|>", names, {}) == [begin, *own_end], "the prompt's own end token stays"
    names.chat_template = "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}"
    for prompt in (f"{bos}red", [{"role": "user", "content": f"{bos}red"}]):
        with pytest.raises(ValueError, match=r"two begin tokens in front.*pass it without its '<\|"):
            encode_prompt(prompt, names, {})
    assert encode_answer("red sky", names, EOS) == encode_answer("red sky<|end|>", names, EOS) == own_end


def test_messages_are_encoded_as_what_they_say_or_refused() -> None:
    def said(content: Any, **others: Any) -> list[int]:
        return encode_prompt([{"role": "user", "content": content, **others}], tokenizer(), {})

    parts = [{"type": "text", "text": "red"}, {"type": "text", "text": " sky", "image": None}]
    assert said(parts) == said("red sky")
    assert said(None, tool_calls=[{"name": "look", "arguments": {}}]) == said("")
    for content in ([*parts, {"type": "image"}], [{"type": "text", "text": None}], ["red"], 7, None):
        with pytest.raises(ValueError, match=r"which is no text; give a text.*images and the like are not supported"):
            said(content)


def test_a_template_that_leaves_the_system_message_out_is_told() -> None:
    names = copy.deepcopy(tokenizer())
    asked = [{"role": "system", "content": "one"}, {"role": "user", "content": "red"}]
    own = "{% if messages[1] %}{{ messages[0].content }}{% else %}one{% endif %} {{ messages[-1].content }}"
    names.chat_template = own  # which the user may ask for by name
    assert encode_prompt(asked, names, {}) == encode_prompt(asked[1:], names, {})
    names.chat_template = "one {{ messages[-1].content }}"
    told = "leaves out the system message 'one'; put it into the user's message"
    refused(told, lambda: encode_prompt(asked, names, {}))


def sampled(completions: list[Completion]) -> list[Sample]:
    params = SamplingParams(max_new_tokens=3, temperature=1.0, eos_token_ids=(EOS,), pad_token_id=EOS)
    rows = [{"prompt": "red"}, {"prompt": "blue"}]
    return sample_completions(new_model(), Says(lambda *asked: completions), tokenizer(), rows, 1, params, {})


def test_any_engine_is_cut_at_the_first_end_token_and_its_ids_are_kept() -> None:
    drifting = [5, 6]  # ids that no text would be encoded to in this way need not survive decoding
    first, second = sampled([Completion([3, EOS, 9, 9], None), Completion(drifting, [-1.0, -2.0])])
    assert (first.completion_ids, first.truncated) == ([3, EOS], False)
    assert (second.completion_ids, second.truncated, second.engine_logprobs) == (drifting, True, [-1.0, -2.0])


@pytest.mark.parametrize(
    ("completions", "message"),
    [
        ([Completion([3], None)], "returned 1 completions for 2 prompts"),
        ([Completion([3] * 4, None)] * 2, "returned 4 tokens, at most 3"),
        ([Completion([3, 4], [-1.0])] * 2, "log-probabilities for 1 of them"),
        ([Completion([3, 4], [])] * 2, "log-probabilities for 0 of them"),
    ],
)
def test_what_breaks_an_engines_contract(completions: list[Completion], message: str) -> None:
    refused(message, lambda: sampled(completions))


def test_end_tokens_are_those_of_tokenizer_and_model() -> None:
    class Names:
        eos_token_id: int | None = 4
        pad_token_id: int | None = None

    model = new_model()
    model.generation_config = GenerationConfig(eos_token_id=[7, 2])
    params = sampling_params(model, Names(), 5, 0.5)
    assert params == SamplingParams(5, 0.5, (2, 4, 7), 2)
    Names.eos_token_id, model.generation_config = None, GenerationConfig()
    refused("has an end token", lambda: sampling_params(model, Names(), 5, 0.5))
