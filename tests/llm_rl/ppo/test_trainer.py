import copy
import statistics
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model

from llm_rl.ppo.arguments import PPOArguments
from llm_rl.ppo.trainer import PPOTrainer
from llm_rl.rollout.generation import Completion, SamplingParams, TransformersEngine
from tests.llm_rl.helpers.fixed_engine import FixedEngine, Weightless, every_second_ends
from tests.llm_rl.helpers.grpo_reference import token_logps
from tests.llm_rl.helpers.small_models import gemma2
from tests.llm_rl.helpers.tiny_grpo import KeepSteps, distinct_rows, keep_samples, new_model, rows, small_ids
from tests.llm_rl.helpers.tiny_ppo import slow_loss, slow_roll_out, slow_values, trainer


class EndingEngine(TransformersEngine):
    """Samples from the model, but ends every second completion early, and no other one."""

    def generate(self, prompts: Any, params: SamplingParams) -> list[Completion]:
        return every_second_ends(super().generate(prompts, params), params.eos_token_ids[0])


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"gamma": 0.9, "lam": 0.7, "cliprange_value": None, "vf_coef": 1.0},
        {"gamma": 0.8, "clip_high": 0.3, "cliprange_value": 0.01},
        {"kl_weight": 0.2, "temperature": 0.7},
        {"kl_weight": 0.2, "kl_in": "loss", "clip_low": 0.05, "vf_coef": 0.5},
        {"bootstrap_cut_off": True, "gamma": 0.9},
        {"bootstrap_cut_off": True, "padding_free": True},
    ],
    ids=lambda changes: "-".join(changes) or "defaults",
)
def test_gradients_equal_a_slow_loop_over_tokens(tmp_path: Path, changes: dict[str, Any]) -> None:
    """At the first update, where every ratio is 1 and the head is not 0, and at the second, with clipping."""
    settings = {
        "max_steps": 2, "num_ppo_epochs": 2, "per_device_train_batch_size": 2, "gradient_accumulation_steps": 3,
        "learning_rate": 4e-3, "max_grad_norm": 0.0, **changes,
    }  # fmt: skip
    kept, start, reference = KeepSteps(), new_model(dtype=torch.float64), new_model(seed=5, dtype=torch.float64)
    given = {"callbacks": [kept], "engine": EndingEngine()}
    given |= {"ref_model": copy.deepcopy(reference)} if "kl_weight" in changes else {}
    run = trainer(tmp_path, copy.deepcopy(start), data=rows(6), given=given, **settings)
    torch.nn.init.normal_(run.value_function.head.weight, std=0.3)
    head = copy.deepcopy(run.value_function.head)
    samples, args = keep_samples(run), run.args
    run.train()
    assert len({len(s.prompt_ids) for s in samples}) > 1 and {s.truncated for s in samples} == {True, False}
    rewards = small_ids([sample.completion_ids for sample in samples])
    with torch.no_grad():
        old = [[float(value) for value in token_logps(start, s, args.temperature)] for s in samples]
        values = [[float(value) for value in slow_values(start, head, s)] for s in samples]
        ref = [[float(value) for value in token_logps(reference, s, args.temperature)] for s in samples]
    ref_or_none = ref if "kl_weight" in changes else None
    advantages, returns = slow_roll_out(args, samples, rewards, old, values, ref_or_none)
    for step in (0, 1):
        now, its_head = copy.deepcopy(start), copy.deepcopy(head)
        weights = kept.weights[step]
        now.load_state_dict({n.removeprefix("model."): w for n, w in weights.items() if n.startswith("model.")})
        its_head.load_state_dict({name: weights[f"value_function.head.{name}"] for name in ("weight", "bias")})
        loss = slow_loss(now, its_head, args, samples, old, values, ref_or_none, advantages, returns)
        loss.backward()
        assert run.state.log_history[step]["loss"] == pytest.approx(loss.item(), abs=2e-6)
        expected = {f"model.{name}": p.grad for name, p in now.named_parameters()}
        expected |= {f"value_function.head.{name}": p.grad for name, p in its_head.named_parameters()}
        assert expected.keys() == kept.steps[step].keys()
        for name, gradient in expected.items():
            assert gradient is not None and (kept.steps[step][name] - gradient).abs().max() < 1e-6, (step, name)
    first, second = run.state.log_history[:2]
    assert first["clip_frac"] == first["value_clip_frac"] == 0 and first["ratio_mean"] == pytest.approx(1)
    assert second["clip_frac"] > 0 and (second["value_clip_frac"] > 0) == (args.cliprange_value is not None)


