import copy
import json
import statistics
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file

from llm_rl.ppo.arguments import PPOArguments
from llm_rl.ppo.trainer import PPOTrainer
from llm_rl.rollout.generation import Completion, SamplingParams
from llm_rl.training.errors import CheckpointError
from tests.helpers.refusals import refused
from tests.llm_rl.helpers.fixed_engine import EndingEngine, Says
from tests.llm_rl.helpers.grpo_reference import known_logps, token_logps
from tests.llm_rl.helpers.small_models import gemma2
from tests.llm_rl.helpers.tiny_grpo import SAVING, distinct_rows, least_at_two, new_model, ones, rows, small_ids
from tests.llm_rl.helpers.tiny_ppo import slow_loss, slow_roll_out, slow_values, trainer
from tests.llm_rl.helpers.watch import KeepSteps, assert_gradients, gradients_of, keep_samples, trained

MONITORS = {
    "reward_mean", "reward_std", "approx_kl", "clip_frac", "entropy", "grad_norm", "ratio_mean", "policy_loss",
    "value_loss", "value_clip_frac", "value_mean", "explained_variance",
}  # fmt: skip


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
    old = known_logps(start, samples, args.temperature)
    ref = known_logps(reference, samples, args.temperature) if "kl_weight" in changes else None
    values = [slow_values(start, head, sample).detach() for sample in samples]
    advantages, returns = slow_roll_out(args, samples, rewards, old, values, ref)
    for step in (0, 1):
        now, its_head = copy.deepcopy(start), copy.deepcopy(head)
        weights = kept.weights[step]
        now.load_state_dict({n.removeprefix("model."): w for n, w in weights.items() if n.startswith("model.")})
        its_head.load_state_dict({name: weights[f"value_function.head.{name}"] for name in ("weight", "bias")})
        loss = slow_loss(now, its_head, args, samples, old, values, ref, advantages, returns)
        loss.backward()
        line = run.state.log_history[step]
        assert line.keys() >= MONITORS and line["loss"] == pytest.approx(loss.item(), abs=2e-6)
        assert len(kept.steps[step]) == len([*now.parameters(), *its_head.parameters()])
        assert_gradients(kept.steps[step], now, "model.")
        assert_gradients(kept.steps[step], its_head, "value_function.head.")
    first, second = run.state.log_history[:2]
    assert first["clip_frac"] == first["value_clip_frac"] == 0 and first["ratio_mean"] == pytest.approx(1)
    assert second["clip_frac"] > 0 and (second["value_clip_frac"] > 0) == (args.cliprange_value is not None)


def test_without_values_and_discount_it_is_reinforce(tmp_path: Path) -> None:
    """γ = λ = 1 and V = 0: the gradient of −mean over tokens of whitened reward · log π."""
    start = new_model(dtype=torch.float64)
    settings = {"lam": 1.0, "num_ppo_epochs": 1, "vf_coef": 0.0, "max_grad_norm": 0.0}
    run = trainer(tmp_path, copy.deepcopy(start), given={"engine": EndingEngine()}, **settings)
    samples = keep_samples(run)
    (gradients,) = gradients_of(run)
    rewards = small_ids([sample.completion_ids for sample in samples])
    paid = [reward for sample, reward in zip(samples, rewards, strict=True) for _ in sample.completion_ids]
    mean, std = statistics.mean(paid), statistics.pstdev(paid)
    total = torch.zeros((), dtype=torch.float64)
    for sample, reward in zip(samples, rewards, strict=True):
        total = total - (reward - mean) / std * token_logps(start, sample, 1.0).sum()
    (total / len(paid)).backward()
    assert_gradients(gradients, start, "model.")
    assert max(float(gradient.abs().max()) for gradient in gradients.values()) > 1e-3
    assert not gradients["value_function.head.weight"].any()


def chain(prompts: Any, params: SamplingParams) -> list[Completion]:
    """Five tokens to the end, whatever the policy says."""
    return [Completion([11, 12, 13, 14, params.eos_token_ids[0]], None) for _ in prompts]


@pytest.mark.parametrize("value_function", ["head", "model"])
def test_the_values_of_a_chain_are_found(tmp_path: Path, value_function: str) -> None:
    """A reward of 1 at the end of five tokens is worth γ^4 before the first and 1 before the last."""
    # The weight of the values leaves the policy, which moves the same features about, next to no part in the step.
    settings = {"max_steps": 40, "gamma": 0.5, "lam": 0.5, "vf_coef": 1e4, "learning_rate": 1e-2}
    run = trainer(
        tmp_path, reward_funcs=ones, data=[{"prompt": "red green"}] * 4, given={"engine": Says(chain)},
        cliprange_value=None, lr_scheduler_type="linear", value_function=value_function, per_device_train_batch_size=2,
        **settings,
    )  # fmt: skip
    run.train()
    (batch,) = run._roll_out([{"prompt": "red green"}] * 2)
    assert batch.old_values[0].tolist() == pytest.approx([0.5**4, 0.5**3, 0.5**2, 0.5, 1.0], abs=0.03)  # type: ignore[attr-defined]
    history = run.state.log_history
    assert history[0]["explained_variance"] == pytest.approx(0, abs=1e-6) and history[-2]["explained_variance"] > 0.99
    assert history[-2]["value_loss"] < 1e-3 < history[0]["value_loss"]


