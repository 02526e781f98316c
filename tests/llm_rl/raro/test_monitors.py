"""Numbers in the log and of evaluation, against those worked out by hand; warnings that come from them."""

import logging
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from llm_rl.core import MetricAccumulator
from llm_rl.raro.monitors import SYMPTOMS, record_groups
from llm_rl.training.symptoms import SymptomWarnings
from tests.llm_rl.helpers.tiny_raro import asked_of_critic, judged, rows, tie, trainer
from tests.llm_rl.helpers.watch import logged


def test_groups_count_the_members_that_are_valid() -> None:
    metrics = MetricAccumulator()
    rewards = torch.tensor([[1.0, 0.0, 9.0], [0.6, 9.0, 9.0]])
    record_groups(metrics, "policy", rewards, torch.tensor([[True, True, False], [True, False, False]]))
    assert metrics.compute() == pytest.approx(
        {
            "policy/dropped_frac": 3 / 6,
            "policy/reward_mean": 1.6 / 3,
            "policy/reward_std": 0.25,
            "policy/groups_without_spread": 0.5,
        }
    )
    record_groups(metrics, "critic", torch.zeros(0, 4), torch.zeros(0, 4, dtype=torch.bool))
    assert metrics.compute() == {}


HEALTHY = {
    "critic/tie_rate": 0.7, "critic/unparsable_rate": 0.01, "critic/overlength_rate": 0.0,
    "policy/overlength_rate": 0.1, "critic/accuracy": 0.7, "critic/accuracy_expert_first": 0.75,
    "critic/accuracy_expert_second": 0.65, "policy/reward_equal": 0.6, "policy/reward_distinct": 0.3,
    "policy/groups_without_spread": 0.9,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "remedy"),
    [
        ({"critic/tie_rate": 0.99}, "lower tau_crit"),
        ({"critic/unparsable_rate": 0.5}, "fine-tuned to end with [Answer 1]"),
        ({"critic/overlength_rate": 0.8}, "raise max_critic_completion_length"),
        ({"policy/overlength_rate": 0.8}, "raise max_completion_length"),
        ({"critic/accuracy": 1.0}, "raise lambda_pol against lambda_crit"),
        ({"critic/accuracy": 0.5}, "raise critic_pairs or critic_generations"),
        ({"critic/accuracy_expert_first": 1.0, "critic/accuracy_expert_second": 0.4}, "set judge_both_orders"),
        ({"policy/reward_equal": 0.5, "policy/reward_distinct": 0.6}, "let the critic learn first"),
        ({"policy/groups_without_spread": 1.0}, "raise num_generations or policy_judgements"),
    ],
)
def test_each_symptom_is_told_once_with_its_remedy(
    caplog: pytest.LogCaptureFixture, changes: dict[str, float], remedy: str
) -> None:
    warnings, others = SymptomWarnings(SYMPTOMS, patience=3), SymptomWarnings(SYMPTOMS, patience=3)
    with caplog.at_level(logging.WARNING):
        for line in ({**HEALTHY, **changes}, {**HEALTHY, **changes}, {}, {"loss": 1.0}):
            warnings.check(line)
        assert not caplog.records
        for line in (HEALTHY, HEALTHY, {**HEALTHY, **changes}, HEALTHY, HEALTHY):
            others.check(line)
        assert not caplog.records
        for _ in range(10):
            warnings.check({**HEALTHY, **changes})
    (record,) = caplog.records
    assert len(SYMPTOMS) == 9
    assert remedy in record.getMessage()


# End to end


def test_masked_frac_is_the_same_share_at_every_step_of_a_roll_out(tmp_path: Path) -> None:
    found = {}
    for iterations in (1, 3):
        lines = logged(trainer(tmp_path, num_iterations=iterations, max_steps=iterations))
        found[iterations] = [line["masked_frac"] for line in lines[:-1]]
    (share,) = found[1]
    assert 0.1 < share < 0.9
    assert found[3] == pytest.approx([share] * 3)


