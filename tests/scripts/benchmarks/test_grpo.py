"""GRPO's loss and gradient are TRL's where both mean the same and differ as documented elsewhere; the script runs."""

import io
import json
import os
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import torch

from tests.helpers.warm_process import run_script

ROOT = Path(__file__).parents[3]

from scripts.benchmarks.grpo_contenders import (  # noqa: E402
    SIDES,
    TRAINERS,
    Setting,
    make_trainer,
    model_folder,
    spread_reward,
)
from scripts.benchmarks.grpo_losses import compare, drop_row, loss_table, make_tensors  # noqa: E402
from scripts.benchmarks.grpo_process import StepByStep, check_lengths  # noqa: E402

torch.set_num_threads(1)
SCRIPT = ROOT / "scripts" / "benchmarks" / "grpo.py"
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


@pytest.fixture(scope="module", params=["tiny", "qwen"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model_folder(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module")
def both(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any]]:
    pytest.importorskip("trl", reason="the comparison needs TRL: pip install 'sudoku-dllm[trl]'")
    setting = Setting(str(folder), kl_weight=0.05, max_completion_length=8)
    ours, trl = (make_trainer(side, setting, tmp_path_factory.mktemp(side), 1, []) for side in SIDES)
    for side in (ours, trl):
        side.model.double()  # in float32 the processor's rounding reaches 3e-7, as much as is to be seen
    yield ours, trl


def test_adapters_on_both_sides_and_a_server_only_with_them(folder: Path, tmp_path: Path) -> None:
    trainer = make_trainer("ours", Setting(str(folder), lora_r=4, max_completion_length=8), tmp_path, 1, [])
    assert {name.split(".")[-2] for name, each in trainer.model.named_parameters() if each.requires_grad} == {"default"}
    with pytest.raises(ValueError, match="set lora_r"):
        Setting(str(folder), vllm="python")


@pytest.mark.parametrize("kl_weight", [0.0, 0.05])
@pytest.mark.parametrize("loss_type", ["grpo", "bnpo", "dr_grpo", "dapo"])
def test_the_loss_and_its_gradient_are_those_of_trl(both: tuple[Any, Any], loss_type: str, kl_weight: float) -> None:
    found = compare(*both, make_tensors(both[0].model), loss_type, kl_weight)
    assert found.ours == pytest.approx(found.trl, abs=2e-7) and abs(found.trl) > 1e-3
    assert found.gradient_error < 1e-5 and found.cosine == pytest.approx(1, abs=1e-6)
    assert both[0].metrics.compute()["clip_frac"] > 0.2


def test_where_conventions_differ_the_table_says_so(both: tuple[Any, Any]) -> None:
    table = loss_table(*both)
    assert (table.loc[table["same"], "gradient_error"] < 1e-5).all()
    assert (table.loc[~table["same"], "gradient_error"] > 1e-3).all()
    # Three of four rows count: TRL divides by four.
    thinned = table[(table["case"] == "a row without tokens") & ~table["same"]]
    assert sorted(thinned["loss_type"]) == ["dr_grpo", "grpo"]
    assert thinned["norm_ratio"].to_list() == pytest.approx([4 / 3] * 2, rel=1e-5)
    assert (thinned["ours"] / thinned["trl"]).to_list() == pytest.approx([4 / 3] * 2, rel=1e-5)


def test_hand_made_tensors_have_rows_of_different_length_and_ratios_around_the_range(folder: Path) -> None:
    trainer = make_trainer("ours", Setting(str(folder), max_completion_length=8), folder / "run", 1, [])
    tensors = make_tensors(trainer.model)
    assert tensors.completion_mask.sum(1).tolist() == [8, 7, 3, 2] and tensors.prompt_mask[:, -1].all()
    assert drop_row(tensors, 2).loss_mask.any(1).tolist() == [True, True, False, True]
    ids = torch.cat([tensors.prompt_ids[0], tensors.completion_ids[0]])  # row 0 has no padding
    with torch.no_grad():
        logps = trainer.model(ids.unsqueeze(0)).logits[0].log_softmax(-1)
    own = torch.stack([logps[5 + index, token] for index, token in enumerate(tensors.completion_ids[0])])
    noise = tensors.old_logps[0] - own
    assert 0.1 < noise.std() < 0.8 and noise.square().mean() < 0.5 * (own - own.mean()).square().mean(), (noise, own)


@pytest.mark.parametrize("name", TRAINERS)
def test_our_side_runs_step_by_step_with_completions_of_one_length(
    name: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = io.StringIO()
    clock = StepByStep(answers)
    setting = Setting(str(folder), trainer=name, kl_weight=0.1, accumulation=2, max_completion_length=5)
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


def test_a_process_ends_when_nobody_asks_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    with pytest.raises(SystemExit, match="standard input has ended"):
        StepByStep(io.StringIO()).on_step_begin(None, SimpleNamespace(), SimpleNamespace())


def test_the_reward_differs_within_a_group() -> None:
    assert spread_reward([[7, 8], [6], []]) == [0.5, 6.0, 0.0]


def test_without_trl_the_script_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "trl", None)
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), "--output_dir", str(tmp_path)])
    with pytest.raises(SystemExit, match="2"):
        runpy.run_path(str(SCRIPT), run_name="__main__")
    assert "pip install 'sudoku-dllm[trl]'" in capsys.readouterr().err


def test_an_unknown_measure_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), "--measures", "speed"])
    with pytest.raises(SystemExit, match="2"):
        runpy.run_path(str(SCRIPT), run_name="__main__")
    assert "unknown measures ['speed']" in capsys.readouterr().err


def test_an_unknown_trainer_is_refused_and_losses_are_those_of_grpo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "trl", SimpleNamespace(__spec__=object()))  # as if it were installed
    for words, message in (
        (["--trainer", "reinforce"], "trainer is 'reinforce'; choose from ('grpo', 'ppo', 'vapor')"),
        (["--trainer", "ppo"], "TRL has no ppo whose loss ours could be compared with; add --measures time memory"),
    ):
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), *words, "--output_dir", str(tmp_path)])
        with pytest.raises(SystemExit, match="2"):
            runpy.run_path(str(SCRIPT), run_name="__main__")
        assert message in capsys.readouterr().err


@pytest.mark.slow
def test_the_script_writes_its_tables(tmp_path: Path) -> None:
    pytest.importorskip("trl", reason="the comparison needs TRL: pip install 'sudoku-dllm[trl]'")
    words = "--model tiny --rounds 1 --max_completion_length 4 --kl_weight 0.1".split()
    done = run_script(SCRIPT, [*words, "--output_dir", tmp_path], env=ENVIRONMENT, fresh=True)
    assert done.returncode == 0, done.stderr[-3000:]
    cost = pd.read_csv(tmp_path / "cost.csv", index_col="what")
    assert list(cost.columns) == ["ours", "trl", "ours / trl"] and (cost > 0).all(axis=None)
    assert {"step s", "generation s", "update s", "resident MiB", "tensors MiB"} <= set(cost.index)
    assert pd.read_csv(tmp_path / "losses.csv")["same"].sum() == 13