def test_adapters_and_head_train_and_all_else_stays(tmp_path: Path) -> None:
    base = new_model()
    adapted = get_peft_model(base, LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))
    before = copy.deepcopy(adapted.state_dict())
    saving = {"save_strategy": "steps", "save_steps": 2, "max_steps": 2, "kl_weight": 0.1, "learning_rate": 1e-2}
    run = trained(trainer(tmp_path, adapted, **saving))
    for name, weight in adapted.state_dict().items():
        assert torch.equal(weight, before[name]) == ("lora_" not in name), name
    assert run.value_function.head.weight.any()
    files = {path.name for path in (tmp_path / "checkpoint-2").iterdir()}
    assert {"adapter_model.safetensors", "value_function.safetensors"} <= files and "model.safetensors" not in files


def test_a_value_model_of_its_own_leaves_the_policy_alone(tmp_path: Path) -> None:
    other = new_model(seed=3)
    settings = {"value_function": "model", "num_ppo_epochs": 1, "lam": 1.0}
    run = trainer(tmp_path, reward_funcs=ones, given={"value_model": other}, **settings)
    torch.nn.init.ones_(run.value_function.head.weight)
    (batch,) = run._roll_out(rows(8))
    with torch.no_grad():
        ids = torch.cat([batch.prompt_ids, batch.completion_ids], 1)[:, batch.prompt_ids.shape[1] - 1 :]
        assert ids.shape[1] == batch.completion_ids.shape[1] + 1
        row = int(batch.prompt_mask.sum(1).argmax())
        whole = torch.cat([batch.prompt_ids, batch.completion_ids], 1)[row : row + 1]
        hidden = other.model(whole).last_hidden_state[0]
    assert batch.old_values[row, 0] == pytest.approx(float(hidden[batch.prompt_ids.shape[1] - 1].sum()), abs=1e-4)  # type: ignore[attr-defined]
    learned = [name for name in gradients_of(run)[0] if name.startswith("value_function")]
    assert any("value_function.trunk" in name for name in learned) and not any("lm_head" in name for name in learned)


def test_what_is_not_supported_raises(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="value_model is given but value_function is 'head'"):
        trainer(tmp_path, given={"value_model": new_model()})
    with pytest.raises(ValueError, match="lacks the value function's weights"):
        trainer(tmp_path, given={"optimizers": (torch.optim.SGD(new_model().parameters()), None)})
    refused("Gemma2ForCausalLM does more than multiply", lambda: trainer(tmp_path, gemma2()))
    assert issubclass(PPOTrainer.__annotations__["args"], PPOArguments)


# Checkpoints


def test_a_checkpoint_without_its_value_function_is_refused(tmp_path: Path) -> None:
    trainer(tmp_path, **SAVING).train()
    other = trainer(tmp_path, **SAVING, max_steps=2, value_function="model", resume_with_changes=True)
    with pytest.raises(CheckpointError, match="holds a value function of another kind or size"):
        other.train(resume_from_checkpoint="last")
    (tmp_path / "checkpoint-1" / "value_function.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"value_function\.safetensors"):
        trainer(tmp_path, **SAVING, max_steps=2).train(resume_from_checkpoint="last")


def test_the_best_checkpoint_and_its_value_function_are_found_again(tmp_path: Path) -> None:
    each_step = {"eval_strategy": "steps", "eval_steps": 1, "save_total_limit": 2, **SAVING, "max_steps": 4}
    best = {"load_best_model_at_end": True, "metric_for_best_model": "eval_reward_mean", "greater_is_better": False}
    given = {"eval_dataset": distinct_rows(6)}
    run = trained(trainer(tmp_path, learning_rate=1e-2, reward_funcs=least_at_two, given=given, **each_step, **best))
    assert run.state.best_model_checkpoint == str(tmp_path / "checkpoint-2")
    for name in ("checkpoint-2", "checkpoint-4"):
        state = json.loads((tmp_path / name / "trainer_state.json").read_text())
        assert state["best_model_checkpoint"] == run.state.best_model_checkpoint
    found = load_file(tmp_path / "checkpoint-2" / "value_function.safetensors")
    assert torch.equal(found["head.weight"], run.value_function.head.weight)
    # The same weights and draws as then, now at the fourth step.
    then = {line["step"]: line["eval_reward_mean"] for line in run.state.log_history if "eval_reward_mean" in line}
    assert run.evaluate()["eval_reward_mean"] == pytest.approx(then[2] + 2, abs=1e-6)
