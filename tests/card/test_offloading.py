"""Moments, gradients, policy and reference on the host while an engine samples: bytes, exact returns, refusals."""

import copy
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import torch
from transformers import TrainerCallback

from llm_rl import ImportanceCorrection, RolloutAhead, ServerError, add_lora
from llm_rl.rollout.generation import Completion, SamplingParams, TransformersEngine
from tests.llm_rl.helpers import tiny_grpo, tiny_ppo, tiny_raro, tiny_vapor
from tests.llm_rl.helpers.fixed_engine import FixedEngine
from tests.llm_rl.helpers.tiny_grpo import go_on, new_model, untimed

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("card")]
BOTH = {"offload_optimizer": True, "offload_model": True}
WITH_REFERENCE: dict[str, Any] = {"kl_weight": 0.1, "use_cpu": False}
TIED = partial(new_model, tie_word_embeddings=True)


class OwnWeights:
    """Samples by a copy of the policy on the card."""

    def load_weights(self, model: Any) -> None:
        self.engine = TransformersEngine()
        self.engine.load_weights(copy.deepcopy(model))

    def generate(self, prompts: Sequence[Sequence[int]], params: SamplingParams) -> list[Completion]:
        return self.engine.generate(prompts, params)


class Probing(FixedEngine):
    """Asks the policy whose weights it gets, as an engine does that holds them against its own."""

    @torch.no_grad()
    def load_weights(self, model: Any) -> None:
        model(torch.ones(1, 4, dtype=torch.long, device=model.device))


class EvaluatesBetween(TrainerCallback):
    """Evaluates after each pass; remembers where the weights and the moments are as the engine samples."""

    def __init__(self) -> None:
        self.places: list[Any] = []

    def watch(self, run: Any) -> None:
        self.run, generate = run, run.engine.generate

        def generating(*given: Any) -> list[Completion]:
            kept = [each["exp_avg"] for each in run.optimizer.state.values()]
            self.places.append([{each.device.type for each in some} for some in (run.model.parameters(), kept)])
            return generate(*given)

        run.engine.generate = generating

    def on_substep_end(self, args, state, control, **kwargs):
        self.run.evaluate(getattr(self.run.train_dataset, "rows", self.run.train_dataset))

    on_step_end = on_substep_end


def adapted() -> Any:
    return add_lora(new_model(), r=2, target_modules=["q_proj", "up_proj"])


def held(run: Any) -> list[Any]:
    """All tensors that an update reads or writes."""
    moments = [value for each in run.optimizer.state.values() for value in each.values()]
    gradients = [weight.grad for weight in run.model.parameters() if weight.grad is not None]
    return [*run.model.parameters(), *run.model.buffers(), *run.reference.tensors(), *gradients, *moments]


@pytest.mark.parametrize(
    ("make", "offloaded"),
    [(new_model, {"offload_optimizer": True}), (new_model, {"offload_model": True}), (TIED, BOTH), (adapted, BOTH)],
)
def test_a_card_holds_so_many_bytes_less_until_an_engine_ends_or_fails(tmp_path, make, offloaded) -> None:
    run = tiny_grpo.trainer(tmp_path, make(), given={"engine": Probing()}, bf16=True, **WITH_REFERENCE, **offloaded)
    run.train()
    trained = [weight for weight in run.model.parameters() if weight.requires_grad]
    sum(weight.square().sum() for weight in trained).backward()
    some, all_of_it = (sum(weight.numel() for weight in each) for each in (trained, run.model.parameters()))
    expected = 12 * some if "offload_optimizer" in offloaded else 0
    if "offload_model" in offloaded:
        expected += 4 * (all_of_it + (some if make is adapted else all_of_it))
    head = run.model.get_output_embeddings().weight
    part = torch.empty(0, device="cuda").set_(head.untyped_storage(), 0, (5,), (1,))
    run.model.register_buffer("part_of_the_head", part, persistent=False)
    objects = held(run)
    values, before = [value.cpu().clone() for value in objects], torch.cuda.memory_allocated()
    with pytest.raises(ServerError), run._sampling_engine():
        less = before - torch.cuda.memory_allocated()
        assert expected <= less < expected + 512 * len(objects)  # buffers, and what a card rounds up to
        raise ServerError
    assert torch.cuda.memory_allocated() == before
    assert all(one is other for one, other in zip(held(run), objects, strict=True))
    assert all(torch.equal(one.cpu(), other) for one, other in zip(objects, values, strict=True))
    assert part.data_ptr() == head.data_ptr()


def own(**further: Any) -> dict[str, Any]:
    return {"engine": OwnWeights(), **further}


GRPO = partial(tiny_grpo.trainer, **WITH_REFERENCE, per_device_train_batch_size=4, gradient_accumulation_steps=2)
RUNS: dict[str, Any] = {
    "GRPO, its own policy": (GRPO, dict, {"offload_optimizer": True}),
    "GRPO, bfloat16": (partial(GRPO, bf16=True, num_iterations=2), own, BOTH),
    "GRPO, adapters": (lambda folder, **changes: GRPO(folder, adapted(), **changes), own, BOTH),
    "GRPO, turns": (partial(GRPO, max_turns=3), partial(own, next_turn=go_on), BOTH),
    "PPO, own value model": (partial(tiny_ppo.trainer, value_function="model", **WITH_REFERENCE), own, BOTH),
    "VAPOR": (partial(tiny_vapor.trainer, use_cpu=False), dict, BOTH),
    "RARO": (partial(tiny_raro.trainer, **WITH_REFERENCE), dict, BOTH),
}


@pytest.mark.parametrize(("make", "given", "offloaded"), RUNS.values(), ids=RUNS)
def test_a_run_that_offloads_is_the_run_that_does_not_and_resumes_exactly(tmp_path, make, given, offloaded) -> None:
    found = []
    start = str(tmp_path / "plain" / "checkpoint-2")
    for folder, changes, begin in (("plain", {}, None), ("off", offloaded, None), ("resumed", offloaded, start)):
        watch = EvaluatesBetween()
        saving = {"max_steps": 3, "save_strategy": "steps", "save_steps": 1, **changes}
        run = make(tmp_path / folder, given={**given(), "callbacks": [watch]}, **saving)
        watch.watch(run)
        run.train(resume_from_checkpoint=begin)
        found.append((run, watch.places))
    (plain, before), (whole, places), (resumed, _) = found
    assert {"cuda"} in [moments for _, moments in before] and {"cpu"} in [moments for _, moments in places]
    assert {"cuda"} not in [moments for _, moments in places]
    assert all(("offload_model" in offloaded) == (weights == {"cpu"}) for weights, _ in places)
    for other in (whole, resumed):
        assert all(torch.equal(one, two) for one, two in zip(held(other), held(plain), strict=True))
    assert untimed(whole.state.log_history) == untimed(plain.state.log_history)


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "offload_optimizer=True does nothing on a processor": ({"use_cpu": True, "offload_optimizer": True}, {}),
    "offload_model=True does nothing on a processor": ({"use_cpu": True, "offload_model": True}, own()),
    "offload_model=True does nothing while the policy itself samples; pass an engine": ({"offload_model": True}, {}),
    "offload_optimizer=True does nothing beside RolloutAhead": (
        {"offload_optimizer": True}, {"extensions": [ImportanceCorrection(), RolloutAhead()]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_what_could_not_leave_is_refused(tmp_path, message) -> None:
    changes, given = REFUSED[message]
    with pytest.raises(ValueError, match=message):
        tiny_grpo.trainer(tmp_path, given=given, **{"use_cpu": False, **changes})
