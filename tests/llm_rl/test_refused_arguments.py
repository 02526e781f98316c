"""What the arguments of trainers and the options of extensions refuse, with an error that names it."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from llm_rl import GRPOArguments, RAROArguments, VAPORArguments
from llm_rl.grpo.extensions import Chord, EntropyBonus, ImportanceCorrection
from tests.helpers.refusals import refused
from tests.llm_rl.helpers import tiny_dpo, tiny_grpo, tiny_ppo, tiny_raro, tiny_vapor

REFUSED: dict[Any, list[tuple[dict[str, Any], str]]] = {
    tiny_grpo: [
        ({"loss_type": "ppo"}, "loss_type is 'ppo'"),
        ({"scale_rewards": "std"}, "scale_rewards is 'std'"),
        ({"advantage_baseline": "ema"}, "advantage_baseline is 'ema'"),
        ({"clip_low": 1.5}, "clip_low is 1.5"),
        ({"clip_high": -0.1}, "clip_high is -0.1"),
        ({"num_generations": 1}, "num_generations=1 must be at least 2"),
        ({"num_generations": 3}, "no multiple of num_generations = 3"),
        ({"temperature": 0.0}, "temperature is 0.0"),
        ({"kl_weight": -1.0}, "kl_weight=-1.0 must be a finite"),
        ({"kl_weight": float("inf")}, "kl_weight=inf must be a finite"),
        ({"temperature": float("inf")}, "temperature is infinite"),
        ({"reward_weights": [1.0, float("nan")]}, "weights must be finite"),
        ({"kl_in": "both"}, "kl_in is 'both'"),
        ({"kl_estimator": "k4"}, "kl_estimator is 'k4'"),
        ({"kl_in": "reward"}, "kl_in='reward' does nothing while kl_weight is 0"),
        ({"kl_estimator": "full"}, "kl_estimator='full' does nothing while kl_weight is 0"),
        ({"dynamic_sampling_attempts": -1}, "dynamic_sampling_attempts=-1 must be at least"),
        ({"adapter_reference": "base"}, "adapter_reference='base' does nothing while kl_weight is 0"),
        ({"dynamic_sampling_attempts": 1.5}, "dynamic_sampling_attempts=1.5 must be at least"),
        ({"num_iterations": 0}, "num_iterations=0 must be at least"),
        ({"num_generations": 4.0}, "num_generations=4.0 must be at least 2"),
        ({"gradient_accumulation_steps": 0}, "gradient_accumulation_steps=0 must be at least 1"),
        ({"per_device_eval_batch_size": 0}, "per_device_eval_batch_size=0 must be at least"),
        ({"use_vllm": True}, r"use_vllm=True is an option of TRL's, .*; give the trainer engine=ServerEngine\("),
        ({"vllm_mode": "colocate"}, r"vllm_mode='colocate' is an option of TRL's, .*engine=ServerEngine\("),
        ({"beta": 0.04}, r"beta=0\.04 is an option of TRL's, unknown here; write kl_weight"),
        ({"bf16_full_eval": True}, "bf16_full_eval=True is not supported"),
        ({"include_for_metrics": ["loss"]}, "include_for_metrics=.'loss'. is not supported"),
        ({"accelerator_config": {"split_batches": True}}, "accelerator_config.split_batches is not supported"),
        ({"ignore_data_skip": True}, "ignore_data_skip=True is not supported"),
        ({"train_sampling_strategy": "sequential"}, "train_sampling_strategy='sequential' is not supported"),
        ({"torch_compile": True}, "torch_compile=True is not supported"),
        ({"include_num_input_tokens_seen": "all"}, "include_num_input_tokens_seen='all' is not supported"),
        ({"shard": True, "share_prompts": True}, "share_prompts takes passes of its own"),
        ({"shard": True, "kl_weight": 0.1, "kl_estimator": "full"}, "reads two heads at once"),
        ({"shard": True, "offload_optimizer": True}, "offload_optimizer=True does nothing with shard"),
        ({"fsdp": True, "offload_model": True}, "offload_model=True does nothing with shard, fsdp or deepspeed"),
    ],
    tiny_ppo: [
        ({"gamma": 1.5}, r"gamma is 1\.5"),
        ({"lam": -0.1}, r"lam is -0\.1"),
        ({"clip_low": 2.0}, r"clip_low is 2\.0"),
        ({"clip_high": -1.0}, r"clip_high is -1\.0"),
        ({"vf_coef": -1.0}, "vf_coef=-1.0 must be a finite"),
        ({"cliprange_value": 0.0}, r"cliprange_value is 0\.0"),
        ({"num_ppo_epochs": 0}, "num_ppo_epochs=0 must be at least"),
        ({"num_iterations": 3}, "two names of one number"),
        ({"num_generations": 0}, "num_generations=0 must be at least 1"),
        ({"value_function": "tree"}, "value_function is 'tree'"),
        ({"kl_in": "both"}, "kl_in is 'both'"),
        ({"kl_in": "loss"}, "kl_in='loss' does nothing while kl_weight is 0"),
        ({"kl_in": "loss", "kl_weight": 0.1, "kl_estimator": "k1"}, "gradient 0 in expectation"),
        ({"dynamic_sampling_attempts": 1}, "PPO compares no groups"),
        ({"shard": True, "value_function": "model"}, "trains a second model"),
    ],
    tiny_dpo: [
        ({"beta": 0.0}, r"beta is 0\.0"),
        ({"beta": float("inf")}, "beta is infinite"),
        ({"loss_type": "kto"}, "loss_type is 'kto'"),
        ({"torch_compile": True}, "torch_compile=True is not supported by DPOTrainer"),
        ({"label_smoothing_factor": 0.1}, r"label_smoothing_factor=0\.1 is not supported"),
    ],
    tiny_vapor: [
        ({"verifiable_term_split": None}, "verifiable_term_split is None"),
        ({"verifiable_term_split": "<R>"}, "verifiable_term_split is '<R>'"),
        ({"preference_term_split": ["<R>", ""]}, "preference_term_split is"),
        ({"preference_context": "both"}, "preference_context is 'both'"),
        ({"span_rule": "within"}, "span_rule is 'within'"),
        ({"ratio_base": "new"}, "ratio_base is 'new'"),
        ({"beta": 0.0, "pref_loss_weight": 1.0}, "pref_loss_weight is set but beta is 0"),
        ({"per_device_train_batch_size": 6, "gradient_accumulation_steps": 2}, "holds whole groups"),
        ({"kl_estimator": "full", "kl_weight": 0.1}, "kl_estimator is 'full'"),
    ],
    tiny_raro: [
        ({"gradient_accumulation_steps": 2}, "gradient_accumulation_steps=2 is not supported with RARO"),
        ({"scale_rewards": "batch"}, "scale_rewards='batch'"),
        ({"tau_pol": 1.2}, "tau_pol is 1.2"),
        ({"lambda_crit": -1.0}, "lambda_crit=-1.0 must be a finite"),
        ({"critic_generations": 1}, "critic_generations=1 must be at least 2 and a whole number: a group"),
        ({"critic_pairs": 0}, "critic_pairs=0 must be at least"),
        ({"critic_batch": "mixed", "critic_pairs": 4}, "critic_pairs=4 does nothing with critic_batch='mixed'"),
        ({"critic_batch": "mixed", "policy_judgements": 2}, "policy_judgements=2 does nothing"),
        ({"critic_batch": "mixed", "critic_equal_pairs": False}, "critic_equal_pairs=False does nothing"),
        ({"rejudge_attempts": -1}, "rejudge_attempts=-1 must be at least"),
        ({"max_critic_completion_length": 0}, "max_critic_completion_length=0 must be at least"),
        ({"unparsable_reward": float("nan")}, "unparsable_reward is nan; give a finite reward"),
        ({"critic_batch": "both"}, "critic_batch is 'both'"),
        ({"on_unparsable": "reward"}, "on_unparsable is 'reward'"),
        ({"replay_mode": "lifo"}, "replay_mode is 'lifo'"),
        ({"prompt_format": "json"}, "prompt_format is 'json'"),
        ({"reasoning_tags": ["<R>"]}, r"reasoning_tags is \['<R>'\]"),
        ({"critic_template": "{question} {answer_1}"}, "has no {answer_2}"),
        ({"critic_warmup": 1.0}, "critic_warmup is 1.0; it is a share"),
        ({"critic_warmup": -0.1}, "critic_warmup is -0.1"),
        ({"critic_warmup": 0.7, "lambda_crit": 0.0}, "waits for a critic that lambda_crit=0 keeps from learning"),
    ],
}
OPTIONS: dict[Any, list[tuple[dict[str, Any], str]]] = {
    Chord: [
        ({"mu_peak": 1.5}, "mu_peak 1.5"),
        ({"batch_size": 0}, "batch_size=0 must be at least"),
        ({"mu_decay_steps": 1.5}, "mu_decay_steps=1.5 must be at least"),
    ],
    EntropyBonus: [
        ({}, "does nothing with coef 0 and no target"),
        ({"coef": -0.1}, "coef=-0.1 must be a finite"),
        ({"coef": 0.1, "coef_max": 2.0}, "do nothing without target"),
        ({"target": -1.0}, "target is -1.0"),
    ],
    ImportanceCorrection: [
        ({"cap": 0.0}, "cap is 0.0"),
        ({"cap": 1.0, "floor": 2.0}, "floor is 2.0, above cap = 1.0"),
        ({"cap": None, "mode": "mask"}, "does nothing without a bound"),
        ({"level": "turn"}, "level is 'turn'"),
    ],
}


@pytest.mark.parametrize(
    ("tiny", "changes", "message"), [(tiny, *case) for tiny, cases in REFUSED.items() for case in cases]
)
def test_arguments_that_do_not_fit_are_refused(
    tmp_path: Path, tiny: Any, changes: dict[str, Any], message: str
) -> None:
    refused(message, lambda: tiny.arguments(tmp_path, **changes))


@pytest.mark.parametrize(
    ("kind", "options", "message"), [(kind, *case) for kind, cases in OPTIONS.items() for case in cases]
)
def test_options_that_do_not_fit_are_refused(kind: Any, options: dict[str, Any], message: str) -> None:
    refused(message, lambda: kind(**{**({"rows": tiny_grpo.EXPERTS} if kind is Chord else {}), **options}))


@pytest.mark.parametrize("kind", [VAPORArguments, RAROArguments])
def test_options_of_grpo_alone_are_unknown_elsewhere(kind: Any) -> None:
    assert not {item.name for item in fields(kind)} & set(GRPOArguments.__annotations__)
