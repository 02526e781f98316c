import math
from collections import Counter

import pytest
import torch
from transformers import GenerationConfig

from llm_rl.rollout.generation import Completion, SamplingParams, TransformersEngine, cut_at_eos
from tests.helpers.drawn import near_share
from tests.helpers.refusals import refused
from tests.llm_rl.helpers.grpo_reference import logps
from tests.llm_rl.helpers.small_models import graded
from tests.llm_rl.helpers.tiny_grpo import new_model, tokenizer

EOS = tokenizer().eos_token_id
PARAMS = SamplingParams(max_new_tokens=6, temperature=0.8, eos_token_ids=(EOS,), pad_token_id=EOS)
PROMPTS = [[5], [6, 7, 8, 9], [10, 11]] * 4


def test_cut_at_the_first_end_token() -> None:
    completion = Completion([3, 0, 4, 0], [-1.0, -2.0, -3.0, -4.0])
    assert cut_at_eos(completion, (0,)) == (Completion([3, 0], [-1.0, -2.0]), False)
    assert cut_at_eos(completion, (4, 9)) == (Completion([3, 0, 4], [-1.0, -2.0, -3.0]), False)
    assert cut_at_eos(completion, (7,)) == (completion, True)
    assert cut_at_eos(Completion([0, 0], None), (0,)) == (Completion([0], None), False)
    assert cut_at_eos(Completion([], None), (0,)) == (Completion([], None), True)


@pytest.mark.parametrize("share_prompts", [False, True])
def test_sampled_ids_and_their_logprobs(share_prompts: bool) -> None:
    """Each log-probability is what the model gives the token after its own prompt without padding."""
    model = new_model(initializer_range=0.1)
    engine = TransformersEngine(batch_size=5, share_prompts=share_prompts)
    engine.load_weights(model.train())
    torch.manual_seed(0)
    completions = engine.generate(PROMPTS, PARAMS)
    assert model.training and len(completions) == len(PROMPTS)
    lengths = {len(ids) for ids, _ in completions}
    assert max(lengths) == 6
    for prompt, (ids, logprobs) in zip(PROMPTS, completions, strict=True):
        assert EOS not in ids[:-1] and (len(ids) == 6 or ids[-1] == EOS)
        assert logprobs == pytest.approx(logps(model, prompt, ids, 0.8).tolist(), abs=1e-4)


def test_the_models_own_generation_settings_are_not_used_and_stay() -> None:
    """Uniform logits: with the default of 50 best tokens, or penalties, some tokens would never come."""
    model = new_model()
    with torch.no_grad():
        model.lm_head.weight.zero_()
    kept = GenerationConfig(top_k=1, repetition_penalty=50.0, min_new_tokens=6, do_sample=False)
    model.generation_config = kept
    engine = TransformersEngine()
    engine.load_weights(model)
    torch.manual_seed(0)
    completions = engine.generate([[5]] * 2000, PARAMS)
    assert model.generation_config is kept
    counts = Counter(ids[0] for ids, _ in completions)
    size = len(tokenizer())
    assert all(near_share(counts[token], 2000, 1 / size) for token in range(size))
    assert all(value == pytest.approx(-math.log(size), abs=1e-4) for _, row in completions for value in row or [])


@pytest.mark.parametrize("generator", [None, torch.Generator()], ids=["torch's generator", "one of its own"])
def test_every_token_comes_as_often_as_its_probability_says(generator: torch.Generator | None) -> None:
    model, logits = graded([5, 6])
    engine, draws = TransformersEngine(generator=generator), 6000
    engine.load_weights(model)
    (generator or torch).manual_seed(0)
    kept = torch.get_rng_state()
    found = engine.generate([[5, 6]] * draws, SamplingParams(1, 0.8, (EOS,), EOS))
    assert torch.equal(torch.get_rng_state(), kept) == (generator is not None)
    counts, logprobs = Counter(ids[0] for ids, _ in found), (logits / 0.8).log_softmax(-1)
    assert all(near_share(counts[token], draws, float(logp.exp())) for token, logp in enumerate(logprobs))
    assert all(row == pytest.approx([float(logprobs[ids[0]])], abs=1e-4) for ids, row in found)


def test_greedy_takes_the_most_likely_token() -> None:
    model = new_model()
    engine = TransformersEngine()
    engine.load_weights(model)
    completions = engine.generate(PROMPTS, SamplingParams(6, 0.8, (EOS,), EOS, greedy=True))
    for prompt, (ids, _) in zip(PROMPTS, completions, strict=True):
        best = model(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1].argmax(-1)
        assert best.tolist() == ids


def test_what_is_wrong_with_an_engine() -> None:
    refused("batch_size=0 must be at least 1", lambda: TransformersEngine(0))
    refused("no weights", lambda: TransformersEngine().generate(PROMPTS, PARAMS), RuntimeError)
