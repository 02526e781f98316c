"""The examples of tasks with several right answers: their judges by enumeration, their training without answers."""

import itertools
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from dllm_rl import Decoding, UnmaskBatch, check_batch, rollout
from dllm_rl.decoding.noise import StateNoise
from dllm_rl.policy import PolicyConfig
from dllm_rl.terms.objective import ObjectiveConfig
from dllm_rl.training.update import objective_pass
from tests.helpers.warm_process import run_script

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = ["--start", 2, "--supervised", 2, "--judged", 2, "--problems", 50, "--test_problems", 8]


@pytest.fixture
def latin(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return _imported(monkeypatch, "several_answers")


@pytest.fixture
def shuffle(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return _imported(monkeypatch, "shuffle")


def _imported(monkeypatch: pytest.MonkeyPatch, name: str) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    for each in ("several_answers", "shuffle"):
        monkeypatch.delitem(sys.modules, each, raising=False)
    module = __import__(name)
    for each in ("several_answers", "shuffle"):
        monkeypatch.delitem(sys.modules, each, raising=False)
    return module


def is_latin(cells: list[int]) -> bool:
    rows = [cells[start : start + 4] for start in range(0, 16, 4)]
    return all(sorted(line) == [0, 1, 2, 3] for line in (*rows, *zip(*rows, strict=True)))


def extends_to_a_square(cells: list[int]) -> bool:
    """By trying all symbols in the first open cell."""
    if 4 not in cells:
        return is_latin(cells)
    place = cells.index(4)
    peers = [one for one in range(16) if one // 4 == place // 4 or one % 4 == place % 4]
    fitting = set(range(4)) - {cells[one] for one in peers}
    return any(extends_to_a_square([*cells[:place], symbol, *cells[place + 1 :]]) for symbol in fitting)


def test_there_are_576_squares_and_the_canonical_answer_is_the_least(latin: ModuleType) -> None:
    rows = [tuple(square) for square in latin.squares().tolist()]
    assert len(set(rows)) == 576 and rows == sorted(rows) and all(is_latin([*square]) for square in rows)
    boards = latin.draw_boards(30, (0, 6), seed=3)
    for (board, answer), (same, least) in zip(boards, latin.canonical(boards), strict=True):
        fitting = [row for row in rows if all(given in (4, cell) for given, cell in zip(board, row, strict=True))]
        assert board == same and least == min(fitting) and answer in fitting


def test_a_board_is_completable_where_a_search_finds_a_square(latin: ModuleType) -> None:
    """Random symbols in random cells, most of which clash somewhere, and squares with a cell or two changed."""
    generator = torch.Generator().manual_seed(0)
    squares = latin.squares()[torch.randint(576, (150,), generator=generator)]
    drawn = torch.where(torch.rand(150, 16, generator=generator) < 0.15, squares.roll(1, 0), squares)
    cells = torch.where(torch.rand(150, 16, generator=generator) < 0.55, latin.MASK, drawn)
    batch = latin.LatinTask().batch([(row, row) for row in cells.tolist()])
    found = batch.completable(batch.responses, torch.arange(150))
    assert found.tolist() == [extends_to_a_square(row) for row in cells.tolist()]
    assert 20 < int(found.sum()) < 130
    batch.responses[:, latin.PLACES[0]] = latin.ROWS[0]  # the marker of a row is no symbol
    assert not bool(batch.completable(batch.responses, torch.arange(150)).any())


def test_a_list_is_completable_where_another_order_agrees(shuffle: ModuleType) -> None:
    """All ways to write three of the six items, or one that is not in the list, and all complete orders."""
    items = (3, 0, 7, 11, 2, 5)
    batch = shuffle.ShuffleTask().batch([(items, items[::-1])])
    orders = set(itertools.permutations(items)) - {items}
    states = [list(order) for order in itertools.permutations(items)]
    states += [[*some, 13, 13, 13] for some in itertools.product((*items, 4), repeat=3)]
    states += [[13 if place == gap else item for place, item in enumerate(items)] for gap in range(6)]
    written = torch.tensor(states)
    agrees = [any(all(a in (13, b) for a, b in zip(state, order, strict=True)) for order in orders) for state in states]
    found = batch.completable(written, torch.zeros(len(states), dtype=torch.long))
    assert found.tolist() == agrees and {*agrees} == {True, False}


def test_ideal_models_know_how_often_each_token_stands_where(latin: ModuleType, shuffle: ModuleType) -> None:
    """On the empty board all symbols are as frequent; an item stands at its own place in 119 of 719 other orders."""
    empty = latin.LatinTask().batch([([4] * 16, [4] * 16)]).responses
    assert torch.equal(latin.counts(empty)[0, latin.PLACES, :4], torch.full((16, 4), 144.0, dtype=torch.double))
    items = (0, 1, 2, 3, 4, 5)
    batch = shuffle.ShuffleTask().batch([(items, items[::-1])])
    found = shuffle.counts(torch.cat([batch.prompt_ids, batch.responses], dim=1))[0, 7:, :6]
    assert torch.equal(found, 120 - torch.eye(6, dtype=torch.double))


def gradients(latin: ModuleType, problems: UnmaskBatch, weights: dict[str, Any], how: Decoding) -> list[Tensor]:
    """Those of some terms of a random model, in float64."""
    model = latin.Lab(latin.LatinTask(), [], ([4] * 16, [0] * 16), 0, passes=(1,), cells=2).new_model(9).double()
    record = rollout(model, problems, how, generator=torch.Generator().manual_seed(0))
    config = ObjectiveConfig(**weights, policy_weight=0.0, f_weight=0.0, reduction="mean")
    noise = StateNoise((1,))
    objective_pass(model, record, lambda one, other: (one + other).backward(), config=config, noise=noise)
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


GUARDED = Decoding("margin", tokens_per_step=16, policy=PolicyConfig(1.0, 1.0), on_error="end", guard="completable")
REDRAWN = Decoding("policy", tokens_per_step=2, policy=PolicyConfig(1.0, 1.0), on_error="redraw")


@pytest.mark.parametrize(
    ("weights", "how"),
    [
        ({"judged_weight": 1.0}, REDRAWN),
        ({"ce_weight": 1.0, "ce_target": "own"}, GUARDED),
        ({"kept_weight": 1.0}, GUARDED),
    ],
)
def test_learners_by_a_check_do_not_look_at_answers(latin: ModuleType, weights: dict[str, Any], how: Decoding) -> None:
    """The gradient is the same, finite and not 0 with random answers, canonical ones, and none."""
    task, boards = latin.LatinTask(), latin.draw_boards(8, (2, 5), seed=0)
    batch = task.batch(boards)
    check_batch(batch, task=task)
    none = replace(batch, answers=torch.full_like(batch.answers, batch.mask_id))
    least = task.batch(latin.canonical(boards))
    assert not torch.equal(batch.answers, least.answers)
    found = [gradients(latin, problems, weights, how) for problems in (batch, least, none)]
    assert all(bool(one.isfinite().all()) for one in found[0]) and any(bool(one.any()) for one in found[0])
    for other in found[1:]:
        assert all(torch.equal(one, same) for one, same in zip(found[0], other, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["several_answers", "shuffle"])
def test_the_examples_measure_all_arms(name: str) -> None:
    done = run_script(EXAMPLES / f"{name}.py", SMALL, env=None)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = [line.split("|")[1].strip() for line in done.stdout.splitlines() if line.startswith("|")]
    arms = ["perfect marginals", "start", "random answers", "canonical", "judged decisions", "canonical, then judged"]
    assert rows[0] == "valid, %, by cells a pass" and rows[2:] == arms
