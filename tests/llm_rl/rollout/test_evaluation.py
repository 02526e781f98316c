import copy
import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from llm_rl.core import MetricAccumulator
from llm_rl.grpo.trainer import GRPOTrainer
from llm_rl.rollout.evaluation import pass_at_k, record_passes
from tests.helpers.drawn import first_seed
from tests.llm_rl.helpers.tiny_grpo import new_model, rows, small_ids, trainer


@given(st.lists(st.booleans(), min_size=1, max_size=6), st.data())
def test_pass_at_k_is_the_share_of_all_subsets_with_one_that_passes(passed: list[bool], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(passed)))
    subsets = list(itertools.combinations(passed, k))
    expected = sum(map(any, subsets)) / len(subsets)
    assert float(pass_at_k(torch.tensor(passed), k)) == pytest.approx(expected)


def test_passes_by_hand() -> None:
    metrics = MetricAccumulator()
    record_passes(metrics, torch.tensor([[1.0, 0.0, math.nan], [0.5, 0.5, 1.5]]), 1.0)
    found = metrics.compute()
    assert found == pytest.approx({"mean@3": 3.5 / 5, "pass@1": 1 / 3, "pass@2": 2 / 3, "pass@3": 1.0})
    with pytest.raises(ValueError, match="k is 4; of 3"):
        pass_at_k(torch.zeros(2, 3, dtype=torch.bool), 4)


def test_several_completions_of_each_row(tmp_path: Path) -> None:
    settings = {"num_generations_eval": 4, "eval_pass_reward": 0.5, "per_device_eval_batch_size": 6}
    noted: list[float] = []

    def noting(completion_ids: list[list[int]], **kwargs: Any) -> list[float]:
        noted.extend(rewards := small_ids(completion_ids))
        return rewards

    def evaluated(seed: int) -> tuple[GRPOTrainer, dict[str, float]]:
        noted.clear()
        run = trainer(tmp_path, new_model(seed), reward_funcs=noting, given={"eval_dataset": rows(5)}, **settings)
        return run, run.evaluate()

    def passes(k: int) -> list[bool]:
        groups = [[reward >= 0.5 for reward in noted[start : start + 4]] for start in range(0, 20, 4)]
        return [any(subset) for group in groups for subset in itertools.combinations(group, k)]

    # A seed with which one completion, two and four of a row pass in different shares.
    run, found = evaluated(first_seed(lambda seed: evaluated(seed) and 0 < np.mean(passes(1)) < np.mean(passes(2)) < 1))
    assert len(noted) == 20 and found["eval_mean@4"] == pytest.approx(np.mean(noted))
    for k in (1, 2, 4):
        assert found[f"eval_pass@{k}"] == pytest.approx(np.mean(passes(k)))
    assert found == run.evaluate() and found["eval_mean@4"] == pytest.approx(found["eval_reward_mean"])
    del noted[:]
    greedy = run.evaluate(greedy=True)
    assert len(noted) == 5 and not any("@" in name for name in greedy)
    assert not run.sampling.greedy
    always = trainer(tmp_path, copy.deepcopy(run.model), given={"eval_dataset": rows(5)}, eval_greedy=True)
    assert always.evaluate()["eval_reward_mean"] == greedy["eval_reward_mean"]
    with pytest.raises(ValueError, match="num_generations_eval is 4 with eval_greedy"):
        trainer(tmp_path, eval_greedy=True, **settings)


def test_an_evaluation_between_log_lines_leaves_what_training_has_recorded(tmp_path: Path) -> None:
    each = {"eval_strategy": "steps", "eval_steps": 1, "max_steps": 2, "logging_steps": 2}
    run = trainer(tmp_path, given={"eval_dataset": rows(2)}, **each)
    run.train()
    first, *_ = run.state.log_history
    assert first["step"] == 1 and "eval_reward_mean" in first and "reward_mean" not in first
    (line,) = [line for line in run.state.log_history if "reward_mean" in line]
    assert line["step"] == 2


def test_reward_functions_log_into_the_line_of_what_they_were_asked_for(tmp_path: Path) -> None:
    def noting(completion_ids: list[list[int]], trainer_state, log_metric, **kwargs) -> list[float]:  # type: ignore[no-untyped-def]
        log_metric("seen_step", trainer_state.global_step)
        return small_ids(completion_ids)

    run = trainer(tmp_path, reward_funcs=noting, max_steps=3, given={"eval_dataset": rows(2)})
    run.train()
    assert [line["seen_step"] for line in run.state.log_history[:3]] == [0, 1, 2]
    assert run.evaluate()["eval_seen_step"] == 3
