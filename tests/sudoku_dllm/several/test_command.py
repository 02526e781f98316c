"""The comparison on boards with several right answers as a user runs it, with tiny counts."""

import csv
import json
import math
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from huggingface_hub import ModelCard
from safetensors.torch import load_file

from dllm_rl.policy import PolicyConfig
from dllm_rl.terms.objective import ObjectiveConfig
from dllm_rl.training.arguments import UnmaskArguments
from llm_rl.training.budget import Budget
from llm_rl.training.command_line import parse
from sudoku_dllm.__main__ import SETTINGS
from sudoku_dllm.run_page.page import read_replays
from sudoku_dllm.several.arguments import AFTER_LABEL, ARMS, UPDATES, RecipeArguments, ScriptArguments
from sudoku_dllm.several.arms import Several
from sudoku_dllm.several.judging import are_valid
from sudoku_dllm.several.report import TITLES
from sudoku_dllm.several.setting import Setting
from sudoku_dllm.trials.jobs import Job
from sudoku_dllm.trials.training import new_model, source_arguments
from sudoku_env.solver import completable, solve_batch
from tests.helpers.refusals import refused
from tests.helpers.warm_process import ROOT
from tests.scripts.helpers.in_process import run_here

SMALL = {"boards": 40, "test_boards": 6, "draws": 3, "control_batch_size": 4}
RUN = {**SMALL, "per_device_train_batch_size": 2, "judged_draws": 4, "jobs": 0, "logging_steps": 1, "max_steps": 3}
RUN |= {"arms": ARMS, "eval_tokens": [4, 18], "clues": [5, 8]}


def setting(tmp_path: Path, **options: Any) -> Setting:
    names = {name for name in ScriptArguments.__dataclass_fields__ if name in options}
    script = ScriptArguments(**{**SMALL, **{name: options.pop(name) for name in names}})
    recipe = {"output_dir": str(tmp_path), "use_cpu": True, "report_to": "none", "disable_tqdm": True, **options}
    return Setting.load(script, RecipeArguments(**recipe))


