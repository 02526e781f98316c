import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import HfArgumentParser, LlamaForCausalLM

from llm_rl.grpo.arguments import GRPOArguments
from llm_rl.grpo.extensions import ImportanceCorrection
from llm_rl.grpo.trainer import GRPOTrainer
from llm_rl.rollout.data import Sample
from tests.helpers.drawn import first_with
from tests.llm_rl.helpers.fixed_engine import BiasedEngine, EndingEngine
from tests.llm_rl.helpers.grpo_reference import known_logps, slow_advantages, slow_loss
from tests.llm_rl.helpers.tiny_grpo import new_model, rows, small_ids, trainer, uneven
from tests.llm_rl.helpers.watch import KeepSteps, assert_gradients, gradients_of, keep_samples, logged


class BiasedEndingEngine(EndingEngine, BiasedEngine):
    """Ends what `BiasedEngine` samples."""


MONITORS = {
    "reward_mean", "reward_std", "approx_kl", "clip_frac", "entropy", "grad_norm", "groups_without_spread",
    "ratio_mean", "engine_logp_diff_mean",
}  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"loss_type": "bnpo", "clip_high": 0.3, "scale_rewards": "none", "kl_weight": 0.2},
        {"loss_type": "dapo", "scale_rewards": "batch", "temperature": 0.7, "advantage_baseline": "leave_one_out"},
        {"loss_type": "dr_grpo", "kl_weight": 0.05, "clip_low": 0.1},
        {"cap": 1.2, "gradient_accumulation_steps": 1, "per_device_train_batch_size": 8},
    ],
    ids=lambda changes: "-".join(changes) or "defaults",
)
def test_gradient_equals_a_slow_loop_over_tokens(tmp_path: Path, changes: dict[str, Any]) -> None:
    """They agree at the first update, where every ratio is 1, and at the second, where some are clipped.

    With a cap the importance weights of an engine that claims other log-probabilities act.
    """
    settings = {
        "max_steps": 2, "num_iterations": 2, "per_device_train_batch_size": 2, "gradient_accumulation_steps": 4,
        "learning_rate": 2e-3, "max_grad_norm": 0.0, **changes,
    }  # fmt: skip
    cap = settings.pop("cap", None)

    def trained(seed: int) -> tuple[GRPOTrainer, list[Sample], LlamaForCausalLM, KeepSteps]:
        kept, model = KeepSteps(), new_model(seed, dtype=torch.float64)
        extensions = [ImportanceCorrection(cap)] if cap else []
        given = {"callbacks": [kept], "engine": BiasedEndingEngine(), "extensions": extensions}
        start = copy.deepcopy(model)
        run = trainer(tmp_path, model, reward_funcs=uneven, data=rows(2), given=given, **settings)
        samples = keep_samples(run)
        run.train()
        return run, samples, start, kept

    run, samples, start, kept = first_with(lambda case: 0 < clipped_share(case[0], 1) < 1, trained, seed=0)
    args = run.args
    assert len({len(s.prompt_ids) for s in samples}) > 1 and {s.truncated for s in samples} == {True, False}
    rewards = uneven([sample.completion_ids for sample in samples])
    old = known_logps(start, samples, args.temperature)
    for step in (0, 1):
        now = copy.deepcopy(start)
        now.load_state_dict(kept.weights[step])
        loss = slow_loss(now, samples, rewards, old, old, args, cap)
        loss.backward()
        line = run.state.log_history[step]
        assert line.keys() >= MONITORS and line["loss"] == pytest.approx(loss.item(), abs=2e-6)
        # Half the mean square of the log-ratio: rounding at a roll-out's first use, the size of a step at its next.
        assert (line["approx_kl"] > 1e-9) == (step == 1) and line["masked_frac"] == 0
        assert_gradients(kept.steps[step], now)
    assert max(float(grad.abs().max()) for grad in kept.steps[1].values()) > 1e-3
    assert clipped_share(run, 0) == 0


def clipped_share(run: GRPOTrainer, step: int) -> float:
    return run.state.log_history[step]["clip_frac"]


def token_kl(logits: torch.Tensor, ref_logits: torch.Tensor, token: int, estimator: str) -> torch.Tensor:
    new, ref = logits.log_softmax(-1), ref_logits.log_softmax(-1)
    gap = ref[token] - new[token]
    return {"k1": -gap, "k2": gap**2 / 2, "k3": gap.exp() - gap - 1, "full": (new.exp() * (new - ref)).sum()}[estimator]


