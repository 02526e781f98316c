import logging
from dataclasses import replace

import pytest
import torch

from llm_rl.core import MetricAccumulator
from llm_rl.raro import Pair, Verdict
from llm_rl.raro.judging import Critique, Request, dealt, draws, orders
from llm_rl.raro.monitors import SYMPTOMS, CriticWarnings, record_critiques, record_groups
from llm_rl.rollout.data import Sample

PAIR = Pair("q", "question", "expert", "policy", 0)


def critique(
    verdict: Verdict | None, first: bool, replayed: bool = False, truncated: bool = False, pair: Pair = PAIR
) -> Critique:
    return Critique(Request(pair, first, replayed), Sample({}, [1], [2], truncated), verdict)


def test_shares_of_what_critics_wrote() -> None:
    metrics = MetricAccumulator()
    critiques = [
        critique(Verdict.EXPERT, True),
        critique(Verdict.EXPERT, True, replayed=True),
        critique(Verdict.POLICY, False),
        critique(Verdict.EXPERT, False, replayed=True),
        critique(Verdict.POLICY, True, replayed=True),
        critique(Verdict.TIE, True),
        critique(Verdict.TIE, False),
        critique(None, True),
        critique(None, False, truncated=True),
        critique(None, True, truncated=True),
    ]
    record_critiques(metrics, critiques[:4])
    record_critiques(metrics, critiques[4:])
    assert metrics.compute() == pytest.approx(
        {
            "critic/overlength_rate": 2 / 10,
            "critic/unparsable_rate": 1 / 8,
            "critic/tie_rate": 2 / 7,
            "critic/tie_rate_distinct": 2 / 7,
            "critic/accuracy": 3 / 5,
            "critic/accuracy_distinct": 3 / 5,
            "critic/accuracy_fresh": 1 / 2,
            "critic/accuracy_replayed": 2 / 3,
            "critic/accuracy_expert_first": 2 / 3,
            "critic/accuracy_expert_second": 1 / 2,
        }
    )


def test_equal_answers_are_left_out_where_there_must_be_something_to_tell() -> None:
    equal, metrics = replace(PAIR, policy_answer="expert"), MetricAccumulator()
    verdicts = [Verdict.EXPERT, Verdict.POLICY, Verdict.TIE, Verdict.TIE]
    same = [critique(verdict, True, pair=equal) for verdict in verdicts]
    record_critiques(metrics, [*same, critique(Verdict.EXPERT, True), critique(Verdict.TIE, False)])
    found = metrics.compute()
    assert found["critic/accuracy"] == pytest.approx(2 / 3) and found["critic/accuracy_distinct"] == 1
    assert found["critic/tie_rate"] == pytest.approx(3 / 6) and found["critic/tie_rate_distinct"] == 1 / 2


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
    "critic/tie_rate": 0.7,
    "critic/unparsable_rate": 0.01,
    "critic/overlength_rate": 0.0,
    "policy/overlength_rate": 0.1,
    "critic/accuracy": 0.7,
    "critic/accuracy_expert_first": 0.75,
    "critic/accuracy_expert_second": 0.65,
}


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
    ],
)
def test_each_symptom_is_told_once_with_its_remedy(
    caplog: pytest.LogCaptureFixture, changes: dict[str, float], remedy: str
) -> None:
    warnings, others = CriticWarnings(patience=3), CriticWarnings(patience=3)
    with caplog.at_level(logging.WARNING):
        for line in (
            {**HEALTHY, **changes},
            {**HEALTHY, **changes},
            {},
            {"loss": 1.0},
        ):
            warnings.check(line)
        assert not caplog.records
        for line in (HEALTHY, HEALTHY, {**HEALTHY, **changes}, HEALTHY, HEALTHY):
            others.check(line)
        assert not caplog.records
        for _ in range(10):
            warnings.check({**HEALTHY, **changes})
    (record,) = caplog.records
    assert len(SYMPTOMS) == 7
    assert remedy in record.getMessage()


def test_random_numbers_and_dealing_do_not_depend_on_processes() -> None:
    assert draws(1, 2, 3).random(4).tolist() == draws(1, 2, 3).random(4).tolist() != draws(1, 2, 4).random(4).tolist()
    for count in (0, 1, 7):
        parts = [dealt(list(range(count)), 3, process) for process in range(3)]
        assert [item for part in parts for item in part] == list(range(count)) and max(map(len, parts)) - min(
            map(len, parts)
        ) <= 1
    assert orders(0.2, False) == [True] and orders(0.7, False) == [False] and orders(0.7, True) == [True, False]
