"""Models as reward functions: what they score, alone and in a training, and what they refuse."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForSequenceClassification

from llm_rl import RewardModel, TextJudge
from llm_rl.rollout.generation import Completion
from llm_rl.rollout.rewards import RewardFunctions
from tests.helpers.refusals import refused
from tests.llm_rl.helpers.fixed_engine import Says
from tests.llm_rl.helpers.tiny_grpo import new_model, rows, tokenizer, trainer
from tests.llm_rl.helpers.watch import assert_same_weights, trained

PROMPTS = ["red", "sky sea", [{"role": "user", "content": "sun"}], "one two three"]
COMPLETIONS = [" one two", " three", [{"role": "assistant", "content": "moon one one"}], ""]


@cache
def classifier(labels: int = 1) -> Any:
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = LlamaConfig(vocab_size=len(tokenizer()), num_labels=labels, max_position_embeddings=64, **sizes)
    return LlamaForSequenceClassification(config)


def test_a_score_is_that_of_the_text_read_alone() -> None:
    texts = ["red one two", "sky sea three", "user sun assistant moon one one ", "one two three"]
    model = classifier()
    alone = [model(input_ids=torch.tensor([tokenizer()(text)["input_ids"]])).logits.item() for text in texts]
    for size in (1, 3, 16):
        assert RewardModel(model, tokenizer(), batch_size=size)(PROMPTS, COMPLETIONS) == pytest.approx(alone, abs=1e-5)
    assert len({round(score, 4) for score in alone}) == 4


def test_a_folder_stands_for_its_model_and_is_not_trained(tmp_path: Path) -> None:
    folder = tmp_path / "scores"
    classifier().save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    run = trained(trainer(tmp_path / "run", reward_funcs=str(folder), data=rows(4), max_steps=1))
    (function,) = run.rewards.functions
    assert run.rewards.names == ["scores"] and "reward/scores" in run.state.log_history[0]
    assert_same_weights(function.model, classifier())
    assert all(parameter.grad is None for parameter in function.model.parameters())


def test_what_a_reward_model_refuses() -> None:
    refused("has 2 labels; give one with num_labels=1", lambda: RewardModel(classifier(2), tokenizer()))
    refused("tokenizer is None", lambda: RewardModel(classifier()))
    refused("is no reward function; give RewardModel", lambda: RewardFunctions(classifier()))
    with pytest.raises(ValueError, match="more than the reward model's 64 positions"):
        RewardModel(classifier(), tokenizer())(["red " * 70], [""])
    bare = RewardModel(classifier(), tokenizer())
    bare.tokenizer = type("Bare", (), {"chat_template": None})()
    refused("no chat template", lambda: bare(PROMPTS[2:3], COMPLETIONS[2:3]))


def verdicts(prompts: Any, params: Any) -> list[Completion]:
    texts = ["red one sun", "one sun two sun", "sea", "three sun moon"]
    assert params.greedy and len(prompts) == len(texts)
    return [Completion(tokenizer()(text)["input_ids"], None) for text in texts]


def test_a_judge_is_read_by_its_pattern_and_what_cannot_be_read_is_counted() -> None:
    told: list[tuple[str, float]] = []
    judge = TextJudge(
        new_model(),
        tokenizer(),
        ask=lambda prompt, completion: f"{prompt}{completion}",
        pattern=r"(one|two|three) sun",
        engine=Says(verdicts),
    )
    judge.read = lambda verdict: {"one": 1.0, "two": 2.0}.get((judge.pattern.findall(verdict) or [""])[-1])  # type: ignore[method-assign]
    assert judge(["red"] * 4, [" sky"] * 4, log_metric=lambda *pair: told.append(pair)) == [1.0, 2.0, None, None]
    assert told == [("judge_unread", 0.5)]


@pytest.mark.parametrize(
    ("verdict", "score"),
    [("Score: 7", 7.0), ("score=3, no: SCORE : 4.5", 4.5), ("score: 11", None), ("score: -1", None), ("good", None)],
)
def test_the_last_number_within_the_bounds_is_the_score(verdict: str, score: float | None) -> None:
    judge = TextJudge(new_model(), tokenizer(), ask=lambda prompt, completion: prompt, low=0, high=10)
    assert judge.read(verdict) == score
    for wrong, message in ({"pattern": "score"}, "no group"), ({"low": 2, "high": 1}, "low=2 must be below"):
        with pytest.raises(ValueError, match=message):
            TextJudge(new_model(), tokenizer(), ask=lambda prompt, completion: prompt, **wrong)
