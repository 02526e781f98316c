"""The critic learns alone until it is right often enough."""

import copy
from pathlib import Path

import pytest
import torch

from llm_rl.raro.critic import LEAST_LABELS, CriticWarmUp
from tests.llm_rl.helpers.tiny_raro import judged, numbered, raro_model, trainer
from tests.llm_rl.helpers.watch import assert_same_weights, trained


def test_it_is_over_once_the_latest_labels_are_right_often_enough() -> None:
    """Shares by hand: 40 of 64, then 44 of 64 of the latest two roll-outs, then 56 of 64 of the latest one."""
    warm_up = CriticWarmUp(0.7)
    seen = []
    for counts in ([(10, 16), (10, 16)], [(20, 32)], [(24, 32)], [(56, 64)], [(0, 64)]):
        if not warm_up.over:
            warm_up.add(counts)
        seen.append(warm_up.over)
    assert seen == [False, False, False, True, True]
    assert CriticWarmUp(0.0).over


def test_few_labels_end_no_warm_up() -> None:
    warm_up = CriticWarmUp(0.5)
    for _ in range(LEAST_LABELS // 8 - 1):
        warm_up.add([(8, 8), (0, 0)])
        assert not warm_up.over
    warm_up.add([(8, 8), (0, 0)])
    assert warm_up.over


def test_a_checkpoint_goes_on_with_it() -> None:
    first, second = CriticWarmUp(0.7), CriticWarmUp(0.7)
    first.add([(20, 40)])
    second.load_state_dict(first.state_dict())
    for one in (first, second):
        one.add([(24, 24)])
    assert first.state_dict() == second.state_dict() and second.over is (44 / 64 >= 0.7)


@pytest.mark.parametrize("batch", ["separate", "mixed"])
def test_the_policy_learns_nothing_from_a_critic_that_is_wrong(tmp_path: Path, batch: str) -> None:
    """A critic that is always wrong in the same words learns nothing itself, so that no weight moves; ever right, half
    of the answers to a question win and half lose, and the policy's advantages move them."""

    def wrong(question: str, first: str, second: str, n: int) -> str:
        return judged(first, False)

    def even_ones_lose(question: str, first: str, second: str, n: int) -> str:
        answer = second if first.startswith("E") else first
        return judged(first, int(answer.split()[-1]) % 2 == 0)

    before = raro_model()
    settings = {"critic_batch": batch, "critic_warmup": 0.3, "max_steps": 4, "kl_weight": 0.0}
    run = trained(trainer(tmp_path / "wrong", copy.deepcopy(before), policy=numbered, critic=wrong, **settings))
    assert all(line["critic/warmup"] == 1 for line in run.state.log_history[:4])
    assert not any("policy/entropy" in line for line in run.state.log_history)
    assert_same_weights(run.model, before)

    run = trainer(tmp_path / "right", copy.deepcopy(before), policy=numbered, critic=even_ones_lose, **settings)
    run.train()
    lines = run.state.log_history[:4]
    over = [line["critic/warmup"] == 0 for line in lines]
    assert over == sorted(over) and over[-1] and [("policy/entropy" in line) for line in lines] == over
    assert any(not torch.equal(value, before.state_dict()[name]) for name, value in run.model.state_dict().items())
