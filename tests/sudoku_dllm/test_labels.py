"""The main job as a user runs it, with tiny counts."""

import csv
import json
import re
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from huggingface_hub import ModelCard
from PIL import Image
from safetensors.torch import load_file
from transformers import AutoModelForMaskedLM

import dllm_rl  # noqa: F401  registers the architecture with the Auto classes
from dllm_rl.decoding import Decoding, evaluate
from dllm_rl.sudoku import SudokuTask
from llm_rl.training.budget import Budget
from llm_rl.training.errors import CheckpointError
from sudoku_dllm.labels.arguments import UPDATES, RecipeArguments, ScriptArguments
from sudoku_dllm.labels.arm import Labels, outcomes_of
from sudoku_dllm.labels.data import Setting
from sudoku_dllm.labels.report import Outcomes, closing_text
from sudoku_dllm.placebo import PlaceboTask
from sudoku_dllm.trials.jobs import Job
from sudoku_dllm.trials.record import Records, write_job
from tests.dllm_rl.helpers.evaluations import evaluation
from tests.helpers.warm_process import FRESH, ROOT
from tests.scripts.helpers.in_process import run_here, run_until_checkpoint
from tests.scripts.helpers.page_data import page_data
from tests.scripts.helpers.started import lines, start

TINY = {"setting": "labels", "max_puzzles": 12, "eval_puzzles": 6, "save_steps": 2, "logging_steps": 1}
LABELED, ROLLED_OUT = {"control_batch_size": 4}, {"per_device_train_batch_size": 2}
COUNTED = {**TINY, **ROLLED_OUT, "arms": "objective", "max_steps": 4, "num_generations": 2, "jobs": 0, "eval_tokens": 4,
           "curve_points": 2, "curve_puzzles": 4}  # fmt: skip
SCRIPT = "train_sudoku.py" if FRESH else str(Path(__file__).with_name("forked_arms.py"))
"""What is started where arms need no interpreters of their own."""
ARMS = ["sft", "sft_definite", "ce", "placebo", "objective"]
HELD_OUT = ["--max_puzzles", "12", "--eval_puzzles", "6", "--eval_data", ROOT / "data" / "sudoku6x6_train.jsonl"]
TIMES = {"seconds", "cpu_seconds", "train_runtime", "train_samples_per_second", "train_steps_per_second"}


def rows_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "table.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def timeless(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name not in TIMES} for row in rows]


def setting(tmp_path: Path, **options: Any) -> Setting:
    names = {name for name in ScriptArguments.__dataclass_fields__ if name in options}
    given = {"max_puzzles": 12, "eval_puzzles": 6} | {name: options.pop(name) for name in names}
    script = ScriptArguments(**given)
    recipe = {"output_dir": str(tmp_path), "use_cpu": True, "report_to": "none", "disable_tqdm": True, **options}
    return Setting.load(script, RecipeArguments(**recipe))