def test_rewards_of_equal_and_of_other_answers_by_hand(tmp_path: Path) -> None:
    """The expert's answer ties, 0.6; of three others one deceives and two are found."""

    def policy(question: str, n: int) -> str:
        return f"{'E' if question == 'red' else 'P'} {question}"

    def critic(question: str, first: str, second: str, n: int) -> str:
        return "[Tie]" if first == second else judged(first, question != "sun")

    line, _ = logged(trainer(tmp_path, policy=policy, critic=critic))
    assert line["policy/reward_equal"] == pytest.approx(0.6)
    assert line["policy/reward_distinct"] == pytest.approx(1 / 3)


def test_evaluation_by_hand(tmp_path: Path) -> None:
    """The expert is found; the policy wins; a tie and a win; no answer; over-length: rewards 0, 1, 0.8, 0, none."""
    data = [*rows(4), {"question": "two", "answer": "E two", "wanted": "4"}]

    def policy(question: str, n: int) -> str:
        return {"sun": "<R>one", "two": "P two…"}.get(question, f"<R>one</R>P {question}")

    def critic(question: str, first: str, second: str, n: int) -> str:
        if question == "one two three":
            return "[Tie]" if first.startswith("E") else "[Answer 1]"
        return judged(first, question == "red")

    run = trainer(tmp_path, policy=policy, critic=critic, per_device_eval_batch_size=2)
    found = run.evaluate(data)
    assert found["eval_policy/reward_mean"] == pytest.approx((0 + 1 + 0.8 + 0) / 4)
    assert found["eval_policy/overlength_rate"] == 1 / 5 and found["eval_policy/too_long_frac"] == 0
    assert found["eval_policy/answered"] == 4 / 5
    assert found["eval_critic/accuracy"] == pytest.approx(2 / 5)
    assert found["eval_critic/accuracy_expert_first"] == pytest.approx(1 / 2)
    assert found["eval_critic/accuracy_expert_second"] == pytest.approx(1 / 3)
    assert found["eval_critic/tie_rate"] == pytest.approx(1 / 6) and found["eval_critic/unparsable_rate"] == 0
    orders = Counter((one["asked"], one["first"][0]) for one in asked_of_critic(run))
    assert orders == {(question, who): 1 for question in ("red", "blue sky", "one two three") for who in "EP"}


def test_evaluation_leaves_out_what_is_too_long_to_be_judged(tmp_path: Path) -> None:
    def policy(question: str, n: int) -> str:
        return f"P {'two ' * 50 if question == 'sun' else ''}"

    changes = {"max_tokens_per_batch": 70, "max_completion_length": 60, "max_critic_completion_length": 15}
    found = trainer(tmp_path, policy=policy, critic=tie, **changes).evaluate(rows())
    assert found["eval_policy/too_long_frac"] == 1 / 4
    assert found["eval_policy/reward_mean"] == pytest.approx(0.6)


def test_log_lines_are_looked_at(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = trainer(tmp_path)
    run._warnings = SymptomWarnings(SYMPTOMS, patience=2)
    with caplog.at_level(logging.WARNING, "llm_rl.training.symptoms"):
        for _ in range(2):
            assert not caplog.records
            run.metrics.add_ratio("critic/tie_rate", 99, 100)
            run.log({})
    (record,) = caplog.records
    assert "lower tau_crit" in record.getMessage()


@pytest.mark.parametrize(("accuracy", "warned"), [(0.5, True), (0.65, False)])
def test_a_critic_that_guesses_is_told_from_one_that_knows_a_little(
    caplog: pytest.LogCaptureFixture, accuracy: float, warned: bool
) -> None:
    """64 labels a line: a line's standard deviation is 0.06, that of the mean of ten is 0.02."""
    for seed in range(20):
        rng, warnings = np.random.default_rng(seed), SymptomWarnings(SYMPTOMS)
        caplog.clear()
        with caplog.at_level(logging.WARNING, "llm_rl.training.symptoms"):
            for right in rng.binomial(64, accuracy, size=60):
                warnings.check({"critic/accuracy": right / 64})
        assert [record.getMessage()[:31] for record in caplog.records] == ["the critic's accuracy stays at "] * warned
