import pytest
from transformers import HfArgumentParser

from dllm_rl.policy import PolicyConfig
from dllm_rl.terms.objective import ObjectiveConfig
from dllm_rl.training.arguments import UnmaskArguments


@pytest.fixture
def make(tmp_path):
    return lambda **changes: UnmaskArguments(output_dir=str(tmp_path), use_cpu=True, **changes)


def test_defaults_are_those_of_the_policy_and_the_objective(make):
    args = make()
    assert args.policy_config() == PolicyConfig()
    assert args.objective_config() == ObjectiveConfig()
    assert (args.num_generations, args.num_iterations) == (8, 1)
    assert args.remove_unused_columns is False and args.logging_nan_inf_filter is False


def test_every_field_reaches_its_config(make):
    policy = {"position_temperature": 0.3, "token_temperature": 0.7, "margin_eps": 1e-6}
    weights = {"policy_weight": 2.0, "f_weight": 0.5, "ce_weight": 0.3, "state_fraction": 0.5}
    advantages = {"gamma": 0.9, "advantage_baseline": "leave_one_out", "advantage_scale": "none", "reduction": "mean"}
    objective = {"lam": 0.1, "clip_low": 0.1, "clip_high": 0.3, **advantages, **weights}
    args = make(**policy, **objective)
    assert args.policy_config() == PolicyConfig(**policy)
    assert args.objective_config() == ObjectiveConfig(**objective)


def test_position_temperature_is_annealed(make):
    args = make(position_temperature=1.0, position_temperature_end=0.2)
    assert args.policy_config() == PolicyConfig(position_temperature=1.0)
    assert args.policy_config(0.5).position_temperature == pytest.approx(0.6)
    assert make(position_temperature=1.0).policy_config(0.5) == PolicyConfig(position_temperature=1.0)


def test_steps_per_rollout(make):
    assert make(num_iterations=2, save_steps=16).steps_per_rollout == 2


def test_command_line(tmp_path):
    line = f"--output_dir {tmp_path} --use_cpu --sft_learning_rate 1e-3 --lam 0.25 --reduction mean"
    (args,) = HfArgumentParser(UnmaskArguments).parse_args_into_dataclasses(line.split())
    assert args.rates == (args.learning_rate, 1e-3)
    assert (args.lam, args.reduction) == (0.25, "mean")


def test_rates(make):
    assert make(learning_rate=0.1).rates == (0.1, 0.1)
    assert make(learning_rate=0.1, rl_learning_rate=0.0).rates == (0.0, 0.1)
    assert make(learning_rate=0.1, rl_learning_rate=0.2, sft_learning_rate=0.3).rates == (0.2, 0.3)
