"""The base's training on puzzles without an end, in the layout without a prompt."""

import math

import pytest
import torch
import yaml
from safetensors.torch import load_file
from transformers import AutoTokenizer

from dllm_rl import load
from dllm_rl.sft import SftDataset, masked_diffusion_loss
from dllm_rl.sudoku import SudokuTask
from scripts.shared.small_tokenizer import build_small_tokenizer
from sudoku_env.prompts.text import build_prompt
from sudoku_env.prompts.tokens import pre_fill
from sudoku_env.puzzles import read_puzzles
from tests.helpers.warm_process import ROOT
from tests.scripts.helpers.in_process import run_here, run_until_checkpoint
from tests.scripts.helpers.started import TINY_BASE, lines

TINY = {
    **TINY_BASE, "size": 6, "clues_low": 20, "clues_high": 30, "hard_low": 16, "hard_high": 18, "puzzles": 0,
    "answer_layout": "bare", "chunk": 1, "tail": 0, "hold_steps": 3, "save_steps": 1, "curve_strategies": "margin",
}  # fmt: skip


@pytest.mark.parametrize("masks", ["random", "ordered"])
def test_a_run_without_an_end_goes_on_bit_for_bit(tmp_path, monkeypatch, masks) -> None:
    whole, stopped, tiny = tmp_path / "whole", tmp_path / "stopped", {**TINY, "masks": masks}
    run_here(monkeypatch, "sudoku/pretrain.py", **tiny, output_dir=whole)
    run_until_checkpoint(monkeypatch, "checkpoint-2", "sudoku/pretrain.py", **tiny, output_dir=stopped)
    resumed = {**tiny, "output_dir": stopped, "resume_from_checkpoint": "last"}
    run_until_checkpoint(monkeypatch, "checkpoint-3", "sudoku/pretrain.py", **resumed)
    run_here(monkeypatch, "sudoku/pretrain.py", **resumed)
    (one,), (other,) = (list((folder / "checkpoints").glob("checkpoint-*")) for folder in (whole, stopped))
    assert one.name == other.name == "checkpoint-5"
    for name in ("model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth"):
        assert (one / name).exists()
    weights, again = load_file(one / "model.safetensors"), load_file(other / "model.safetensors")
    assert all(torch.equal(weights[key], again[key]) for key in weights)
    moments, same = (torch.load(folder / "optimizer.pt", weights_only=True)["state"] for folder in (one, other))
    assert all(torch.equal(moments[key][name], same[key][name]) for key in moments for name in moments[key])
    curves = [lines(folder / "curve.jsonl") for folder in (whole, stopped)]
    assert curves[0] == curves[1] and [line["step"] for line in curves[0]] == [2, 4]


def test_a_run_begins_with_the_weights_of_a_model(tmp_path, monkeypatch, capsys) -> None:
    run_here(monkeypatch, "sudoku/pretrain.py", **TINY, output_dir=tmp_path / "first")
    start = tmp_path / "first" / "annealed"
    options = {**TINY, "start": start, "seed": 1, "n_loops": 2, "output_dir": tmp_path / "second"}
    # What it begins with is what it ends with.
    run_here(monkeypatch, "sudoku/pretrain.py", **options, learning_rate=0.0)
    weights, again = (load_file(run / "model.safetensors") for run in (start, tmp_path / "second" / "annealed"))
    assert all(torch.equal(weights[key], again[key]) for key in weights)
    card = (tmp_path / "second" / "annealed" / "README.md").read_text()
    assert f"From the weights of `{start}`, 3 updates" in card and "1 blocks, gone through 2 times a pass" in card
    looped = tmp_path / "second" / "annealed"
    run_here(monkeypatch, "sudoku/pretrain.py", **TINY, start=looped, seed=2, output_dir=tmp_path / "third")
    folders = (start, looped, tmp_path / "third" / "annealed")
    assert [load(folder)[0].config.n_loops for folder in folders] == [1, 2, 2]
    with pytest.raises(SystemExit):
        run_here(monkeypatch, "sudoku/pretrain.py", **{**options, "d_model": 32, "output_dir": tmp_path / "wide"})
    assert "has the sizes {'d_model': 16," in (message := capsys.readouterr().err) and "'d_model': 32" in message
    assert not (tmp_path / "wide").exists()