def new_trainer(found: Setting, arm: str, folder: Path, model: Any = None) -> Any:
    """The trainer of an arm with seed 0, by default of the base."""
    return Several(found).trainer(arm, model or new_model(found.script, found.args, 0), 0, folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All arms with a few updates, one after the other in this process."""
    folder = tmp_path_factory.mktemp("several") / "run"
    with pytest.MonkeyPatch.context() as patch:
        run_here(patch, "train_sudoku.py", **RUN, output_dir=folder)
    return folder


def test_every_arm_is_trained_and_judged(folder) -> None:
    with (folder / "table.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["arm"] for row in rows} == {"base", *ARMS} and len(rows) == (1 + len(ARMS)) * (2 + 3 + 3)
    updates = {"base": 0} | {arm: max(1, round(3 * UPDATES[arm] / UPDATES["judged"])) for arm in ARMS}
    for arm, parts in Several.STAGES.items():  # half of what each would have alone, up to whole updates
        updates[arm] = sum(math.ceil(max(1, round(3 * UPDATES[part] / UPDATES["judged"])) / 2) for part in parts)
    assert all(int(row["updates"]) == updates[row["arm"]] for row in rows)
    at_four = [row for row in rows if row["cells_a_pass"] == "4"]
    assert {row["guard"] for row in at_four} == {"none", "rules", "completable"}
    assert all(float(row["valid"]) == 1 for row in rows if row["guard"] == "completable")
    assert all((float(row["checks"]) > 0) == (row["guard"] != "none") for row in rows)
    assert (folder / "valid.png").stat().st_size
    replays = read_replays(folder / "report.html")  # of the best arm, then two of the start with the solver
    ends = [one.title.endswith("solved") for one in replays]
    assert ends == are_valid(np.array([one.boards[-1] for one in replays])).tolist() and ends[-2:] == [True, True]
    for arm in ARMS:
        result = json.loads((folder / arm / "seed42" / "result.json").read_text())
        assert result["updates"] == updates[arm] and 0 <= result["empty_board"]["valid"] <= 1
        assert (folder / arm / "seed42" / "model" / "model.safetensors").is_file()
        card = ModelCard.load(folder / arm / "seed42" / "model" / "README.md")
        assert [round(one.metric_value, 1) for one in card.data.eval_results] == [
            round(100 * float(row["valid"]), 1) for row in rows if row["arm"] == arm and row["guard"] == "none"
        ]
        assert TITLES[arm] in card.text and f"arm `{arm}`" in card.text


def test_an_ended_run_prints_its_tables_again(folder, monkeypatch, capsys) -> None:
    run_here(monkeypatch, "train_sudoku.py", **RUN, output_dir=folder, resume_from_checkpoint="last")
    output = capsys.readouterr().out
    assert f"{1 + len(ARMS)} of {1 + len(ARMS)} results are there already" in output
    plan, shown = output.split("Per cent of 6 held-out boards completed validly", 1)
    for arm in ARMS:
        assert f"\n  {arm} " in plan and TITLES[arm] in plan and f"\n{TITLES[arm]} " in shown
    assert all(len(line) <= 100 for line in shown.splitlines()[:-4]) and "With a check nothing need be trained" in shown
    of = r"[\d.e-]+ to [\d.e-]+"
    seen = f"\nsource, seed 42, .*clip_frac {of}, position_entropy {of}, .*position_top_prob {of}\nSeed 42."
    assert re.search(seen, shown)


def test_the_page_has_a_table_for_each_check_the_leads_and_what_passes_are_like(folder) -> None:
    data = re.search(r'id="data">(.*?)</script>', (folder / "report.html").read_text())
    tables = {table["title"]: table for table in json.loads(data[1])["tables"]}
    by_check = ("No check at decoding", "The rules at decoding", "The solver at decoding")
    passes = "Passes of 4 cells, no check at decoding"
    assert list(tables) == [*by_check, "Differences in points, no check at decoding", passes]
    for title in (*by_check, passes):
        table = tables[title]
        assert {row[0] for row in table["rows"]} >= {TITLES[arm] for arm in ("base", *ARMS)}
        assert {len(row) for row in table["rows"]} == {len(table["header"])}


def test_no_board_that_is_held_out_is_trained_on(tmp_path) -> None:
    """With one clue there are 216 boards, so that most of those held out are drawn again."""
    found = setting(tmp_path, clues=[1, 1], boards=400, test_boards=50)
    tests, (boards, grids) = found.test_boards(), found.training_boards(0)
    assert 0 < len(boards) < 400 and not {board.tobytes() for board in boards} & {board.tobytes() for board in tests}
    assert ((boards == 0) | (boards == grids)).all() and completable(grids).all()
    assert not np.array_equal(boards[:10], found.training_boards(1)[0][:10])


def test_a_share_of_the_boards_has_one_answer(tmp_path) -> None:
    """Those with several are the first of those that there would be without."""
    boards, grids = setting(tmp_path, one_answer=0.25).training_boards(0)
    solved, counts = solve_batch(boards, limit=2)
    assert np.array_equal(boards[:30], setting(tmp_path).training_boards(0)[0][:30]) and not (counts[:30] == 1).all()
    assert np.array_equal(solved[30:], grids[30:]) and (counts[30:] == 1).all()
    refused("one_answer=1.5 must be a share", lambda: setting(tmp_path, one_answer=1.5))


def test_labels_complete_their_boards(tmp_path) -> None:
    """And are what the model is asked to write."""
    found = setting(tmp_path)
    for arm in ("sft", "sft_canonical", "sft_least", "sft_own"):
        problems = new_trainer(found, arm, tmp_path / arm).train_dataset.problems
        boards, answers = problems.boards(problems.responses), problems.boards(problems.answers)
        assert ((boards == 0) | (boards == answers)).all() and (answers > 0).all() and completable(answers).all()


def test_adapters_precision_and_checkpointing_act_in_every_arm(tmp_path) -> None:
    """Of a label, of judged decisions, and of the second stage, which goes on with the first one's adapters."""
    found = setting(tmp_path, lora_r=2, bf16=True, gradient_checkpointing=True)
    first = new_trainer(found, "sft_least", tmp_path / "first")
    for trainer in (first, *(new_trainer(found, arm, tmp_path / arm) for arm in ("judged", "imitation", "kept")),
                    new_trainer(found, AFTER_LABEL, tmp_path / "after", first.model)):  # fmt: skip
        assert trainer.args.bf16 and trainer.args.gradient_checkpointing
        names = [name for name, weight in trainer.model.named_parameters() if weight.requires_grad]
        assert names and all(".lora_" in name for name in names)
    run = Several(setting(tmp_path, lora_r=2, max_steps=2, eval_tokens=[9], draws=2))
    folder = tmp_path / "run" / "judged"
    run.run(Job("judged", 0), folder, resume=False, training=lambda share: None, judging=lambda share: None)
    assert (folder / "model" / "adapter_model.safetensors").is_file()
    assert not (folder / "model" / "model.safetensors").exists()


def test_a_run_goes_on_with_fewer_arms_and_the_options_of_all() -> None:
    """Arms may be others when it is resumed, all other options must be those that it began with."""
    began = ScriptArguments(arms=["sft", "sft_own", "policy_gradient"], rates=["sft_own=7e-4"])
    assert ScriptArguments(**{**vars(began), "arms": ["sft"]}).rates == ["sft_own=7e-4"]


def test_the_policy_gradient_sees_as_many_trajectories(tmp_path) -> None:
    args = new_trainer(setting(tmp_path), "policy_gradient", tmp_path / "pg").args
    assert (args.policy_weight, args.judged_weight) == (1.0, 0.0)
    assert args.per_device_train_batch_size * args.num_generations == RecipeArguments.per_device_train_batch_size


def test_the_arm_of_the_source_has_the_defaults_of_the_library_and_what_is_told(tmp_path) -> None:
    options = {"arms": ["source"], "lam": 0.25, "judged_draws": 4, "rl_learning_rate": 1e-5, "sft_learning_rate": 2e-3}
    told = Several(setting(tmp_path, **options))
    for kept, changes in ((setting(tmp_path), {}), (told.setting, {"lam": 0.25})):
        args = new_trainer(kept, "source", tmp_path / "source").args
        assert args.objective_config() == ObjectiveConfig(**changes) and args.policy_config(1.0) == PolicyConfig()
        assert (args.num_generations, args.tokens_per_step, args.on_error) == (8, 1, "end")
        assert args.per_device_train_batch_size * 8 == RecipeArguments.per_device_train_batch_size
    assert args.rates == (1e-5, 2e-3)
    with pytest.raises(ValueError, match=r"sft_learning_rate=0\.002 does nothing without its terms"):
        Several(setting(tmp_path, **{**options, "arms": ["judged"]}))
    told.args.told |= {"num_generations"}  # the recipe's 1
    refused("num_generations=1 with policy_weight=", lambda: Several(told.setting))


@pytest.mark.parametrize("module", SETTINGS.values())
def test_the_recipe_of_the_source_has_the_defaults_of_the_library(module, tmp_path, monkeypatch) -> None:
    """What is told holds for the arm even where it is the default of other arms' recipe."""
    path, command = ROOT / "configs" / "source.yaml", import_module(module)
    values = yaml.safe_load(path.read_text())
    assert values.pop("arms") == ["source"]
    assert values == {name: getattr(UnmaskArguments, name) for name in values}
    monkeypatch.setattr("sys.argv", ["train", str(path), "--token_temperature", "1.0"])  # of the recipe of one setting
    _, args = parse(command.ScriptArguments, command.RecipeArguments)
    found = source_arguments(args, 0, tmp_path, 1e-4)
    assert values.keys() <= args.told and found.token_temperature == 1
    assert found.per_device_train_batch_size * 8 == args.per_device_train_batch_size


def test_budgets_are_updates_in_one_proportion_or_equal_times(tmp_path) -> None:
    whole, half = (Several(setting(tmp_path, max_steps=UPDATES["judged"] // part)) for part in (1, 2))
    timed = Several(setting(tmp_path, train_seconds=2.5))
    assert whole.stages("base") == []
    for arm in set(ARMS) - set(Several.STAGES):
        for found, share in ((whole, 1.0), (half, 0.5)):
            ((name, budget),) = found.stages(arm)
            assert name == arm and abs(budget.amount - UPDATES[arm] * share) <= 1
        assert timed.stages(arm) == [(arm, Budget("cpu_seconds", 2.5))]
    assert whole.stages(AFTER_LABEL) == [
        ("sft_least", Budget("steps", UPDATES["sft_least"] / 2)),
        (AFTER_LABEL, Budget("steps", UPDATES["judged"] / 2)),
    ]
    assert [budget.amount for _, budget in timed.stages(AFTER_LABEL)] == [1.25, 1.25]
    assert Several(setting(tmp_path, max_steps=1)).stages("sft_least")[0][1].amount == 1


def test_the_second_stage_begins_where_the_label_ended(tmp_path) -> None:
    """With a rate of 0 in it, its model is that of the first; the result counts what both spent."""
    found = setting(tmp_path, max_steps=10, rates=[f"{AFTER_LABEL}=1e-12"], per_device_train_batch_size=2)
    (folder := tmp_path / "job").mkdir()
    shares: list[float] = []
    run = Several(found).run
    run(Job(AFTER_LABEL, 1), folder, resume=False, training=shares.append, judging=lambda share: None)
    label, last = (load_file(path / "model" / "model.safetensors") for path in (folder / "sft_least", folder))
    base = new_model(found.script, found.args, 1).state_dict()
    assert all(torch.allclose(label[name], last[name], atol=1e-8) for name in label)
    assert any(not torch.allclose(label[name], base[name], atol=1e-6) for name in label)
    assert shares == sorted(shares) and shares[-1] == 1.0
    spent = json.loads((folder / "result.json").read_text())
    assert spent["updates"] == 2 + 5 and spent["puzzles_seen"] > 0
