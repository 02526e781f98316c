"""`ServerEngine` beside a small server, a process of its own with a real model behind real HTTP."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from llm_rl.rollout.generation import SamplingParams
from llm_rl.rollout.scoring import causal_model
from llm_rl.rollout.server.client import CompletionClient, ServerError, StaleWeightsError
from llm_rl.rollout.server.engine import ServerEngine
from tests.helpers.refusals import refused
from tests.llm_rl.helpers.serving import EOS, PARAMS, PROMPTS, assert_sampled_from, policy, serving
from tests.llm_rl.helpers.tiny_grpo import move, new_model, tokenizer


def base() -> Any:
    """With weights so small that rounding is below 1e-5."""
    return new_model(initializer_range=0.1)


def tiny_policy() -> Any:
    return policy(base())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model without adapters."""
    path = tmp_path_factory.mktemp("served")
    base().save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    with serving(folder) as address:
        yield address


def loaded(model: Any, url: str, **options: Any) -> ServerEngine:
    engine = ServerEngine(url, **options)
    engine.load_weights(model)  # PEFT's wrapper; a trainer gives what is inside
    return engine


def test_logprobs_are_those_of_the_policy_whatever_its_weights(url: str) -> None:
    model = tiny_policy().train()
    engine = loaded(model, url)
    assert_sampled_from(model, engine.generate(PROMPTS, PARAMS))
    assert all(module.training for module in model.modules())
    move(model, 2, 0.3)
    with pytest.raises(AssertionError):  # the policy moved, and the server not yet
        assert_sampled_from(model, engine.generate(PROMPTS, PARAMS))
    engine.load_weights(causal_model(model))
    assert_sampled_from(model, engine.generate(PROMPTS, PARAMS))


def test_a_server_keeps_one_adapter_which_is_sent_where_it_changed(url: str) -> None:
    asked = CompletionClient(url, 60)
    others = {*asked.request("GET", "/adapters")["adapters"]}

    def adapters() -> set[str]:
        return {*asked.request("GET", "/adapters")["adapters"]} - others

    model = tiny_policy()
    engine = loaded(model, url)
    first = adapters()
    engine.load_weights(causal_model(model))
    assert adapters() == first and len(first) == 1
    move(model, 2, 1e-6)
    engine.load_weights(causal_model(model))
    assert len(adapters()) == 1 and adapters() != first
    engine.close()
    assert adapters() == set()
    refused("no weights", lambda: engine.generate(PROMPTS, PARAMS), RuntimeError)


def test_the_same_seed_samples_the_same_and_completions_of_a_prompt_have_seeds_of_their_own(url: str) -> None:
    """At this temperature tokens are all but equally likely: eight equal completions have a chance below 1e-40."""
    engine = loaded(tiny_policy(), url)
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(engine.generate([[5]] * 8, SamplingParams(3, 50.0, (EOS,), EOS)))
    assert drawn[0] == drawn[1] != drawn[2]
    assert len({tuple(ids) for ids, _ in drawn[0]}) > 1


def test_any_end_token_ends_and_none_is_needed_at_the_longest(url: str) -> None:
    engine = loaded(tiny_policy(), url)
    every = SamplingParams(6, 0.8, tuple(range(len(tokenizer()))), EOS)
    assert [len(ids) for ids, _ in engine.generate(PROMPTS, every)] == [1] * len(PROMPTS)
    one = SamplingParams(1, 0.8, (EOS,), EOS)
    assert [len(ids) for ids, _ in engine.generate(PROMPTS, one)] == [1] * len(PROMPTS)


def test_greedy_takes_the_most_likely_token(url: str) -> None:
    model = tiny_policy()
    greedy = SamplingParams(6, 0.8, (EOS,), EOS, greedy=True)
    for prompt, (ids, logprobs) in zip(PROMPTS, loaded(model, url).generate(PROMPTS, greedy), strict=True):
        best = causal_model(model)(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1].argmax(-1)
        assert best.tolist() == ids and logprobs is None


@pytest.mark.parametrize(("size", "message"), [(0.3, "has other weights"), (1e-4, "kept its old weights")])
def test_stale_weights_raise_however_small_the_step(folder: Path, size: float, message: str) -> None:
    with serving(folder, "--fault", "stale") as url:
        model = tiny_policy()
        engine = loaded(model, url)
        move(model, 2, size)
        refused(message, lambda: engine.load_weights(causal_model(model)), StaleWeightsError)
        refused("no weights", lambda: engine.generate(PROMPTS, PARAMS), RuntimeError)


def test_another_base_raises(url: str) -> None:
    refused("the model that the policy started", lambda: loaded(policy(new_model(seed=3)), url), StaleWeightsError)


@pytest.mark.parametrize(
    ("fault", "message"),
    [("die", "died"), ("stall", "said nothing for 2 s"), ("early", "generation-config"), ("plain", "token ids")],
)
def test_a_server_that_fails_is_an_error_in_seconds(folder: Path, fault: str, message: str) -> None:
    with serving(folder, "--fault", fault) as url:
        engine = loaded(tiny_policy(), url, timeout=2.0 if fault == "stall" else 60.0)
        before = time.monotonic()
        refused(message, lambda: engine.generate(PROMPTS, SamplingParams(6, 0.8, (), EOS)), ServerError)
        assert time.monotonic() - before < 30
        refused("no weights", lambda: engine.generate(PROMPTS, PARAMS), RuntimeError)


def test_after_an_error_another_server_at_the_address_gets_everything_anew(folder: Path) -> None:
    model = tiny_policy()
    with serving(folder) as url:
        engine = loaded(model, url)
    refused(r"not there or died.*resume_from_checkpoint", lambda: engine.generate(PROMPTS, PARAMS), ServerError)
    with serving(folder, port=int(url.rsplit(":", 1)[1])):
        engine.load_weights(causal_model(model))
        assert_sampled_from(model, engine.generate(PROMPTS, PARAMS))


def test_logprobs_of_another_temperature_than_that_of_sampling_raise(folder: Path) -> None:
    with serving(folder, processed=False) as url, pytest.raises(ServerError, match="logprobs-mode processed_logprobs"):
        loaded(tiny_policy(), url)


def test_what_cannot_be_brought_to_a_server() -> None:
    engine = ServerEngine("http://127.0.0.1:9")
    refused("no weights", lambda: engine.generate(PROMPTS, PARAMS), RuntimeError)
    refused("pass a ServerProcess", lambda: engine.load_weights(new_model()))
    model = tiny_policy()
    model.base_model.model.lm_head.weight.requires_grad_(True)
    refused("beside the LoRA adapters", lambda: engine.load_weights(causal_model(model)))
    model = tiny_policy()
    model.add_adapter("second", model.peft_config["default"])
    refused("one LoRA adapter", lambda: engine.load_weights(causal_model(model)))
    refused("tolerance is 0", lambda: ServerEngine("http://127.0.0.1:9", tolerance=0))
