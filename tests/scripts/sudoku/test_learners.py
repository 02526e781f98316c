"""`scripts/sudoku/learners.py` and `masks.py`: which cells are masked, what a loss weighs, and a handful of updates."""

import json
from pathlib import Path

import pytest
import torch

from dllm_rl import LladaForMaskedLM, SudokuTask, load
from dllm_rl.sft import SftDataset, collate, masked_diffusion_loss
from scripts.sudoku.learners import LEARNERS, Learner, model_of, updates_for, validation
from scripts.sudoku.masks import left_open, masked_loss, top_ratios
from scripts.sudoku.solving import filled
from tests.helpers.warm_process import run_script

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "scripts" / "sudoku" / "learners.py"


@pytest.fixture(scope="module")
def start() -> LladaForMaskedLM:
    return load(ROOT / "data" / "base9x9")[0].float()


@pytest.fixture(scope="module")
def batch() -> dict[str, torch.Tensor]:
    _, tokenizer = load(ROOT / "data" / "base9x9")
    rows = SftDataset(
        SudokuTask(tokenizer.pad_token_id, tokenizer.eos_token_id).batch(filled(validation(6), tokenizer))
    )
    return collate([rows[number] for number in range(len(rows))])


def test_ratios_are_one_in_each_part_of_their_interval() -> None:
    for _ in range(20):
        ratios = top_ratios(16).flatten().sort().values
        assert ratios.amin() >= 0.5 and ratios.amax() < 1
        assert (ratios.diff() - (1 - 1e-3) / 32).abs().max() < 1e-5


def test_the_recipe_has_the_library_s_loss(start: LladaForMaskedLM, batch: dict[str, torch.Tensor]) -> None:
    mask_id = start.config.mask_token_id
    torch.manual_seed(1)
    ours = masked_loss(start, batch, "random", mask_id)
    torch.manual_seed(1)
    theirs = masked_diffusion_loss(start, batch["input_ids"].long(), batch["maskable"], mask_id)
    assert torch.equal(ours, theirs)


def test_what_is_left_open_is_what_the_model_is_least_sure_of(
    start: LladaForMaskedLM, batch: dict[str, torch.Tensor]
) -> None:
    inputs, maskable = batch["input_ids"].long(), batch["maskable"]
    mask_id = start.config.mask_token_id
    with torch.no_grad():
        best = start(input_ids=inputs.masked_fill(maskable, mask_id), logits_mask=maskable).logits.softmax(-1).amax(-1)
    sure = torch.zeros(inputs.shape).masked_scatter(maskable, best)
    for open_ in (0, 1, 20):
        left = left_open(start, inputs, maskable, torch.full((len(inputs),), open_), mask_id)
        assert (left.sum(1) == open_).all() and not (left & ~maskable).any()
        if open_ == 20:
            assert sure[left].mean() < sure[maskable & ~left].mean()


def test_what_a_learner_begins_with(start: LladaForMaskedLM) -> None:
    looped = model_of(LEARNERS["looped2"], start)
    assert looped.config.n_layers == 3 and looped.config.n_loops == 2
    assert looped.num_parameters() == model_of(Learner(blocks=3), start).num_parameters()
    again = model_of(LEARNERS["again"], start)
    for name, begin, loops in (("plain", start, 1), ("again", start, 2), ("plain", again, 2), ("thrice", again, 3)):
        model = model_of(LEARNERS[name], begin)
        assert model.config.n_loops == loops and start.config.n_loops == 1
        assert all(torch.equal(value, start.state_dict()[key]) for key, value in model.state_dict().items())


def test_learners_cost_the_same(start: LladaForMaskedLM) -> None:
    updates = {
        name: updates_for(96_000, learner, model_of(learner, start).config) for name, learner in LEARNERS.items()
    }
    assert updates["plain"] == updates["scratch"] == updates["looped2"] == updates["looped3"] == 6000
    assert updates["ordered"] == 4500 and updates["again"] == 2250 and updates["thrice"] == 1500


@pytest.mark.slow
def test_a_learner_is_trained_and_judged(tmp_path: Path) -> None:
    words = ["--learners", "ordered", "--sequences", "96", "--judged", "3", "--output_dir", tmp_path]
    done = run_script(SCRIPT, words, timeout=500, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [json.loads(line) for line in (tmp_path / "learners.jsonl").read_text().splitlines()]
    assert [line["learner"] for line in lines] == ["ordered"]
    assert all(0 <= line["solved at 1"] <= 1 and line["nats at 1.0"] > 0 for line in lines)
    assert (tmp_path / "ordered.pt").exists()


def test_an_unknown_learner_is_named(tmp_path: Path) -> None:
    done = run_script(SCRIPT, ["--learners", "none", "--output_dir", tmp_path], timeout=300, cwd=ROOT)
    assert done.returncode == 2 and "['none'] are unknown; choose among plain" in done.stderr
