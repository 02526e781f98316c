from pathlib import Path
from typing import Any

import pytest
import torch

from tests.llm_rl.helpers import tiny_dpo
from tests.llm_rl.helpers.tiny_dpo import pairs
from tests.llm_rl.helpers.tiny_grpo import rows, small_ids, tokenizer, trainer
from tests.llm_rl.helpers.watch import trained


def test_one_completion_of_each_row_and_greedily_if_asked(tmp_path: Path) -> None:
    noted: list[list[int]] = []

    def noting(completion_ids: list[list[int]], **kwargs: Any) -> list[float]:
        noted.extend(completion_ids)
        return small_ids(completion_ids)

    run = trainer(tmp_path, reward_funcs=noting, given={"eval_dataset": rows(5)}, per_device_eval_batch_size=3)
    found = run.evaluate()
    drawn = noted.copy()
    assert len(drawn) == 5 and found["eval_reward_mean"] == pytest.approx(sum(small_ids(drawn)) / 5)
    assert found == run.evaluate() and noted[5:] == drawn  # the same random numbers every time
    del noted[:]
    run.evaluate(greedy=True)
    for row, ids in zip(rows(5), noted, strict=True):
        prompt = tokenizer()(row["prompt"])["input_ids"]
        for place, token in enumerate(ids):
            logits = run.model(torch.tensor([prompt + ids[:place]])).logits[0, -1]
            assert logits[token].item() == pytest.approx(logits.max().item(), abs=1e-4)
    assert not run.sampling.greedy


@pytest.mark.parametrize(
    ("make", "data", "name"), [(trainer, rows(2), "reward_mean"), (tiny_dpo.trainer, pairs(2), "rewards/margins")]
)
def test_an_evaluation_between_log_lines_leaves_what_training_has_recorded(
    tmp_path: Path, make: Any, data: Any, name: str
) -> None:
    each = {"eval_strategy": "steps", "eval_steps": 1, "max_steps": 2, "logging_steps": 2}
    run = trained(make(tmp_path, given={"eval_dataset": data}, **each))
    first, *_ = run.state.log_history
    assert first["step"] == 1 and f"eval_{name}" in first and name not in first
    (line,) = [line for line in run.state.log_history if name in line]
    assert line["step"] == 2


def test_reward_functions_log_into_the_line_of_what_they_were_asked_for(tmp_path: Path) -> None:
    def noting(completion_ids: list[list[int]], trainer_state, log_metric, **kwargs) -> list[float]:  # type: ignore[no-untyped-def]
        log_metric("seen_step", trainer_state.global_step)
        return small_ids(completion_ids)

    run = trained(trainer(tmp_path, reward_funcs=noting, max_steps=3, given={"eval_dataset": rows(2)}))
    assert [line["seen_step"] for line in run.state.log_history[:3]] == [0, 1, 2]
    assert run.evaluate()["eval_seen_step"] == 3
