"""Completions that no reward function scores: they teach nothing, and count nowhere."""

import copy
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.llm_rl.helpers.fixed_engine import FixedEngine
from tests.llm_rl.helpers.grpo_reference import slow_advantages
from tests.llm_rl.helpers.tiny_grpo import distinct_rows, new_model, trainer
from tests.llm_rl.helpers.watch import assert_same_weights, logged


def some(completion_ids: list[list[int]], **kwargs: Any) -> list[float | None]:
    """Scores two completions in three, by the sum of their ids."""
    return [None if sum(ids) % 3 == 0 else sum(ids) / 100 for ids in completion_ids]


def test_they_are_in_no_mean_and_no_denominator(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = trainer(tmp_path, data=distinct_rows(), reward_funcs=some, given={"engine": FixedEngine()})
    (batch,) = run._roll_out(distinct_rows(2))
    lengths = batch.completion_mask.sum(1)
    scored = batch.completion_ids.sum(1) % 3 > 0  # the padding has the id 0
    assert scored.any() and not scored.all() and "are left out" in caplog.text
    assert torch.equal(batch.rewards.isnan(), ~scored) and torch.equal(batch.loss_mask.any(1), scored)
    assert int(batch.sequences) == int(scored.sum()) and int(batch.tokens) == int(lengths[scored].sum())  # type: ignore[arg-type]
    assert not batch.advantages[~scored].any()
    for group in (slice(0, 4), slice(4, 8)):
        kept = scored[group]
        rewards = batch.rewards[group][kept].tolist()
        args = trainer(tmp_path, num_generations=2).args
        args.num_generations = len(rewards)
        expected = slow_advantages(rewards, args) if len(rewards) > 1 else [0.0] * len(rewards)
        assert batch.advantages[group][kept].tolist() == pytest.approx(expected, abs=1e-4)


def test_their_gradient_is_zero_and_the_log_leaves_them_out(tmp_path: Path) -> None:
    """The same step as of a trainer that masks them by hand."""
    given = {"engine": FixedEngine(), "ref_model": new_model(seed=5)}
    run = trainer(tmp_path, data=distinct_rows(2), reward_funcs=some, given=given, kl_weight=0.2, max_grad_norm=0.0)
    run.train()
    line = run.state.log_history[0]
    (batch,) = run._roll_out(distinct_rows(2))
    scored = batch.rewards[~batch.rewards.isnan()]
    assert line["reward_mean"] == pytest.approx(float(scored.mean())) and math.isfinite(line["reward_std"])
    expected = 1 - float(batch.loss_mask.sum() / batch.completion_mask.sum())
    assert line["masked_frac"] == pytest.approx(expected) and math.isfinite(line["loss"])


@pytest.mark.parametrize(("score", "attempts"), [(None, 1), (0.1, 0)], ids=["no score", "no spread"])
def test_a_roll_out_that_teaches_nothing_takes_no_step(tmp_path: Path, score: float | None, attempts: int) -> None:
    def same(completions: list[str], **kwargs: Any) -> list[float | None]:
        return [score] * len(completions)

    model = new_model()
    start = copy.deepcopy(model)
    run = trainer(tmp_path, model, reward_funcs=same, weight_decay=0.0, dynamic_sampling_attempts=attempts)
    line = logged(run)[0]
    assert line["loss"] == 0 and line["grad_norm"] == 0 and ("reward_mean" in line) is (score is not None)
    assert score is None or line["groups_without_spread"] == 1
    assert_same_weights(model, start)