@pytest.mark.parametrize("kl_in", ["loss", "reward"])
@pytest.mark.parametrize("estimator", ["k1", "k2", "k3", "full"])
def test_every_divergence_in_the_loss_and_in_the_reward(tmp_path: Path, estimator: str, kl_in: str) -> None:
    start, reference = new_model(dtype=torch.float64), new_model(seed=5, dtype=torch.float64)
    settings = {"kl_weight": 0.3, "kl_estimator": estimator, "kl_in": kl_in, "max_grad_norm": 0.0, "temperature": 0.8}
    run = trainer(tmp_path, copy.deepcopy(start), given={"ref_model": copy.deepcopy(reference)}, **settings)
    samples = keep_samples(run)
    (gradients,) = gradients_of(run)
    kls = []
    for sample in samples:
        ids = torch.tensor([sample.prompt_ids + sample.completion_ids])
        rows = slice(len(sample.prompt_ids) - 1, -1)
        logits, ref_logits = (each(ids).logits[0, rows] / 0.8 for each in (start, reference))
        zipped = zip(logits, ref_logits.detach(), sample.completion_ids, strict=True)
        kls.append(torch.stack([token_kl(new, ref, token, estimator) for new, ref, token in zipped]))
    rewards = small_ids([sample.completion_ids for sample in samples])
    if kl_in == "reward":
        rewards = [reward - 0.3 * kl.sum().item() for reward, kl in zip(rewards, kls, strict=True)]
    plain = copy.copy(run.args)
    plain.kl_weight = 0.0
    old = known_logps(start, samples, 0.8)
    loss = slow_loss(start, samples, rewards, old, old, plain)
    if kl_in == "loss":
        loss = loss + 0.3 * torch.stack([kl.mean() for kl in kls]).mean()
    loss.backward()
    line = run.state.log_history[0]
    assert line["loss"] == pytest.approx(loss.item(), abs=2e-6)
    assert line["kl"] == pytest.approx(torch.cat(kls).mean().item(), rel=1e-5) and abs(line["kl"]) > 1e-2
    assert line["reward_mean"] == pytest.approx(sum(rewards) / len(rewards), rel=1e-5)
    assert_gradients(gradients, start)


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
@pytest.mark.parametrize("baseline", ["mean", "leave_one_out"])
def test_advantages_by_a_slow_loop(tmp_path: Path, scale: str, baseline: str) -> None:
    run = trainer(tmp_path, scale_rewards=scale, advantage_baseline=baseline)
    rewards = torch.tensor([[0.0, 1.0, 0.5, 0.25], [3.0, 1.0, 1.0, 2.0]])
    expected = slow_advantages(rewards.flatten().tolist(), run.args)
    assert run._compute_advantages(rewards).flatten().tolist() == pytest.approx(expected, abs=1e-5)


def test_arguments_from_a_command_line() -> None:
    line = "--output_dir x --use_cpu --reward_weights 1 0.5 --chat_template_kwargs".split()
    (args,) = HfArgumentParser(GRPOArguments).parse_args_into_dataclasses([*line, '{"enable_thinking": false}'])
    assert args.reward_weights == [1.0, 0.5] and args.chat_template_kwargs == {"enable_thinking": False}


def test_help_and_errors_of_the_command_line_show_the_choices(capsys: pytest.CaptureFixture[str]) -> None:
    parser = HfArgumentParser(GRPOArguments)
    assert "--loss_type {grpo,bnpo,dr_grpo,dapo}" in parser.format_help()
    with pytest.raises(SystemExit):
        parser.parse_args_into_dataclasses(["--output_dir", "x", "--kl_in", "both"])
    assert "invalid choice: 'both'" in capsys.readouterr().err


@pytest.mark.parametrize("changes", [{"gradient_checkpointing": True}, {"bf16": True}], ids=str)
def test_sampling_and_training_agree_under(tmp_path: Path, changes: dict[str, Any]) -> None:
    first, second, _, _ = logged(trainer(tmp_path, reward_funcs=uneven, max_steps=3, num_iterations=2, **changes))
    assert first["ratio_mean"] == 1 and first["approx_kl"] == 0 and second["approx_kl"] > 0
    assert first["engine_logp_diff_max"] < (0.2 if "bf16" in changes else 1e-4)
