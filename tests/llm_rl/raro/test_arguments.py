from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from llm_rl.grpo.arguments import GRPOArguments
from llm_rl.raro import RAROArguments
from tests.llm_rl.helpers.tiny_raro import arguments


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"gradient_accumulation_steps": 2},
            "gradient_accumulation_steps=2 is not supported with RARO; an optimizer step",
        ),
        ({"scale_rewards": "batch"}, "scale_rewards='batch'"),
        ({"tau_pol": 1.2}, "tau_pol is 1.2"),
        ({"lambda_crit": -1.0}, "lambda_crit is -1.0"),
        ({"critic_generations": 1}, "critic_generations is 1; a group"),
        ({"critic_pairs": 0}, "critic_pairs is 0"),
        ({"critic_batch": "mixed", "critic_pairs": 4}, "critic_pairs=4 does nothing with critic_batch='mixed'"),
        ({"critic_batch": "mixed", "policy_judgements": 2}, "policy_judgements=2 does nothing"),
        ({"critic_batch": "mixed", "critic_equal_pairs": False}, "critic_equal_pairs=False does nothing"),
        ({"rejudge_attempts": -1}, "rejudge_attempts is -1"),
        ({"max_critic_completion_length": 0}, "max_critic_completion_length is 0"),
        ({"unparsable_reward": float("nan")}, "unparsable_reward is nan; give a finite reward"),
        ({"critic_batch": "both"}, "critic_batch is 'both'"),
        ({"on_unparsable": "reward"}, "on_unparsable is 'reward'"),
        ({"replay_mode": "lifo"}, "replay_mode is 'lifo'"),
        ({"prompt_format": "json"}, "prompt_format is 'json'"),
        ({"reasoning_tags": ["<R>"]}, r"reasoning_tags is \['<R>'\]"),
        ({"critic_template": "{question} {answer_1}"}, "has no {answer_2}"),
    ],
)
def test_arguments_that_do_not_fit_raise(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        arguments(tmp_path, **changes)


def test_options_of_grpo_alone_are_unknown_here() -> None:
    assert not {item.name for item in fields(RAROArguments)} & set(GRPOArguments.__annotations__)
