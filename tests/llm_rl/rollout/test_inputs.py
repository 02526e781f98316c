"""What users hand in, models, rows and settings, and what of it is taken or refused."""

import logging
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from llm_rl.core import MetricAccumulator
from llm_rl.grpo.trainer import GRPOTrainer
from llm_rl.rollout.data import Sample
from llm_rl.rollout.dynamic_sampling import replace_groups
from tests.llm_rl.helpers.tiny_grpo import arguments, new_model, rows, small_ids, tokenizer, trainer
from tests.llm_rl.helpers.watch import trained


def test_a_model_by_its_folder_and_rows_of_a_data_frame(tmp_path: Path) -> None:
    folder = str(tmp_path / "model")
    new_model(dtype=torch.bfloat16).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    run = GRPOTrainer(folder, small_ids, arguments(tmp_path), pd.DataFrame(rows()), eval_dataset=pd.DataFrame(rows(3)))
    run.train()
    assert run.model.dtype == torch.float32 and run.processing_class.chat_template == tokenizer().chat_template
    plain = trained(trainer(tmp_path, new_model(dtype=torch.bfloat16).float(), given={"eval_dataset": rows(3)}))
    lines = [each.state.log_history[0] for each in (run, plain)]
    assert lines[0]["grad_norm"] == pytest.approx(lines[1]["grad_norm"], rel=1e-4)
    assert lines[0]["reward_mean"] == lines[1]["reward_mean"]
    assert run.evaluate() == run.evaluate(pd.DataFrame(rows(3)))
    with pytest.raises(ValueError, match="processing_class is None; pass the tokenizer"):
        GRPOTrainer(new_model(), small_ids, arguments(tmp_path), rows())


def test_every_row_is_looked_at_before_the_first_step(tmp_path: Path) -> None:
    seen: set[int] = set()

    class Rows:
        def __len__(self) -> int:
            return 50

        def __getitem__(self, index: int) -> dict[str, Any]:
            seen.add(index)
            return {"prompt": "red " * (1 if index != 41 else 130)}

    with pytest.raises(ValueError, match=r"row 41 of train_dataset: a prompt of \d+ tokens and .* exceed the model's"):
        trainer(tmp_path, data=Rows())
    assert seen == set(range(42))


def test_replaced_groups_keep_their_own_rewards() -> None:
    """Two groups without spread are replaced at once, one of them twice."""

    def sample(name: str) -> Sample:
        return Sample({"prompt": name}, [1], [2], truncated=False)

    def group(name: str, first: float, second: float) -> tuple[list[Sample], list[float]]:
        return [sample(f"{name}{first}"), sample(f"{name}{second}")], [first, second]

    draws = [[group("x", 3, 3), group("y", 4, 5)], [group("z", 6, 7)]]

    def draw(count: int) -> tuple[list[Sample], torch.Tensor]:
        groups = draws.pop(0)
        assert len(groups) == count
        return [member for members, _ in groups for member in members], torch.tensor([scores for _, scores in groups])

    start = [group("a", 1, 1), group("b", 1, 2), group("c", 2, 2)]
    samples = [member for members, _ in start for member in members]
    rewards = torch.tensor([scores for _, scores in start])
    samples, rewards = replace_groups(samples, rewards.float(), 5, draw, MetricAccumulator())
    assert [member.row["prompt"] for member in samples] == ["z6", "z7", "b1", "b2", "y4", "y5"]
    assert rewards.tolist() == [[6, 7], [1, 2], [4, 5]]


def test_rewards_stay_with_their_completions_when_groups_without_spread_are_replaced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def some(completion_ids: list[list[int]], prompts: list[str], **kwargs: Any) -> list[float]:
        both = zip(prompts, completion_ids, strict=True)
        return [0.0 if text in ("red", "red green") else float(sum(ids)) for text, ids in both]

    run = trainer(tmp_path, reward_funcs=some, dynamic_sampling_attempts=20, per_device_train_batch_size=16)
    caplog.clear()
    (batch,) = run._roll_out([rows()[0], rows()[1], rows()[0], rows()[2]])
    assert (batch.rewards.view(4, 4).std(1) > 0).all() and not caplog.records  # type: ignore[union-attr]
    expected = [float(ids[kept].sum()) for ids, kept in zip(batch.completion_ids, batch.completion_mask, strict=True)]
    assert batch.rewards.tolist() == expected
    found = run.metrics.compute()
    assert found["groups_replaced"] >= 0.75 and found["reward_mean_before_replacement"] > 0


def test_a_loss_at_the_clamp_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A reference so far away that e^d is cut off at d = 20."""
    far = new_model()
    with torch.no_grad():
        far.lm_head.weight *= 100
    run = trainer(tmp_path, kl_weight=0.5, given={"ref_model": far}, kl_estimator="k2")
    with caplog.at_level(logging.WARNING):
        run.train()
    share = run.state.log_history[0]["kl_clamped_frac"]
    assert share > 0.3 and run.state.log_history[0]["clamped_frac"] == 0
    assert "the ratio to the reference is at its clamp of e^±20 (4.9e+08)" in caplog.text
    assert "(kl_clamped_frac)" in caplog.text and "the ratio of new to old" not in caplog.text
