import pytest
import torch
from transformers import get_wsd_schedule

from scripts.sudoku.hold_anneal import HoldThenAnneal


def test_without_patience_it_is_the_warmup_stable_decay_schedule_of_transformers() -> None:
    plan = HoldThenAnneal(3, 8, 4)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    lengths = {"num_warmup_steps": 3, "num_decay_steps": 4, "num_stable_steps": 5}
    schedule = get_wsd_schedule(optimizer, decay_type="linear", **lengths)
    for step in range(13):
        assert plan.factor(step) == pytest.approx(schedule.get_last_lr()[0])
        plan.observe(step, 0.0)
        optimizer.step()
        schedule.step()
    assert plan.last_step == 12


def test_the_hold_ends_when_the_metric_levels_off() -> None:
    plan = HoldThenAnneal(10, 1000, 40, patience=2, min_gain=0.01)
    for step, value in ((100, 0.5), (200, 0.505), (300, 0.52), (400, 0.50)):
        plan.observe(step, value)
    assert plan.anneal_from == 1000  # 0.505 was no gain, 0.52 was: one stale value
    resumed = HoldThenAnneal(10, 1000, 40, patience=2, min_gain=0.01)
    resumed.load_state_dict(plan.state_dict())
    for one in (plan, resumed):
        one.observe(500, 0.53)
        assert (one.anneal_from, one.last_step) == (500, 540)
        one.observe(520, 0.9)
        assert [one.factor(step) for step in (499, 500, 510, 540, 600)] == [1, 1, 0.75, 0, 0]


def test_a_hold_that_has_not_ended_takes_another_length_on_resuming() -> None:
    plan = HoldThenAnneal(10, 1000, 40, patience=1)
    plan.observe(100, 0.5)
    shorter = HoldThenAnneal(10, 200, 50, patience=1)
    shorter.load_state_dict(plan.state_dict())
    assert (shorter.anneal_from, shorter.last_step) == (200, 250)
    plan.observe(150, 0.5)
    shorter.load_state_dict(plan.state_dict())
    assert (shorter.anneal_from, shorter.last_step) == (150, 200)


def test_a_metric_that_is_flat_from_the_start_does_not_end_the_warm_up() -> None:
    plan = HoldThenAnneal(30, 100, 10, patience=1)
    for step in (10, 20, 30):
        plan.observe(step, 0.0)
    assert plan.anneal_from == 30
