import copy
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from llm_rl.rollout.data import Sample
from llm_rl.rollout.turns import turns_of
from tests.helpers.refusals import refused
from tests.llm_rl.helpers.fixed_engine import FixedEngine
from tests.llm_rl.helpers.grpo_reference import slow_advantages, token_logps
from tests.llm_rl.helpers.tiny_grpo import distinct_rows, go_on, new_model, tokenizer, trainer
from tests.llm_rl.helpers.watch import assert_gradients, gradients_of, keep_samples


def all_turns(turns: list[list[str]], completions: list[str], **kwargs: Any) -> list[float]:
    assert all(texts[-1] == last for texts, last in zip(turns, completions, strict=True))
    return [sum(len(text) for text in texts) / 10 for texts in turns]


SETTINGS: dict[str, Any] = {"max_turns": 3, "per_device_train_batch_size": 8, "max_grad_norm": 0.0}


@pytest.mark.parametrize("changes", [{}, {"loss_type": "dapo", "per_device_train_batch_size": 4}], ids=str)
def test_every_turn_is_a_training_sample_with_the_advantage_of_its_conversation(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    """Against a slow loop over the turns, on tokens that were never encoded again."""
    start, given = new_model(dtype=torch.float64), {"engine": FixedEngine(), "next_turn": go_on}
    settings = {"data": distinct_rows(2), **SETTINGS, **changes, "gradient_accumulation_steps": 2 if changes else 1}
    run = trainer(tmp_path, copy.deepcopy(start), reward_funcs=all_turns, given=given, **settings)
    samples = keep_samples(run)
    (gradients,) = gradients_of(run)
    conversations = [turns_of(sample) for sample in samples]
    assert {len(turns) for turns in conversations} == {1, 2, 3}
    for turns in conversations:
        for earlier, later in pairwise(turns):
            before = earlier.prompt_ids + earlier.completion_ids
            assert later.prompt_ids[: len(before)] == before and not earlier.truncated
            assert tokenizer().decode(later.prompt_ids[len(before) :]) in (" two", " three sea")

    rewards = [sum(len(text(turn)) for turn in turns) / 10 for turns in conversations]
    advantages = slow_advantages(rewards, run.args)
    count = sum(map(len, conversations))
    tokens = sum(len(turn.completion_ids) for turns in conversations for turn in turns)
    loss = torch.zeros((), dtype=torch.float64)
    for turns, advantage in zip(conversations, advantages, strict=True):
        for turn in turns:
            weight = 1 / tokens if changes else 1 / (count * len(turn.completion_ids))
            logps = token_logps(start, turn, 1.0)
            loss = loss - weight * advantage * (logps - logps.detach()).exp().sum()
    loss.backward()
    assert run.state.log_history[0]["turns"] == pytest.approx(count / 8)
    assert_gradients(gradients, start)


def text(sample: Sample) -> str:
    return str(tokenizer().decode(sample.completion_ids, skip_special_tokens=True))


def test_a_divergence_in_the_reward_is_that_of_the_whole_conversation(tmp_path: Path) -> None:
    given = {"engine": FixedEngine(), "next_turn": go_on, "ref_model": new_model(seed=5)}
    changes = {"kl_weight": 0.1, "kl_in": "reward", "kl_estimator": "k1"}
    run = trainer(tmp_path, data=distinct_rows(2), reward_funcs=all_turns, given=given, **SETTINGS, **changes)
    samples = keep_samples(run)
    (batch,) = run._roll_out(distinct_rows(2))
    drift = (batch.old_per_token_logps - batch.ref_per_token_logps).masked_fill(~batch.completion_mask, 0.0).sum(1)
    for index, sample in enumerate(samples):
        plain = sum(len(text(turn)) for turn in turns_of(sample)) / 10
        expected = plain - 0.1 * float(drift[batch.owners == index].sum())
        assert float(batch.rewards[index]) == pytest.approx(expected, abs=1e-4)


def test_conversations_end_where_there_is_no_room(tmp_path: Path) -> None:
    given = {"engine": FixedEngine(), "next_turn": lambda row, turns: " two" * 20}
    run = trainer(tmp_path, data=distinct_rows(2), given=given, **{**SETTINGS, "max_turns": 50})
    for sample in run._generate_completions(distinct_rows(2), 4):
        assert len(sample.prompt_ids) + 6 <= 128
        assert sample.truncated or len(sample.earlier) > 2
        assert sample.cut_off and (sample.truncated or len(sample.state_behind) + 6 > 128)


def test_reward_functions_that_ask_are_told_what_was_cut_off(tmp_path: Path) -> None:
    """A conversation that ends itself in its last turn is not cut off; one whose partner would go on is."""
    told: dict[str, list[bool]] = {}

    def asks(turns: list[list[str]], cut_off: list[bool], **kwargs: Any) -> list[float]:
        told["turns"], told["cut"] = [len(texts) for texts in turns], cut_off
        return [float(cut) for cut in cut_off]

    def does_not(prompts: Any, completions: Any, completion_ids: Any, wanted: Any = 0, turns: Any = 0) -> list[float]:
        return [0.0] * len(completions)

    given = {"engine": FixedEngine(), "next_turn": lambda row, turns: [None, " two"][len(turns) < row["wanted"]]}
    data = [{"prompt": "red", "wanted": 3}, {"prompt": "sea sun", "wanted": 4}]
    run = trainer(tmp_path, data=data, reward_funcs=[asks, does_not], given=given, **SETTINGS)
    samples = run._generate_completions(data, 8)
    scores = run._compute_rewards_per_func(samples)
    ended = [not sample.truncated for sample in samples]
    assert {turns for turns, end in zip(told["turns"], ended, strict=True) if end} == {3}
    assert told["cut"] == [not end for end in ended[:8]] + [True] * 8 and scores[:, 0].tolist() == told["cut"]
    named = [{**row, "cut_off": 1} for row in data]
    with pytest.raises(ValueError, match="column 'cut_off'"):
        trainer(tmp_path, data=named, reward_funcs=asks, given=given, **SETTINGS).train()


def test_what_several_turns_need(tmp_path: Path) -> None:
    refused("max_turns is 2 without next_turn", lambda: trainer(tmp_path, max_turns=2))
    refused("max_turns is 1 with next_turn", lambda: trainer(tmp_path, given={"next_turn": go_on}))
    refused("max_turns=0 must be at least 1", lambda: trainer(tmp_path, max_turns=0))
    with pytest.raises(TypeError, match="next_turn returned a list"):
        given = {"engine": FixedEngine(), "next_turn": lambda row, turns: ["two"]}
        trainer(tmp_path, data=distinct_rows(2), given=given, **SETTINGS).train()
