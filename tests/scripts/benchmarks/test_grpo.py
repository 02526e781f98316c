"""`scripts/benchmarks/grpo.py`: what both sides train, step by step, and its tables."""

import io
import json
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
import torch

from scripts.benchmarks.grpo_contenders import (
    TRAINERS,
    Setting,
    StepByStep,
    check_lengths,
    make_trainer,
    model_folder,
    spread_reward,
)
from tests.helpers.warm_process import ROOT, finished

torch.set_num_threads(1)
SCRIPT = ROOT / "scripts" / "benchmarks" / "grpo.py"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {name: model_folder(name, tmp_path_factory.mktemp(name)) for name in ("tiny", "qwen")}


@pytest.mark.parametrize("model", ["tiny", "qwen"])
def test_adapters_on_both_sides_and_a_server_only_with_them(model, folders, tmp_path) -> None:
    trainer = make_trainer("ours", Setting(str(folders[model]), lora_r=4, max_completion_length=8), tmp_path, 1, [])
    assert {name.split(".")[-2] for name, each in trainer.model.named_parameters() if each.requires_grad} == {"default"}


@pytest.mark.parametrize(("model", "name"), [*(("tiny", name) for name in TRAINERS), ("qwen", "grpo")])
def test_our_side_runs_step_by_step_with_completions_of_one_length(model, name, folders, tmp_path, monkeypatch) -> None:
    answers = io.StringIO()
    clock = StepByStep(answers)
    setting = Setting(str(folders[model]), trainer=name, kl_weight=0.1, accumulation=2, max_completion_length=5)
    trainer = make_trainer("ours", setting, tmp_path, 2, [clock])
    assert type(trainer).__name__ == f"{name.upper()}Trainer" and trainer.scorer.share_prompts
    clock.watch(trainer, "_generate_completions", "generation")
    clock.watch(trainer, "_roll_out", "rollout")
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n\n"))
    trainer.train()
    lines = [json.loads(line) for line in answers.getvalue().splitlines()]
    assert len(lines) == 2
    for line in lines:
        for unit in ("s", "CPU s"):
            step, generation, update = (line[f"{part} {unit}"] for part in ("step", "generation", "update"))
            assert 0 < generation and 0 < update and generation + update < step
        assert line["rss"] > 0 and line["rss_net"] < line["rss"]  # the growth may be negative: pages are given back
    check_lengths(trainer, "ours", 5)
    with pytest.raises(RuntimeError, match=r"completions of ours have \[5.0, 5.0\] tokens, not 6"):
        check_lengths(trainer, "ours", 6)


def test_a_process_ends_when_nobody_asks_any_more(monkeypatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    with pytest.raises(SystemExit, match="standard input has ended"):
        StepByStep(io.StringIO()).on_step_begin(None, SimpleNamespace(), SimpleNamespace())


def test_the_reward_differs_within_a_group() -> None:
    assert spread_reward([[7, 8], [6], []]) == [0.5, 6.0, 0.0]


def test_without_trl_the_script_says_what_to_install(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "trl", None)
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), "--output_dir", str(tmp_path)])
    with pytest.raises(SystemExit, match="2"):
        runpy.run_path(str(SCRIPT), run_name="__main__")
    assert "pip install 'sudoku-dllm[trl]'" in capsys.readouterr().err


@pytest.mark.slow
def test_the_script_writes_its_tables(tmp_path) -> None:
    pytest.importorskip("trl", reason="the comparison needs TRL: pip install 'sudoku-dllm[trl]'")
    words = "--model tiny --rounds 1 --max_completion_length 4 --kl_weight 0.1".split()
    finished(SCRIPT, [*words, "--output_dir", tmp_path])
    cost = pd.read_csv(tmp_path / "cost.csv", index_col="what")
    assert list(cost.columns) == ["ours", "trl", "ours / trl"] and (cost > 0).all(axis=None)
    assert {"step s", "generation s", "update s", "resident MiB", "tensors MiB"} <= set(cost.index)
