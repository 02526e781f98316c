"""The example with a dial: its search by trying all colors, its scan, its training without answers, its table."""

import shutil
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
import torch

from dllm_rl import Decoding, check_batch, rollout
from dllm_rl.decoding.noise import StateNoise
from dllm_rl.policy import PolicyConfig
from dllm_rl.terms.objective import ObjectiveConfig
from tests.dllm_rl.helpers.update_checks import run
from tests.helpers.warm_process import finished

SCRIPT = Path(__file__).parents[2] / "examples" / "where_a_label_ends.py"
SMALL = ["--problems", 60, "--test_problems", 8, "--start_steps", 2, "--max_steps", 2, "--seeds", 0, "--jobs", 0]


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    return import_module(SCRIPT.stem)  # it stays: numba looks a function that calls itself up by its module


def first_coloring(cells: list[int], colors: int) -> list[int] | None:
    """The least one with what is written, by trying all colors in the first open vertex."""
    pairs = [(one, (one + step) % 24) for one in range(24) for step in (6, 11)]
    if any(cells[one] == cells[other] < colors for one, other in pairs) or max(cells) > colors:
        return None
    if colors not in cells:
        return cells
    place = cells.index(colors)
    tries = (first_coloring([*cells[:place], color, *cells[place + 1 :]], colors) for color in range(colors))
    return next((found for found in tries if found), None)


@pytest.mark.parametrize("slack", [0, 1, 2])
def test_the_search_and_the_least_label_are_those_of_trying_all_colors(example, slack) -> None:
    """Random colorings with a vertex or two changed, of which half is open."""
    colors, generator = 3 + slack, torch.Generator().manual_seed(slack)
    problems = example.draw(60, colors, seed=slack)
    answers = torch.tensor([answer for _, answer in problems])
    drawn = torch.where(torch.rand(answers.shape, generator=generator) < 0.06, (answers + 1) % colors, answers)
    states = torch.where(torch.rand(answers.shape, generator=generator) < 0.5, colors, drawn)
    batch, number = example.ColoringTask(colors).batch(problems), torch.arange(60)
    found = [first_coloring(state, colors) for state in states.tolist()]
    assert batch.completable(states, number).tolist() == [each is not None for each in found]
    assert 5 < sum(each is not None for each in found) < 55
    assert not batch.completable(states.index_fill(1, number[:1], colors + 1), number).any()  # no color
    batch.responses[:] = states
    least = example.scan(batch, batch.completable)
    assert all(each is None or each == row for each, row in zip(found, least.tolist(), strict=True))


def test_a_scan_by_the_rules_never_fails_with_two_colors_to_spare_and_mostly_with_none(example) -> None:
    assert not example.complete(torch.full((1, 24), 2).numpy(), torch.arange(2).expand(1, 24, 2).numpy()).any()
    shares = []
    for slack in (0, 1, 2):
        batch = example.ColoringTask(3 + slack).batch(example.draw(200, 3 + slack, seed=5))
        scanned, least = example.scan(batch, batch.allowed), example.scan(batch, batch.completable)
        done = (scanned != batch.mask_id).all(1)
        assert torch.equal(scanned[done], least[done]) and batch.completable(least, torch.arange(200)).all()
        shares.append(float(done.float().mean()))
    assert shares[0] < 0.3 < shares[1] < shares[2] == 1


def test_no_training_without_labels_looks_at_answers(example, tmp_path) -> None:
    """Gradients of judged decisions and of imitation are the same with two answers, finite, and not 0."""
    trial = example.Coloring(example.Arguments(slack=1, problems=50, start_steps=1))
    model, task = trial.start(0, tmp_path).double(), trial.task
    batch = task.batch(example.draw(8, 4, seed=2))
    check_batch(batch, task=task, model=model)
    hows = {
        "judged": Decoding("policy", tokens_per_step=4, policy=PolicyConfig(1.0, 1.0), on_error="redraw"),
        "own": Decoding("margin", tokens_per_step=24, on_error="end", guard="completable"),
    }
    for arm, how in hows.items():
        told = example.TOLD[arm].items()
        known = {name: value for name, value in told if name in ObjectiveConfig.__dataclass_fields__}
        config = ObjectiveConfig(**known, policy_weight=0.0, f_weight=0.0)
        found = []
        for answers in (batch.answers, example.scan(batch, batch.completable)):
            problems = replace(batch, answers=answers)
            record = rollout(model, problems, how, generator=torch.Generator().manual_seed(0))
            found.append(run(model, record, config, noise=StateNoise((1,)))[1])
        assert all(bool(one.isfinite().all()) and torch.equal(one, other) for one, other in zip(*found, strict=True))
        assert any(bool(one.any()) for one in found[0])


@pytest.mark.slow
def test_the_dial_is_a_line_for_each_run(example, tmp_path, capsys) -> None:
    """A run, and a copy of it that says of itself that it had no color to spare."""
    finished(SCRIPT, [*SMALL, "--slack", 2, "--output_dir", tmp_path / "slack2"], timeout=600)
    shutil.copytree(tmp_path / "slack2", tmp_path / "slack0")
    for path in (tmp_path / "slack0").rglob("result.json"):
        path.write_text(path.read_text().replace('"slack": 2', '"slack": 0'))
    example.Coloring(example.Arguments(test_problems=8)).report(tmp_path / "slack0", [])
    lines = capsys.readouterr().out.split("Valid at four a pass:")[1].strip().splitlines()
    assert [line.split(" | ")[:2] for line in lines[2:]] == [["| 0", "100"], ["| 2", "100"]]