def test_without_values_and_discount_it_is_reinforce(tmp_path: Path) -> None:
    """γ = λ = 1 and V = 0: the gradient of −mean over tokens of whitened reward · log π."""
    kept, start = KeepSteps(), new_model(dtype=torch.float64)
    settings = {"lam": 1.0, "num_ppo_epochs": 1, "vf_coef": 0.0, "max_grad_norm": 0.0}
    run = trainer(tmp_path, copy.deepcopy(start), given={"callbacks": [kept], "engine": EndingEngine()}, **settings)
    samples = keep_samples(run)
    run.train()
    rewards = small_ids([sample.completion_ids for sample in samples])
    paid = [reward for sample, reward in zip(samples, rewards, strict=True) for _ in sample.completion_ids]
    mean, std = statistics.mean(paid), statistics.pstdev(paid)
    total = torch.zeros((), dtype=torch.float64)
    for sample, reward in zip(samples, rewards, strict=True):
        total = total - (reward - mean) / std * torch.stack(token_logps(start, sample, 1.0)).sum()
    (total / len(paid)).backward()
    for name, param in start.named_parameters():
        assert param.grad is not None and (kept.steps[0][f"model.{name}"] - param.grad).abs().max() < 1e-6, name
    assert max(float(param.grad.abs().max()) for param in start.parameters() if param.grad is not None) > 1e-3
    assert not kept.steps[0]["value_function.head.weight"].any()


class ChainEngine(Weightless):
    """Walks a chain of five tokens to the end; whatever the policy says."""

    chain = (11, 12, 13, 14)

    def generate(self, prompts: Any, params: SamplingParams) -> list[Completion]:
        return [Completion([*self.chain, params.eos_token_ids[0]], None) for _ in prompts]


@pytest.mark.parametrize("value_function", ["head", "model"])
def test_the_values_of_a_chain_are_found(tmp_path: Path, value_function: str) -> None:
    """A reward of 1 at the end of five tokens is worth γ^4 before the first and 1 before the last."""

    def one(completions: list[str], **kwargs: Any) -> list[float]:
        return [1.0] * len(completions)

    # The weight of the values leaves the policy, which moves the same features about, next to no part in the step.
    settings = {"max_steps": 80, "gamma": 0.5, "lam": 0.5, "vf_coef": 1e4, "learning_rate": 5e-3}
    run = trainer(
        tmp_path, reward_funcs=one, data=[{"prompt": "red green"}] * 4, given={"engine": ChainEngine()},
        cliprange_value=None, lr_scheduler_type="linear", value_function=value_function, per_device_train_batch_size=2,
        **settings,
    )  # fmt: skip
    run.train()
    (batch,) = run._roll_out([{"prompt": "red green"}] * 2)
    assert batch.old_values[0].tolist() == pytest.approx([0.5**4, 0.5**3, 0.5**2, 0.5, 1.0], abs=0.03)  # type: ignore[attr-defined]
    history = run.state.log_history
    assert history[0]["explained_variance"] == pytest.approx(0, abs=1e-6) and history[-2]["explained_variance"] > 0.99
    assert history[-2]["value_loss"] < 1e-3 < history[0]["value_loss"]