def test_the_base_in_the_repository_is_of_the_recipe_and_knows_digits() -> None:
    model, tokenizer = load(str(ROOT / "data" / "base9x9"))
    recipe = yaml.safe_load((ROOT / "configs" / "sudoku9x9_cpu.yaml").read_text(encoding="utf-8"))
    sizes = ("d_model", "n_layers", "n_heads", "mlp_hidden_size", "rope_theta")
    assert {name: getattr(model.config, name) for name in sizes} == {name: recipe[name] for name in sizes}
    built = build_small_tokenizer(recipe["size"], recipe["chunk"], recipe["answer_layout"])
    assert tokenizer.get_vocab() == built.get_vocab()
    puzzles = read_puzzles(ROOT / "data" / "puzzles" / "sudoku9x9_test.csv", tier="singles").boards[:32]
    prefilled = [pre_fill(build_prompt(board, "compact"), tokenizer, 91) for board in puzzles]
    data = SftDataset(SudokuTask(tokenizer.pad_token_id, tokenizer.eos_token_id).batch(prefilled))
    with torch.no_grad():
        loss = masked_diffusion_loss(model.float(), data.input_ids.long(), data.maskable, tokenizer.mask_token_id)
    assert loss < math.log(9) / 4  # log 9 is that of a guess


def test_the_model_knows_its_layout_and_a_run_can_be_annealed_early(tmp_path, monkeypatch, capsys) -> None:
    options = {**TINY, "output_dir": tmp_path / "run", "hold_steps": 100}
    run_until_checkpoint(monkeypatch, "checkpoint-2", "sudoku/pretrain.py", **options)
    early = {"hold_steps": 2, "anneal_steps": 2, "resume_with_changes": True}
    run_here(monkeypatch, "sudoku/pretrain.py", **{**options, **early}, resume_from_checkpoint="last")
    assert lines(tmp_path / "run" / "training_log.jsonl")[-1]["step"] == 4
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "run" / "annealed")
    puzzle = "..3..5..1.2324536...6..2.625......3."
    prefilled = pre_fill(build_prompt(puzzle), tokenizer, 43)
    assert (prefilled.layout.name, prefilled.prompt_length, prefilled.map_range) == ("bare", 1, (2, 43))
    assert "training puzzles without an end" in capsys.readouterr().out
    card = (tmp_path / "run" / "annealed" / "README.md").read_text()
    assert "It knows answer layout bare, which leaves the prompt out, and this size only" in card
    assert "- **Data**: 16 puzzles, none seen twice" in card and "2 updates of 4 puzzles" in card


def test_other_training_puzzles_are_another_run(tmp_path, monkeypatch) -> None:
    options = {**TINY, "output_dir": tmp_path / "run"}
    run_until_checkpoint(monkeypatch, "checkpoint-1", "sudoku/pretrain.py", **options)
    with pytest.raises(SystemExit):
        run_here(monkeypatch, "sudoku/pretrain.py", **{**options, "clues_low": 21}, resume_from_checkpoint="last")


def test_puzzles_none_of_which_is_of_the_split_end_the_program_with_a_sentence(tmp_path, monkeypatch, capsys) -> None:
    """4×4 has two grids up to symmetry, so one split at least has none."""
    few = {"size": 4, "clues_low": 6, "clues_high": 8, "hard_low": 5, "hard_high": 6, "puzzles": 60}
    with pytest.raises(SystemExit):
        run_here(monkeypatch, "sudoku/pretrain.py", **{**TINY, **few}, output_dir=tmp_path / "run")
    assert "puzzles of size 4 is of the" in capsys.readouterr().err
