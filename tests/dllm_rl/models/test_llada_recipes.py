"""The recipes for LLaDA-8B: every key is known, and one runs end to end on a tiny folder as published."""

import json
import os
import re
import subprocess
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForMaskedLM

from dllm_rl.training.arguments import UnmaskArguments
from sudoku_dllm.labels.arguments import ScriptArguments
from tests.dllm_rl.helpers.published_llada import write_sudoku_checkpoint
from tests.helpers.warm_process import ROOT, finished, run_in_two_processes

SCRIPT = ROOT / "scripts" / "train_sudoku.py"
RECIPES = sorted((ROOT / "configs").glob("llada_8b_*.yaml"))


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_the_library_takes_every_value(recipe, tmp_path) -> None:
    values = yaml.safe_load(recipe.read_text())
    known = {item.name for item in fields(UnmaskArguments)}
    own = {name: value for name, value in values.items() if name in known}
    args = UnmaskArguments(**{**own, "output_dir": str(tmp_path), "use_cpu": True})
    assert (args.lora_r, args.lora_alpha, args.lora_dropout) == (16, 32, 0.0)
    assert args.gradient_checkpointing and args.shard is recipe.stem.endswith("fsdp")


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_the_script_knows_every_key(recipe) -> None:
    known = {item.name for item in fields(ScriptArguments)}
    keys = yaml.safe_load(recipe.read_text()).keys() - {item.name for item in fields(UnmaskArguments)}
    assert {"model", "dtype", "eval_puzzles"} <= keys <= known


def small(folder: Path, **changes: Any) -> list[str]:
    """Words of the command line that override sizes and steps, of a model in `<folder>/published`."""
    sizes = {
        "model": folder / "published", "output_dir": folder / "run", "use_cpu": True, "prompt_template": "compact",
        "max_gen_length": 40, "max_puzzles": 16, "eval_puzzles": 4, "curve_puzzles": 3, "curve_points": 1,
        "max_steps": 2, "save_steps": 1, "num_generations": 4, "per_device_train_batch_size": 2,
        "gradient_accumulation_steps": 2, "lora_r": 2, "report_to": "none",
        "disable_tqdm": True, **changes,
    }  # fmt: skip
    return [str(word) for name, value in sizes.items() for word in (f"--{name}", value)]


@pytest.mark.slow
def test_the_recipe_runs_end_to_end_on_a_published_folder(tmp_path) -> None:
    """Sizes and steps are overridden, nothing else: bfloat16, adapters, checkpointing and accumulation stay."""
    write_sudoku_checkpoint(tmp_path / "published")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    words = ["--setting", "labels", ROOT / "configs" / "llada_8b_6x6.yaml", *small(tmp_path, control_batch_size=2)]
    result = finished(SCRIPT, words, env=environment, timeout=300)
    assert "\nobjective " in result.stdout and "\nsft " in result.stdout
    # The recipe gives train_seconds, in whose place --max_steps comes.
    assert re.search(r"\n  objective +2 updates .*\n  sft +2 updates ", result.stdout)
    objective, sft = (tmp_path / "run" / arm / "seed0" for arm in ("objective", "sft"))
    metrics = [json.loads(line) for line in (objective / "metrics.jsonl").read_text().splitlines()]
    ratios = [line["max_log_ratio_at_update_0"] for line in metrics if "max_log_ratio_at_update_0" in line]
    assert len(ratios) == 2 and max(ratios) < 1e-5
    arguments = json.loads((tmp_path / "run" / "arguments.json").read_text())
    assert arguments["dtype"] == "bfloat16" and arguments["gradient_checkpointing"] is True
    base = AutoModelForMaskedLM.from_pretrained(tmp_path / "published")
    for folder in (objective / "model", sft / "model", objective / "checkpoint-2"):
        progress = {"progress_0.safetensors"} if folder.name == "checkpoint-2" else set()
        assert {path.name for path in folder.glob("*.safetensors")} == {"adapter_model.safetensors"} | progress
        adapters = load_file(folder / "adapter_model.safetensors")
        assert sum(weight.numel() for weight in adapters.values()) == 1984
        assert any(bool(weight.any()) for key, weight in adapters.items() if "lora_B" in key)
    card = (objective / "model" / "README.md").read_text()
    assert "An adapter (PEFT) of 1,984 parameters to published" in card and "library_name: peft" in card
    assert isinstance(PeftModel.from_pretrained(base, str(objective / "model")), PeftModel)


def dealt_out(folder: Path, **changes: Any) -> subprocess.CompletedProcess[str]:
    """Run the recipe that deals weights out in two processes."""
    write_sudoku_checkpoint(folder / "published")
    words = ["--setting", "labels", ROOT / "configs" / "llada_8b_6x6_fsdp.yaml", *small(folder, **changes)]
    return run_in_two_processes(SCRIPT, words)


@pytest.mark.slow
def test_two_processes_run_the_recipe_that_deals_weights_out(tmp_path) -> None:
    """The first process alone speaks: it names the run folder at the beginning and at the end."""
    result = dealt_out(tmp_path)
    assert result.returncode == 0, result.stderr[-3000:]
    assert result.stdout.count("Run folder: ") == 2
    arm = tmp_path / "run" / "objective" / "seed0"
    assert {path.name for path in (tmp_path / "run").iterdir()} >= {"arguments.json", "table.csv", "decode.gif"}
    assert json.loads((arm / "result.json").read_text())["puzzles_seen"] == 2 * 2 * 2 * 2
    assert (arm / "checkpoint-2" / "shards").is_dir() and (arm / "curve.jsonl").read_text()
    base = AutoModelForMaskedLM.from_pretrained(tmp_path / "published")
    assert isinstance(PeftModel.from_pretrained(base, str(arm / "model")), PeftModel)


@pytest.mark.slow
def test_what_several_processes_do_not_compare_is_named(tmp_path) -> None:
    result = dealt_out(tmp_path, arms="sft")
    assert result.returncode == 2 and "--arms sft is trained in one process; with 2 give some of" in result.stderr
