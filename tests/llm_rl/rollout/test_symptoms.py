"""What teaches nothing is told once a run, with its remedy; what learns is not."""

from pathlib import Path
from typing import Any

import pytest

from llm_rl.rollout.generation import Completion, SamplingParams
from llm_rl.rollout.sft import SupervisedDataset
from llm_rl.rollout.symptoms import warn_of_text_prompts
from llm_rl.rollout.trainer import RolloutTrainer
from llm_rl.training.symptoms import SymptomWarnings
from tests.llm_rl.helpers import tiny_dpo, tiny_grpo, tiny_ppo, tiny_vapor
from tests.llm_rl.helpers.fixed_engine import FixedEngine, Says
from tests.llm_rl.helpers.tool_play import chat_tokenizer

MAKE: dict[str, Any] = {"grpo": tiny_grpo.trainer, "ppo": tiny_ppo.trainer, "vapor": tiny_vapor.trainer}
TOLD = ["raise max_completion_length", "raise num_generations"]


def endless(prompts: Any, params: SamplingParams) -> list[Completion]:
    """No end token."""
    return [Completion([1 + place % 3 for place in range(params.max_new_tokens)], None) for _ in prompts]


def soon_told(run: RolloutTrainer) -> None:
    """Trains, and is told of what two lines show."""
    run._warnings = SymptomWarnings(run._symptoms(), patience=2)
    run.train()


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.name == "llm_rl.training.symptoms"]


@pytest.mark.parametrize("kind", MAKE)
def test_what_teaches_nothing_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str) -> None:
    own = {"num_ppo_epochs": 1} if kind == "ppo" else {}
    soon_told(MAKE[kind](tmp_path, reward_funcs=tiny_grpo.ones, given={"engine": Says(endless)}, max_steps=4, **own))
    told = messages(caplog)
    expected = [*TOLD, *(["give its tags as verifiable_term_split"] if kind == "vapor" else [])]
    assert all(remedy in one for one, remedy in zip(told, expected, strict=True))
    assert all("the mean of 2 log lines" in one for one in told)


@pytest.mark.parametrize("kind", MAKE)
def test_a_run_that_learns_is_not_warned(tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str) -> None:
    """Half of the completions end, and rewards differ; one completion a roll-out has nothing to differ from."""
    own = {"reward_funcs": tiny_grpo.uneven, "given": {"engine": FixedEngine()}} if kind != "vapor" else {}
    soon_told(MAKE[kind](tmp_path / "many", max_steps=4, **own))
    if kind == "ppo":
        soon_told(MAKE[kind](tmp_path / "one", max_steps=4, **{**own, "per_device_train_batch_size": 1}))
    assert not messages(caplog)


def test_text_prompts_beside_a_chat_template_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    names, bare = chat_tokenizer(), tiny_vapor.tag_tokenizer()
    framed = names.apply_chat_template([{"role": "user", "content": "Hi"}], tokenize=False, add_generation_prompt=True)
    conversation = [{"role": "user", "content": "Hi"}]
    for prompt, tokenizer in ((framed, names), (f"{framed}So", names), (conversation, names), ("Hi", bare)):
        warn_of_text_prompts([{"prompt": prompt}], tokenizer, {})
    assert not caplog.records
    tiny_grpo.trainer(tmp_path)
    tiny_dpo.trainer(tmp_path)
    SupervisedDataset(tiny_dpo.pairs(), tiny_grpo.tokenizer())
    told = [one.getMessage() for one in caplog.records if one.name == "llm_rl.rollout.symptoms"]
    assert len(told) == 3 and all("prompts are texts, such as 'red'" in one for one in told)
