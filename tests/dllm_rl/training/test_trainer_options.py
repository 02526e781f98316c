"""The objective's options as the trainer applies them."""

import math
from typing import Any

import pytest
import torch

from dllm_rl.decoding.rollouts import Rollout
from dllm_rl.sudoku import Tail
from dllm_rl.training.trainer import UnmaskTrainer
from dllm_rl.training.update import objective_pass
from sudoku_env.logic import definite_cells
from tests.dllm_rl.helpers.tiny_training import logged, recorded, sudoku_task, trained, warm_model
from tests.helpers.drawn import first_with


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Rollout, dict[str, Any]]]:
    """The roll-out and the options of each pass of the objective."""
    return recorded(monkeypatch, "objective_pass", lambda args, kwargs, result: (args[1], kwargs))


def with_tail(folder: Any, tail: Tail = "free", **changes: Any) -> UnmaskTrainer:
    return trained(folder, task=sudoku_task(with_tail=True, tail=tail), **changes)


def test_position_temperature_falls_linearly_and_stays_for_all_updates_on_a_rollout(tmp_path, passes):
    run = trained(tmp_path, max_steps=4, num_iterations=2, position_temperature_end=0.5)
    assert logged(run, "position_temperature") == [1.0, 0.75]
    assert [record.policy.position_temperature for record, _ in passes] == [1.0, 1.0, 0.75, 0.75]
    assert max(logged(run, "max_log_ratio_at_update_0")) < 1e-4


def test_decisions_on_several_positions_reach_roll_outs_and_updates(tmp_path, rollouts, passes):
    changes = {"tokens_per_step": 3, "on_error": "correct", "f_form": "log", "ce_weight": 1.0, "ce_on": "definite"}

    def draw(seed: int) -> UnmaskTrainer:
        rollouts.clear()
        return trained(tmp_path, max_steps=4, num_iterations=2, seed=seed, **changes)

    run = first_with(lambda _: any(bool(record.errors.any()) for record in rollouts), draw, seed=7)
    assert len(rollouts) == 2 and all(record.positions.shape[2] == 3 for record in rollouts)
    assert all(torch.equal(record.live.sum(1), record.decisions) for record in rollouts)
    assert max(logged(run, "max_log_ratio_at_update_0")) < 1e-3
    assert all(math.isfinite(value) for value in logged(run, "objective_f"))
    steps = [float(record.steps_before_error.double().mean()) for record in rollouts]
    assert logged(run, "steps_before_error") == pytest.approx(steps)


def test_what_has_no_weight_is_neither_computed_nor_logged(tmp_path, rollouts):
    run = with_tail(tmp_path, policy_weight=0.0, f_weight=0.0, ce_weight=1.0, reduction="mean")
    assert not any(logged(run, name) for name in ("objective_policy", "objective_f", "clip_frac", "masked_frac"))
    found = objective_pass(warm_model(), rollouts[0], lambda first, second: None, config=run.objective)
    assert logged(run, "objective_ce") == pytest.approx([found.terms["ce"]], abs=1e-5)


@pytest.mark.parametrize("tail", ["prefill", "scored"])
def test_the_tail_reaches_the_rollout(tmp_path, rollouts, tail):
    with_tail(tmp_path, tail=tail)
    (record,) = rollouts
    masked = record.problems.open_tail(record.problems.responses, torch.arange(2))
    assert bool(masked.any()) == bool(record.problems.scored.any()) == (tail == "scored")


def test_rule_and_pass_size_reach_the_rollout_and_the_update(tmp_path, rollouts, passes):
    naked = sudoku_task(rule="naked_single")
    whole = trained(tmp_path, warm_model().double(), task=naked)
    parts = trained(tmp_path, warm_model().double(), task=naked, max_masked_per_pass=12)
    assert passes[1][1]["max_masked"] == 12
    assert torch.equal(rollouts[0].definite, rollouts[1].definite)
    assert logged(parts, "loss") == pytest.approx(logged(whole, "loss"))
    trained(tmp_path)
    for record, rule in ((rollouts[0], "naked_single"), (rollouts[2], "singles")):
        cells = torch.from_numpy(definite_cells(record.problems.boards(record.responses), rule) > 0)
        assert torch.equal(record.definite[:, torch.tensor(record.problems.layout.cell_positions)], cells)


def test_a_share_of_the_states_is_drawn_anew_at_each_step(tmp_path, monkeypatch):
    results = recorded(monkeypatch, "objective_pass", lambda args, kwargs, result: (args[1], result))
    changes = {"per_device_train_batch_size": 4, "num_generations": 8, "max_steps": 2}
    run = trained(tmp_path, state_fraction=0.5, **changes)
    assert len(results) == 2 and run._noise(0, 0) != run._noise(1, 0)
    for record, result in results:
        states = record.state_of[record.live].unique()
        assert 0 < len(record.state_of[result.evaluated].unique()) < len(states)
    assert max(logged(run, "max_log_ratio_at_update_0")) < 1e-4


@pytest.mark.parametrize(
    "options",
    [
        {"judged_weight": 1.0, "judged_draws": 4, "on_error": "redraw"},
        {"kept_weight": 1.0, "ce_weight": 1.0, "ce_target": "own", "on_error": "guard", "num_generations": 1},
    ],
)
def test_mini_batches_deal_out_the_states_anew_in_each_pass(tmp_path, rollouts, monkeypatch, options):
    results = recorded(monkeypatch, "objective_pass", lambda args, kwargs, result: result.evaluated)
    weights = {"policy_weight": 0.0, "f_weight": 0.0, **options}
    trained(tmp_path, max_steps=6, num_mini_batches=3, num_iterations=2, **weights)
    (record,) = rollouts
    first, second = torch.stack(results[:3]), torch.stack(results[3:])
    assert torch.equal(first.sum(0), record.live.long()) and torch.equal(second.sum(0), record.live.long())
    assert not torch.equal(first, second)
