import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers import TrainerCallback, TrainingArguments

from dllm_rl.sft import SftDataset, SftTrainer
from llm_rl.training.budget import UNLIMITED_STEPS, Budget, BudgetCallback, rows_after, train_to_budget, trapezoid
from tests.dllm_rl.helpers.tiny_training import arguments, new_model, puzzles, sudoku_task, trainer
from tests.helpers.refusals import refused
from tests.llm_rl.helpers.watch import spy


class Rates(TrainerCallback):
    """The learning rate that each update used."""

    def __init__(self) -> None:
        self.found: list[float] = []

    def on_optimizer_step(self, *args: Any, **kwargs: Any) -> None:
        self.found.append(kwargs["optimizer"].param_groups[0]["lr"])


def sft(folder: Path, *callbacks: TrainerCallback, **changes: Any) -> SftTrainer:
    sizes = {"max_steps": UNLIMITED_STEPS, "per_device_train_batch_size": 4, "logging_steps": 1000}
    chosen = {**arguments(folder).to_dict(), **sizes, **changes}
    known = {name: value for name, value in chosen.items() if name in TrainingArguments.__dataclass_fields__}
    data = SftDataset(sudoku_task(with_tail=True).batch(puzzles(8)))
    return SftTrainer(model=new_model(), args=TrainingArguments(**known), train_dataset=data, callbacks=list(callbacks))


def test_trapezoid_by_hand() -> None:
    factor = trapezoid(0.2, 0.4)
    assert [factor(share) for share in (0.0, 0.1, 0.2, 0.6, 0.8, 1.0, 1.1)] == pytest.approx([0, 0.5, 1, 1, 0.5, 0, 0])
    assert [trapezoid(0.0, 0.0)(share) for share in (0.0, 0.5, 1.0)] == [1, 1, 1]
    refused(r"warmup_share=0.7 and decay_share=0.4", lambda: trapezoid(0.7, 0.4))


@pytest.mark.parametrize(
    ("batch_size", "accumulated", "expected"), [(3, 1, [3, 6, 8, 11, 14]), (3, 2, [6, 8, 14, 16, 22]), (16, 1, [8, 16])]
)
def test_rows_are_counted_as_they_are_drawn(
    batch_size: int, accumulated: int, expected: list[int], tmp_path: Path
) -> None:
    """Of eight puzzles the last step of an epoch has what is left, and a larger batch has all eight."""
    found: list[int] = []

    class Drawn(TrainerCallback):
        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            found.append(sum(len(call.arguments[1]["input_ids"]) for call in batches))

    sizes = {"per_device_train_batch_size": batch_size, "gradient_accumulation_steps": accumulated}
    run = sft(tmp_path, Drawn(), max_steps=len(expected), **sizes)
    batches = spy(run, "training_step")
    run.train()
    assert found == expected == [rows_after(run)(step + 1) for step in range(len(expected))]


def test_rows_of_roll_outs(tmp_path: Path) -> None:
    """Two updates on each roll-out of two puzzles."""
    run = trainer(tmp_path, per_device_train_batch_size=2, num_iterations=2)
    assert [rows_after(run)(step) for step in range(5)] == [0, 2, 2, 4, 4]


def test_a_budget_of_steps(tmp_path: Path) -> None:
    """Share 0 to 9 tenths before the ten updates: the rate rises over two, falls over four."""
    rates, callback = Rates(), BudgetCallback(Budget("steps", 10), lambda step: 4 * step)
    run = sft(tmp_path, rates)
    train_to_budget(run, callback, trapezoid(0.2, 0.4))
    assert run.state.global_step == 10
    assert rates.found == pytest.approx([1e-3 * f for f in (0, 0.5, 1, 1, 1, 1, 1, 0.75, 0.5, 0.25)])
    assert callback.validations == [] and callback.cpu_seconds > 0


