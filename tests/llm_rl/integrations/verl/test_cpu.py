"""verl's server of completions on a processor: what it samples, and that it never does so with old weights."""

import asyncio
from types import SimpleNamespace

import pytest
import torch

from llm_rl.core import selective_log_softmax
from tests.helpers.drawn import first_seed
from tests.llm_rl.helpers.tiny_vapor import tag_model, tag_tokenizer

pytest.importorskip("verl", reason="verl is not installed, see docs/raro.md")

from llm_rl.integrations.verl.cpu.platform import CPUPlatform
from llm_rl.integrations.verl.cpu.server import TransformersServer
from tests.helpers.refusals import refused

PROMPTS = [[5, 6, 7], [8, 9], [5, 6, 7, 8, 9, 10]]
SAMPLING = {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "repetition_penalty": 1.0, "logprobs": True}
LIMIT = 7


@pytest.fixture
def server():
    """A server of the tiny Llama, without weights yet, whose settings are those of verl's configuration."""
    config = SimpleNamespace(dtype="float32", max_num_seqs=8, seed=3, prompt_length=8, response_length=LIMIT)
    given = SimpleNamespace(hf_config=tag_model(seed=0).config, tokenizer=tag_tokenizer(), generation_config=None)
    return TransformersServer(config, given, 0)


def ask(server, *prompts, **changes):
    return ask_each(server, [(ids, changes) for ids in prompts])


def ask_each(server, asked):
    """Prompts at once, each with its own settings."""

    async def all_at_once():
        return await asyncio.gather(
            *(server.generate("r", prompt_ids=ids, sampling_params=SAMPLING | changes) for ids, changes in asked)
        )

    return asyncio.run(all_at_once())


def update(server, trained, step):
    asyncio.run(server.update_weights(trained.state_dict(), step))


def logprobs_of(trained, prompt, output, temperature=1.0):
    """What the trainer says of sampled ids."""
    ids = torch.tensor([prompt + output.token_ids])
    with torch.no_grad():
        logits = trained(ids).logits[:, len(prompt) - 1 : -1]
    return selective_log_softmax(logits, ids[:, len(prompt) :], temperature=temperature)[0]


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_probabilities_are_those_of_the_weights_that_came_last(server, temperature):
    first, second = tag_model(seed=1), tag_model(seed=2)
    for step, (trained, other) in enumerate([(first, second), (second, first)]):
        update(server, trained, step)
        for prompt, output in zip(PROMPTS, ask(server, *PROMPTS, temperature=temperature), strict=True):
            sampled = torch.tensor(output.log_probs)
            torch.testing.assert_close(sampled, logprobs_of(trained, prompt, output, temperature), atol=1e-5, rtol=0)
            assert (sampled - logprobs_of(other, prompt, output, temperature)).abs().max() > 1e-2
            assert output.extra_fields["global_steps"] == step


def test_the_server_keeps_its_own_copy_of_the_weights(server):
    trained = tag_model(seed=1)
    update(server, trained, 0)
    before = ask(server, PROMPTS[0], temperature=0)
    with torch.no_grad():
        for parameter in trained.parameters():
            parameter.zero_()
    assert ask(server, PROMPTS[0], temperature=0) == before


def test_without_new_weights_it_answers_nothing(server):
    refused("no weights of this step", lambda: ask(server, PROMPTS[0]), RuntimeError)
    update(server, tag_model(seed=1), 0)
    first = ask(server, PROMPTS[0], temperature=0)
    asyncio.run(server.sleep())
    refused("no weights of this step", lambda: ask(server, PROMPTS[0]), RuntimeError)
    update(server, tag_model(seed=1), 1)
    assert [one.token_ids for one in ask(server, PROMPTS[0], temperature=0)] == [first[0].token_ids]


def test_weights_must_be_all_of_the_model(server):
    state = tag_model(seed=1).state_dict()
    missing = dict(list(state.items())[1:])
    refused("Missing key", lambda: asyncio.run(server.update_weights(missing, 0)), RuntimeError)
    with pytest.raises(RuntimeError, match="Unexpected key"):
        asyncio.run(server.update_weights({**state, "lora": torch.zeros(1)}, 0))
    refused("no weights", lambda: ask(server, PROMPTS[0]), RuntimeError)


def test_each_request_has_its_own_limit_and_settings(server):
    update(server, tag_model(seed=1), 0)
    limits = [{"max_tokens": 2}, {"max_new_tokens": 3, "temperature": 0}, {}]
    outputs = ask_each(server, zip(PROMPTS, limits, strict=True))
    assert [len(one.token_ids) <= most for one, most in zip(outputs, (2, 3, LIMIT), strict=True)] == [True] * 3
    assert all(len(one.token_ids) == len(one.log_probs) for one in outputs)
    greedy = ask(server, PROMPTS[1], temperature=0, max_new_tokens=3)[0]
    assert outputs[1].token_ids == greedy.token_ids
    stopped = ask(server, PROMPTS[1], temperature=0, stop_token_ids=[greedy.token_ids[0]])[0]
    assert stopped.token_ids == greedy.token_ids[:1]


def test_draws_depend_on_seed_and_step_alone(server):
    def drawn(step):
        update(server, trained, step)
        return [one.token_ids for one in ask(server, *PROMPTS)]

    trained = tag_model(seed=1)
    assert drawn(4) == drawn(4)
    first_seed(lambda step: drawn(step) != drawn(step + 1))


def test_what_it_does_not_sample(server):
    update(server, tag_model(seed=1), 0)
    refused(r"top_p is 0\.9.* set rollout\.top_p=1", lambda: ask(server, PROMPTS[0], top_p=0.9))
    refused(r"sampling by \['min_p'\] is not supported", lambda: ask(server, PROMPTS[0], min_p=0.1))
    refused("leaves no room", lambda: ask(server, [5] * (8 + LIMIT)))
    with pytest.raises(ValueError, match="reads text alone"):
        asyncio.run(server.generate("r", prompt_ids=[5], sampling_params=SAMPLING, image_data=["x"]))


def test_a_processor_is_a_place_that_ray_counts_and_a_device_that_torch_takes():
    platform = CPUPlatform()
    assert torch.zeros(2).to(platform.current_device()).device.type == platform.device_name == "cpu"
    assert platform.ray_resource_options(1) == {"num_gpus": 1}
    module = platform.device_module
    assert min(module.memory_allocated(), module.max_memory_allocated()) > 0
    state = module.get_rng_state()
    drawn = torch.rand(3)
    module.set_rng_state(state)
    assert torch.equal(torch.rand(3), drawn)