def test_each_log_line_has_the_monitors(tmp_path: Path) -> None:
    changes = {"max_steps": 4, "num_ppo_epochs": 4, "kl_weight": 0.1}
    run = trainer(tmp_path, data=distinct_rows(), given={"engine": FixedEngine()}, **changes)
    run.train()
    names = {"reward_mean", "reward_std", "approx_kl", "clip_frac", "entropy", "grad_norm", "kl", "ratio_mean"}
    names |= {"policy_loss", "value_loss", "value_clip_frac", "value_mean", "explained_variance"}
    for line in run.state.log_history[:4]:
        assert names - {"kl"} <= line.keys()
    first = run.state.log_history[0]
    assert "kl" in first and first["value_mean"] == 0 and first["reward_std"] > 0
    assert len({line["reward_mean"] for line in run.state.log_history[:4]}) == 1


def test_adapters_and_head_train_and_all_else_stays(tmp_path: Path) -> None:
    base = new_model()
    adapted = get_peft_model(base, LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))
    before = copy.deepcopy(adapted.state_dict())
    saving = {"save_strategy": "steps", "save_steps": 2, "max_steps": 2, "kl_weight": 0.1, "learning_rate": 1e-2}
    run = trainer(tmp_path, adapted, **saving)
    run.train()
    for name, weight in adapted.state_dict().items():
        assert torch.equal(weight, before[name]) == ("lora_" not in name), name
    assert run.value_function.head.weight.any()
    files = {path.name for path in (tmp_path / "checkpoint-2").iterdir()}
    assert {"adapter_model.safetensors", "value_function.safetensors"} <= files and "model.safetensors" not in files


def test_a_value_model_of_its_own_leaves_the_policy_alone(tmp_path: Path) -> None:
    kept, other = KeepSteps(), new_model(seed=3)
    settings = {"value_function": "model", "num_ppo_epochs": 1, "lam": 1.0}

    def nothing(completions: list[str], **kwargs: Any) -> list[float]:
        return [1.0] * len(completions)

    run = trainer(tmp_path, reward_funcs=nothing, given={"value_model": other, "callbacks": [kept]}, **settings)
    torch.nn.init.ones_(run.value_function.head.weight)
    (batch,) = run._roll_out(rows(8))
    with torch.no_grad():
        ids = torch.cat([batch.prompt_ids, batch.completion_ids], 1)[:, batch.prompt_ids.shape[1] - 1 :]
        assert ids.shape[1] == batch.completion_ids.shape[1] + 1
        row = int(batch.prompt_mask.sum(1).argmax())
        whole = torch.cat([batch.prompt_ids, batch.completion_ids], 1)[row : row + 1]
        hidden = other.model(whole).last_hidden_state[0]
    assert batch.old_values[row, 0] == pytest.approx(float(hidden[batch.prompt_ids.shape[1] - 1].sum()), abs=1e-4)  # type: ignore[attr-defined]
    run.train()
    assert any(name.startswith("value_function.trunk") for name in kept.steps[0])
    assert not any("lm_head" in name for name in kept.steps[0] if name.startswith("value_function"))


def test_the_reward_rises(tmp_path: Path) -> None:
    """With eight seeds of model and roll-outs it rose by 0.33 to 0.68."""
    settings = {"per_device_train_batch_size": 32, "num_generations": 4, "num_ppo_epochs": 2}
    run = trainer(tmp_path, max_steps=16, learning_rate=1e-2, **settings)
    run.train()
    rewards = [line["reward_mean"] for line in run.state.log_history[:-1]]
    assert sum(rewards[-4:]) / 4 > rewards[0] + 0.15


def test_what_is_not_supported_raises(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="value_model is given but value_function is 'head'"):
        trainer(tmp_path, given={"value_model": new_model()})
    with pytest.raises(ValueError, match="lacks the value function's weights"):
        trainer(tmp_path, given={"optimizers": (torch.optim.SGD(new_model().parameters()), None)})
    with pytest.raises(ValueError, match="Gemma2ForCausalLM does more than multiply"):
        trainer(tmp_path, gemma2())
    assert issubclass(PPOTrainer.__annotations__["args"], PPOArguments)