def new_trainer(kept: Setting, arm: str, folder: Path) -> Any:
    trial = Labels(kept)
    return trial.trainer(arm, trial.start(3, folder), 3, folder)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """All arms with CPU seconds alike, two processes at a time."""
    folder = tmp_path_factory.mktemp("main") / "run"
    process = start(SCRIPT, folder, **TINY, **LABELED, **ROLLED_OUT, train_seconds=0.5, jobs=2, arms=ARMS)
    output, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors[-3000:] + "".join(path.read_text() for path in folder.glob("*/*/log.txt"))
    return folder, output, errors


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Base and objective with a number of updates, in this process."""
    folder = tmp_path_factory.mktemp("counted") / "run"
    with pytest.MonkeyPatch.context() as patch:
        run_here(patch, "train_sudoku.py", **COUNTED, output_dir=folder)
    return folder


def test_it_says_first_what_will_happen_and_ends_with_the_table(whole) -> None:
    folder, output, errors = whole
    plan, table = output.split("\n  base")[0], output[output.index("sudoku6x6_few_test: per cent") :]
    for arm in ARMS:
        assert f"\n  {arm} " in plan and f"\n{arm} " in table
    for said in ("218,560 parameters", "12 puzzles with 1", "0.5 CPU seconds  SFT\n", "No symmetry is used", "minute"):
        assert said in plan
    for said in ("1 token ", "2 tokens", "4 tokens", "random order", "objective minus …", "\n− sft "):
        assert said in table
    assert "Seed 42." in table and "definite cells first" in table and "CPU s" in table
    assert f"Run folder: {folder} (table.csv" in table
    assert "Warning" not in errors + "".join(path.read_text() for path in folder.glob("*/*/log.txt"))


def test_the_long_table_is_what_the_outcomes_say(whole) -> None:
    folder, _, _ = whole
    rows = rows_of(folder)
    assert len(rows) == 6 * 2 * 3
    assert {row["arm"] for row in rows} == {"base", *ARMS}
    for row in rows:
        at = f"{row['test_set']}/{row['strategy']}/{row['tokens_per_step']}"
        solved = Records(folder).outcomes(f"{row['arm']}/seed42")[f"{at}/solved"]
        result = json.loads((folder / row["arm"] / "seed42" / "result.json").read_text())
        assert float(row["solved"]) == pytest.approx(solved.mean(), abs=1e-6)
        assert int(row["puzzles"]) == len(solved) == 6
        assert int(row["updates"]) == result["updates"] and row["seed"] == "42" and row["strategy"] == "margin"
        assert float(row["cpu_seconds"]) == pytest.approx(result["cpu_seconds"], rel=1e-4)
        assert (row["arm"] == "base") == (float(row["cpu_seconds"]) == 0) and float(row["cpu_seconds"]) < 10
        assert row["arm"] == "base" or float(row["cpu_seconds"]) >= 0.5


def test_passes_and_differences_by_hand(tmp_path) -> None:
    """Two arms on four puzzles; a decode takes as many passes as its masked positions over k, rounded up."""
    data, name = ROOT / "data" / "sudoku6x6_test.jsonl", "sudoku6x6_test"
    kept = setting(tmp_path, eval_puzzles=4, eval_data=[str(data)], eval_tokens=[1, 4])
    masked = [sum(token == puzzle.layout.mask_id for token in puzzle.token_ids) for puzzle in kept.tests[name]]
    none, half, quarter = [0, 0, 0, 0], [1, 1, 0, 0], [1, 0, 0, 0]
    solved = {"base": (none, none), "sft": (half, quarter), "objective": ([1, 1, 1, 1], half)}
    for arm, by_k in solved.items():
        told = [evaluation(row, [9, 8, 7, 6], [10] * 4, [5] * 4) for row in by_k]
        found = {(name, "margin", k): each for k, each in zip((1, 4), told, strict=True)}
        spent = {"updates": 1, "puzzles_seen": 2, "cpu_seconds": 3.0}
        write_job(tmp_path / "run" / arm / "seed42", spent, outcomes_of(found))
    outcomes = Outcomes(kept, tmp_path / "run", [Job(arm, 42) for arm in solved])
    mean = [sum(masked) / 4, sum(-(-count // 4) for count in masked) / 4]
    assert [outcomes.passes(name, k).mean() for k in (1, 4)] == mean
    assert outcomes.difference("objective", "sft", f"{name}/margin/4/solved").mean == pytest.approx(0.25)
    text = closing_text(outcomes)
    assert re.search(r"\n− sft +\+50\.0 ± ", text)
    assert f"base not reached, sft {mean[0]:.1f}, objective ≤ {mean[1]:.1f}" in " ".join(text.split())
    rows = outcomes.long_table()
    assert rows[(rows.arm == "objective") & (rows.tokens_per_step == 4)].forward_passes.item() == mean[1]


def test_every_arm_leaves_a_model_that_was_trained_and_judged(whole, tmp_path) -> None:
    folder, _, _ = whole
    kept = setting(tmp_path)
    weights = []
    for arm in ARMS:
        model = AutoModelForMaskedLM.from_pretrained(folder / arm / "seed42" / "model")
        weights.append(float(model.model.transformer.blocks[0].q_proj.weight.detach().abs().sum()))
        at, solved = next(iter(Records(folder).outcomes(f"{arm}/seed42").items()))
        name, how, k, _ = at.split("/")
        how = Decoding(how, tokens_per_step=int(k), on_error="end")
        again = evaluate(model, kept.tests[name], kept.judged_as, how)
        assert how.strategy == "margin"
        np.testing.assert_array_equal(solved, again.solved)
    assert len(set(weights)) == len(ARMS)
    with Image.open(folder / "decode.gif") as picture:
        assert picture.n_frames > 1  # a decode that errs, as after so short a training, ends there
    with Image.open(folder / "solved.png") as picture:
        assert picture.width > 800
    assert (folder / "decode.gif").read_bytes() == (folder / "objective" / "seed42" / "decode.gif").read_bytes()
    assert list(folder.rglob("events.out.tfevents.*"))
    card = ModelCard.load(folder / "objective" / "seed42" / "model" / "README.md")
    figures = {(each.dataset_name, each.metric_name): each.metric_value for each in card.data.eval_results}
    solved = Records(folder).outcomes("objective/seed42")["sudoku6x6_test/margin/1/solved"]
    told = figures["sudoku6x6_test", "solved by margin, 1 a step"]
    assert told == pytest.approx(100 * solved.mean(), abs=0.05)
    data = page_data(folder / "report.html")
    assert [row[0] for row in data["tables"][0]["rows"]] == ["base", *ARMS] and len(data["replays"]) >= 2
    assert data["tables"][0]["header"][-1] == "definite cells first"
    shown, name = data["replays"][0]["title"].split(":")[0].split(", ")
    solved = [row for row in rows_of(folder) if (row["test_set"], row["tokens_per_step"]) == (name, "1")]
    rates = {row["arm"]: float(row["solved"]) for row in solved if row["arm"] != "base"}
    assert rates[shown] == max(rates.values())
    assert set(data["curves"][0]["lines"]) == set(ARMS) and data["facts"]["seeds"] == "42"
    assert not re.findall(r"[\"' =]/\w[^\"' ]*/", json.dumps(data)) and data["arguments"]["output_dir"] == folder.name


def test_what_the_arms_are(tmp_path) -> None:
    kept = setting(tmp_path, ce_weight=0.7, state_fraction=1.0)
    trainers = {arm: new_trainer(kept, arm, tmp_path / arm) for arm in ("ce", "placebo", "objective")}
    shared = {"tokens_per_step", "ce_weight", "position_temperature", "per_device_train_batch_size", "f_form"}
    for arm, trainer in trainers.items():
        assert type(trainer.task) is (PlaceboTask if arm == "placebo" else SudokuTask)
        assert (trainer.args.f_weight, trainer.args.ce_on) == ((0.0, "masked") if arm == "ce" else (1.0, "definite"))
        assert all(getattr(trainer.args, name) == getattr(kept.args, name) for name in shared)
        assert trainer.args.seed == 3 and trainer.args.policy_weight == 0
        assert trainer.args.learning_rate == (4e-3 if arm == "objective" else 1e-3)
    for arm, counted, rate in (("sft", "masked", 3e-4), ("sft_definite", "definite", 4e-3)):
        args = new_trainer(kept, arm, tmp_path / arm).args
        assert (args.ce_on, args.learning_rate, args.per_device_train_batch_size, args.seed) == (counted, rate, 128, 3)


def test_images_are_trained_on(tmp_path) -> None:
    kept = setting(tmp_path, images=4, symmetries="digits")
    boards = np.stack([puzzle.layout.puzzle for puzzle in kept.train])
    assert boards.shape == (48, 36)
    np.testing.assert_array_equal(boards > 0, np.tile(boards[:12] > 0, (4, 1)))
    assert not np.array_equal(boards[12:24], boards[:12])


def test_the_plan_says_how_long_its_updates_take(counted, tmp_path) -> None:
    whole, few = (Labels(setting(tmp_path, max_steps=count, jobs=0)) for count in (UPDATES["objective"], 4))
    assert {arm: dict(whole.stages(arm))[arm] for arm in ARMS} == {arm: Budget("steps", UPDATES[arm]) for arm in ARMS}
    job = [Job("objective", 42)]
    assert "about 2 minutes on" in whole.plan(job, job)  # 70 seconds, and a moment for 12 decodes of each set
    assert "about 1 minute on" in few.plan(job, job) and "about" not in few.plan(job, [])
    assert json.loads((counted / "objective" / "seed42" / "result.json").read_text())["updates"] == 4


def test_metrics_and_curve(counted) -> None:
    folder = counted / "objective" / "seed42"
    metrics = lines(folder / "metrics.jsonl")
    for name in ("position_entropy", "greedy_definite", "position_top_prob", "solved", "approx_kl"):
        assert sum(name in line for line in metrics) >= 4 or name == "greedy_definite"
    assert [line["share"] for line in lines(folder / "curve.jsonl")] == [0.5, 1.0]
    assert json.loads((counted / "arguments.json").read_text())["num_generations"] == 2


def test_a_run_that_was_killed_goes_on_to_the_same_weights(counted, tmp_path, monkeypatch, capsys) -> None:
    run = tmp_path / "run"
    options = {**COUNTED, "output_dir": run}
    run_until_checkpoint(monkeypatch, "objective/seed42/checkpoint-2", "train_sudoku.py", **options)
    assert not (run / "table.csv").exists() and (run / "base" / "seed42" / "result.json").exists()
    run_here(monkeypatch, "train_sudoku.py", **options, resume_from_checkpoint="last")
    said = capsys.readouterr().out
    assert "1 of 2 results are there already." in said
    assert re.search(r"objective +4 updates  objective: log f", said)
    first, second = (load_file(each / "objective/seed42/model/model.safetensors") for each in (counted, run))
    assert all(torch.equal(first[name], second[name]) for name in first)
    for name in ("metrics.jsonl", "curve.jsonl"):
        one, other = (timeless(lines(each / "objective" / "seed42" / name)) for each in (counted, run))
        assert one == other
    assert timeless(rows_of(counted)) == timeless(rows_of(run))


def test_an_ended_run_prints_its_table_again_and_takes_another_arm(counted, tmp_path, monkeypatch, capsys) -> None:
    run = tmp_path / "run"
    shutil.copytree(counted, run)
    trained = (run / "objective/seed42/model/model.safetensors").stat().st_mtime_ns
    options = {**COUNTED, "output_dir": run, "resume_from_checkpoint": "last"}
    run_here(monkeypatch, "train_sudoku.py", **options)
    assert (run / "table.csv").read_bytes() == (counted / "table.csv").read_bytes()
    assert "2 of 2 results are there already." in capsys.readouterr().out
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipe.yaml").write_text("arms: [sft, objective]\n")
    del options["arms"]
    run_here(monkeypatch, "train_sudoku.py", "recipe.yaml", **options)
    assert {row["arm"] for row in rows_of(run)} == {"base", "sft", "objective"}
    assert (run / "objective/seed42/model/model.safetensors").stat().st_mtime_ns == trained
    with pytest.raises(SystemExit, match="2"):
        run_here(monkeypatch, "train_sudoku.py", **{**options, "max_puzzles": 11}, arms="objective")
    assert "max_puzzles was 12 and is 11; give the same, or a new folder" in capsys.readouterr().err


def test_an_arm_that_fails_is_named_and_its_log_kept(tmp_path) -> None:
    words = {**TINY, **LABELED, "train_seconds": 1, "jobs": 1, "arms": "sft", "rates": "sft=1e9"}
    process = start(SCRIPT, tmp_path / "run", **words)
    output, errors = process.communicate(timeout=300)
    folder = tmp_path / "run/sft/seed42"
    assert process.returncode == 2 and "1 of 2 did not finish" in errors and "Traceback" not in errors
    assert re.search(r"failed with status 1: FloatingPointError: the loss is .* lower the learning rate", output)
    assert f"({folder / 'log.txt'})" in output and "failed_step" in (folder / "log.txt").read_text()
    assert f"--output_dir {tmp_path / 'run'}" in errors and errors.rstrip().endswith("--resume_from_checkpoint last")


def test_an_arm_whose_only_checkpoint_is_damaged_says_how_it_begins_anew(tmp_path, capsys) -> None:
    """What its log ends with is what is printed; doing what it says helps."""
    trial, folder = Labels(setting(tmp_path, save_steps=1)), tmp_path / "sft"

    def train(resume: bool) -> dict[str, Any]:
        model, budget = trial.start(42, folder), Budget("steps", 1)
        return trial.trained(Job("sft", 42), model, folder, budget, lambda share: None, resume)[1]

    train(False)
    (folder / "checkpoint-1" / "optimizer.pt").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"delete its checkpoint-\* folders, and resuming begins it anew"):
        train(True)
    shutil.rmtree(folder / "checkpoint-1")
    assert train(True)["updates"] == 1 and (folder / "checkpoint-1" / "optimizer.pt").stat().st_size > 0


@pytest.mark.slow
def test_ctrl_c_ends_with_the_command_that_goes_on(tmp_path) -> None:
    run = tmp_path / "run"
    words = {**TINY, **LABELED, "train_seconds": 500, "jobs": 1, "arms": "sft"}
    process = start(SCRIPT, run, fresh=True, **words)
    until = time.monotonic() + 200
    while not list((run / "sft" / "seed42").glob("checkpoint-*")) and time.monotonic() < until:
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in errors
    assert "stopped. What ended is kept" in errors
    assert f"--output_dir {run}" in errors and errors.rstrip().endswith("--resume_from_checkpoint last")
    assert list((run / "sft" / "seed42").glob("checkpoint-*"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--arms", "rl"], "arms=['rl'] are unknown; use some of sft"),
        (["--lr_scheduler_type", "linear"], "the rate follows the budget of an arm; set warmup_share and decay_share"),
        (["--warmup_steps", "10"], "set warmup_share and decay_share"),
        (["--seeds", "1", "1"], "seeds=[1, 1] must name at least one, and none twice"),
        (["--strategies", "best"], "'best' is unknown"),
        (["--eval_tokens", "0"], "eval_tokens=0 must be at least 1"),
        (["--train_seconds", "0"], "train_seconds=0.0 must be positive and finite"),
        (["--train_seconds", "nan"], "train_seconds=nan must be positive and finite"),
        (["--max_steps", "0"], "max_steps=0 must be at least 1"),
        (["--max_steps", "2", "--train_seconds", "9"], "--max_steps and --train_seconds exclude each other; give one"),
        (["--learning_rate", "-1"], "learning_rate=-1.0 must be a finite number, 0 or larger"),
        (["--learning_rate", "nan"], "learning_rate=nan must be a finite number, 0 or larger"),
        (["--sft_learning_rate", "inf"], "sft_learning_rate=inf must be a finite number, 0 or larger"),
        (["--rates", "sft=nan"], "--rates sft=nan: give ARM=RATE"),
        (["--weight_decay", "-0.1"], "weight_decay=-0.1 must be a finite number, 0 or larger"),
        (["--max_grad_norm", "nan"], "max_grad_norm=nan must be a finite number, 0 or larger"),
        (["--seeds", "-1"], "seeds=-1 must be a whole number from 0 to 4294967295"),
        (["--seed", "-1"], "seed=-1 must be a whole number from 0 to 4294967295"),
        (["--resume_from_checkpoint", "runs/x/checkpoint-2"], "a run is resumed as a whole: give last"),
        (["--num_generations", "0"], "num_generations=0"),
        (["--arms", "sft", "--learning_rate", "3"], "--learning_rate does nothing in sft: give --rates sft=RATE"),
        (["--arms", "sft", "--ce_weight", "9"], "--ce_weight does nothing in sft: add an arm by roll-outs"),
        (["--arms", "ce", "--control_batch_size", "3"], "nothing in ce: set per_device_train_batch_size, or leave"),
        (["--seeds", "1", "--seed", "5"], "--seed does nothing beside --seeds: name it there"),
        (["--resume_with_changes", "True"], "does nothing in a comparison, one for all arms: take a new output_dir"),
        (["misspelt.yaml"], "learning_rat is unknown; did you mean learning_rate?"),
        (HELD_OUT, "--eval_data: sudoku6x6_train: 6 of 6 solution grids occur in training"),
    ],
)
def test_bad_arguments_end_with_a_sentence(words, message, tmp_path, monkeypatch, capsys) -> None:
    (tmp_path / "misspelt.yaml").write_text("learning_rat: 1e-4\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        run_here(monkeypatch, "train_sudoku.py", "--setting", "labels", *words, "--output_dir", tmp_path / "run")
    assert message in capsys.readouterr().err and not (tmp_path / "run").exists()