def test_a_budget_of_puzzles(tmp_path: Path) -> None:
    """Two updates on each roll-out of two puzzles: five puzzles are seen in the fifth update."""
    rates = Rates()
    run = trainer(tmp_path, callbacks=[rates], max_steps=UNLIMITED_STEPS, num_iterations=2)
    callback = BudgetCallback(Budget("puzzles", 5), lambda step: -(-step // 2) * 2)
    train_to_budget(run, callback, trapezoid(0.0, 1.0))
    assert run.state.global_step == 5
    assert rates.found == pytest.approx([1e-3 * (1 - seen / 5) for seen in (0, 2, 2, 4, 4)])


def test_two_rates_follow_the_budget(tmp_path: Path) -> None:
    run = trainer(tmp_path, max_steps=UNLIMITED_STEPS, rl_learning_rate=1e-4, sft_learning_rate=1e-2)
    train_to_budget(run, BudgetCallback(Budget("steps", 4), lambda step: step), trapezoid(0.0, 1.0))
    assert run.state.global_step == 4
    assert {round(group["lr"], 12) for group in run.optimizer.param_groups} == {0.0}


def test_a_budget_of_cpu_seconds_counts_no_validation(tmp_path: Path) -> None:
    spins = []

    def validate(model: nn.Module) -> float:
        until = time.process_time() + 0.3
        while time.process_time() < until:
            pass
        spins.append(0.3)
        return 0.0

    rates = Rates()
    callback = BudgetCallback(Budget("cpu_seconds", 0.5), lambda step: step, validate=validate, validate_share=0.5)
    before = time.process_time()
    run = sft(tmp_path, rates)
    train_to_budget(run, callback, trapezoid(0.0, 0.4))
    whole = time.process_time() - before
    assert 0.5 <= callback.cpu_seconds <= whole - sum(spins)
    assert len(spins) == len(callback.validations) >= 1 and callback.validations[-1][0] >= 1
    assert rates.found[0] == 1e-3 and rates.found == sorted(rates.found, reverse=True)
    assert run.state.max_steps == run.state.global_step


def test_the_projected_number_of_steps(tmp_path: Path) -> None:
    planned: list[int] = []

    class Plan(TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            planned.append(state.max_steps)

    run = sft(tmp_path, Plan())
    train_to_budget(run, BudgetCallback(Budget("puzzles", 24), lambda step: 4 * step), trapezoid(0.0, 0.4))
    assert planned[1:] == [6] * 5 and run.state.global_step == 6


@pytest.mark.parametrize(("by", "amount"), [("hours", 1), ("steps", 0), ("puzzles", float("nan"))])
def test_budgets_that_are_none_are_refused(by: Any, amount: float) -> None:
    refused("positive amount of cpu_seconds, seconds, puzzles or steps", lambda: Budget(by, amount))
    refused("validate_share=0", lambda: BudgetCallback(Budget("steps", 1), lambda step: step, validate_share=0))


class KillAt(TrainerCallback):
    """Ends training in the middle of a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self.step:
            raise KeyboardInterrupt


@pytest.mark.parametrize("by", ["steps", "puzzles"])
def test_a_run_that_is_resumed_ends_as_one_left_alone(tmp_path: Path, by: Any) -> None:
    """Two updates on a roll-out, an annealed temperature: both follow the budget, before and after the kill."""

    def run(name: str, *callbacks: TrainerCallback, **options: Any) -> tuple[list[torch.Tensor], list[float]]:
        rates = Rates()
        changes = {"save_strategy": "steps", "save_steps": 3, "position_temperature_end": 0.1, "num_iterations": 2}
        one = trainer(tmp_path / name, callbacks=[rates, *callbacks], max_steps=UNLIMITED_STEPS, **changes)
        scored = {"validate": lambda model: 0.5, "validate_share": 0.25}
        callback = BudgetCallback(Budget(by, 8), lambda step: step, **scored)
        with suppress(KeyboardInterrupt):
            train_to_budget(one, callback, trapezoid(0.2, 0.4), **options)
        found.append(callback)
        return [parameter.detach().clone() for parameter in one.model.parameters()], rates.found

    found: list[BudgetCallback] = []
    alone, rates = run("alone")
    _, first = run("killed", KillAt(5))
    resumed, rest = run("killed", resume_from_checkpoint="last")
    assert first[:3] + rest == rates and len(rest) == 5 and len(first) == 6
    assert all(torch.equal(one, other) for one, other in zip(alone, resumed, strict=True))
    assert found[2].validations == found[0].validations
    assert found[2].seconds > 0 and found[2].cpu_seconds > 0


def test_time_on_the_wall(tmp_path: Path) -> None:
    class Sleep(TrainerCallback):
        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            time.sleep(0.2)

    callback = BudgetCallback(Budget("seconds", 1.0), lambda step: step)
    run = sft(tmp_path, Sleep())
    train_to_budget(run, callback, trapezoid(0.0, 0.4))
    assert 2 <= run.state.global_step <= 6 and callback.seconds >= 1 > callback.cpu_seconds
