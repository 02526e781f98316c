"""A whole 4×4 study in one process: training, results, comparisons and the report."""

import json
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from transformers import AutoModelForMaskedLM

from dllm_rl.decoding import Decoding, decode
from dllm_rl.sudoku import PuzzleBatch, SudokuTask
from dllm_rl.training.trainer import UnmaskTrainer
from llm_rl.training.budget import Budget
from scripts.study.arm import ArmRun
from scripts.study.config import BASE, EVERY_CELL, Regime, StudyConfigError, load_study
from scripts.study.report import write_report
from scripts.study.results import RegimeResults, by_tokens, checked_result, jobs, order, sweeps, ways
from sudoku_dllm.placebo import PlaceboTask
from sudoku_dllm.trials.jobs import Job
from sudoku_dllm.trials.record import Records, job_name
from sudoku_env.errors import SudokuError
from sudoku_env.grids import canonical_grid
from sudoku_env.order import ladder_rounds
from sudoku_env.prompts.text import build_prompt, parse_puzzle
from sudoku_env.prompts.tokens import pre_fill
from sudoku_env.puzzles import default_puzzles, read_prompts
from tests.dllm_rl.helpers.tiny_training import tokenizer
from tests.scripts.helpers.tiny_study import regime, write_data, write_study

LABELS = ["margin", "policy", "margin k=3", "margin ≥1"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("study")
    write_data(path)
    write_study(path / "study.yaml", tiny=regime(path))
    return path


@pytest.fixture(scope="module")
def tiny(folder: Path) -> Regime:
    return load_study(folder / "study.yaml")[0]["tiny"]


@pytest.fixture(scope="module")
def results(folder: Path, tiny: Regime) -> RegimeResults:
    records = Records(folder / "runs")
    for arm, seed in jobs(tiny):
        budget = None
        if arm != BASE:
            spec = tiny.arms[arm].budget
            lent = spec.same_as and checked_result(
                records, job_name("tiny", spec.same_as, seed=seed), tiny.settings(spec.same_as)
            )
            budget = spec.resolve(lent or None)
        ArmRun(tiny, arm, seed, records.folder / job_name("tiny", arm, seed=seed)).run(budget)
    return RegimeResults(records, "tiny", tiny)


def test_budgets_are_kept(results: RegimeResults) -> None:
    for seed in (0, 1):
        rl, ce, sft = (results.results[Job(arm, seed)] for arm in ("rl", "ce", "sft"))
        assert rl["updates"] == 4 and rl["puzzles_seen"] == 16
        assert ce["cpu_seconds"] >= 0.2 and ce["puzzles_seen"] == -(-ce["updates"] // 2) * 4
        assert sft["budget"] == {"by": "puzzles", "amount": 16} and sft["updates"] == 2
        assert 0 < rl["distinct_states"] <= 1 and sft["distinct_states"] is None
        assert [share for share, _ in rl["validations"]] == [0.5, 1.0]
    assert results.seeds("base") == [0] and results.each("base")[0]["cpu_seconds"] == 0


def test_outcomes_are_those_of_the_model_that_was_kept(folder: Path, results: RegimeResults) -> None:
    names = tokenizer()
    prompts = read_prompts(folder / "hard_test.jsonl")
    batch = PuzzleBatch.collate([pre_fill(prompt, names, 19) for prompt in prompts], pad_id=names.pad_token_id)
    model = AutoModelForMaskedLM.from_pretrained(folder / "runs/tiny/ce/seed1/model")
    record = decode(model, batch, Decoding("margin", tokens_per_step=3))
    solved = (torch.where(batch.judged[0], record.responses, 0) == torch.where(batch.judged[0], batch.answers, 0)).all(
        1
    )
    kept = results.outcomes[Job("ce", 1)]
    np.testing.assert_array_equal(kept["hard_test/margin k=3/solved"], solved.numpy())
    np.testing.assert_array_equal(kept["hard_test/margin k=3/forward_passes"], record.forward_passes.numpy())
    summary = results.results[Job("ce", 1)]["sets"]["hard_test"]["decodings"]["margin k=3"]
    assert summary["solved"] == pytest.approx(float(solved.double().mean()))
    assert list(results.results[Job("rl", 0)]["sets"]["test"]["decodings"]) == LABELS
    assert 0 < results.figure("base", "test", "margin", "solved") < 1


def test_seeds_and_arms_are_different_models(folder: Path, results: RegimeResults) -> None:
    runs = folder / "runs" / "tiny"
    base, *trained = (
        load_file(path)["model.transformer.blocks.0.q_proj.weight"].numpy().tobytes()
        for path in (
            folder / "base" / "model.safetensors",
            *(runs / arm / f"seed{seed}/model/model.safetensors" for arm in ("rl", "sft") for seed in (0, 1)),
        )
    )
    moved = [each for each in trained if each != base]  # a model whose best point is the start is the base
    assert moved and len(set(moved)) == len(moved)
    lines = (runs / "rl" / "seed0" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(lines[-1])["step"] == 4


def test_arms_are_compared_with_controls_reference_and_base(results: RegimeResults) -> None:
    pairs = [("rl", "ce"), ("rl", "sft"), ("rl", "base"), ("ce", "base"), ("sft", "ce"), ("sft", "base")]
    assert results.reference == "ce" and list(results.pairs()) == pairs
    assert results.rate("base", "test/margin/solved").seeds is None
    ((name, each),) = sweeps(results.regime).items()
    assert name == "margin by tokens per step" and [one.label for one in each] == ["margin", "margin k=3"]
    common, (passes, found), (beyond, nothing) = results.sweep_differences("rl", "base", "test", each)
    assert isinstance(common[0], tuple) and common[1] is not None
    assert passes == 4 and found is not None and (beyond, nothing) == (100, None)


def test_every_arm_and_control_is_compared_with_the_reference_once(results: RegimeResults) -> None:
    def pairs(reference: str) -> list[tuple[str, str]]:
        other = copy(results)
        other.regime = replace(results.regime, reference=reference)
        return list(other.pairs())

    against_base = [("ce", "base"), ("sft", "base")]
    assert pairs("sft") == [("rl", "ce"), ("rl", "sft"), ("rl", "base"), ("ce", "sft"), *against_base]
    for reference in ("rl", "base"):
        assert pairs(reference) == [("rl", "ce"), ("rl", "sft"), ("rl", "base"), *against_base]
    alone = copy(results)
    alone.arms = [arm for arm in results.arms if arm != "ce"]
    assert alone.reference is None and list(alone.pairs()) == [("rl", "sft"), ("rl", "base"), ("sft", "base")]


def test_the_hard_tail_is_the_puzzles_with_most_rounds(folder: Path, results: RegimeResults) -> None:
    hard, fewest = results.hardest(0.4)
    boards = [parse_puzzle(prompt) for prompt in read_prompts(folder / "test.jsonl")]
    rounds = [int(np.nanmax(ladder_rounds(board[None]))) + 1 for board in boards]
    every = results.outcomes[Job("rl", 1)]["test/margin/solved"]
    kept = sorted(sorted(range(len(boards)), key=lambda row: (-rounds[row], row))[: round(0.4 * len(boards))])
    assert hard.outcomes[Job("rl", 1)]["test/margin/solved"].tolist() == every[kept].tolist()
    assert fewest == min(rounds[row] for row in kept) and 0 < len(kept) < len(boards)


def test_the_report(folder: Path, results: RegimeResults) -> None:
    path = folder / "docs" / "results.md"
    empty = RegimeResults(Records(folder / "none"), "later", results.regime)
    write_report([results, empty], path, remarks="First.", command="python study")
    text = path.read_text(encoding="utf-8")
    for part in (
        "First.",
        "What was *found*.",
        "## tiny",
        "## later",
        "Not run yet.",
        "#### Differences, hard test",
        "#### The hard tail",
        "### Passes for the solve rate of ce at one token a step\n",
    ):
        assert part in text

    def rows(title: str) -> list[list[str]]:
        section = text.split(f"## {title}\n")[1].split("\n##")[0]
        lines = [line for line in section.splitlines() if line.startswith("|")]
        return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]

    lead = {row[0]: row[1:] for row in rows("Solved")}
    assert list(lead) == ["base", "rl", "ce", "sft"] and text.index("## Solved\n") < text.index("<details>")
    # Tokens per step 1 and 3 on each of the two sets, but by margin alone and without the threshold.
    assert lead["ce"] == [
        f"{100 * results.rate('ce', f'{puzzles}/{label}/solved').mean:.1f}"
        for puzzles in ("test", "hard_test")
        for label in ("margin", "margin k=3")
    ]
    gap = results.difference("sft", "ce", "hard_test/margin k=3/solved")
    solved, difference = lead["sft"][3].split("<br>")
    assert solved == f"{100 * results.rate('sft', 'hard_test/margin k=3/solved').mean:.1f}"
    assert gap.seeds is not None and difference.replace("*", "") == (
        f"{100 * gap.mean:+.1f} [{100 * gap.puzzles[0]:+.1f}, {100 * gap.puzzles[1]:+.1f}] "
        f"[{100 * gap.seeds[0]:+.1f}, {100 * gap.seeds[1]:+.1f}]"
    )
    by_k = ways("test", by_tokens(results.regime))
    needed = results.passes_needed("ce", by_k, ("ce", "test/margin/solved"))
    at_most, *_ = (row[1] for row in rows("Passes for the solve rate of ce at one token a step") if row[0] == "ce")
    assert needed is not None and f"{needed.passes:.1f} [" in at_most
    found = results.rate("rl", "test/margin k=3/solved")
    halves = [50 * (high - low) for low, high in (found.puzzles, found.seeds or (0, 0))]
    (row,) = (row for row in rows("Solved by each decoding") if row[0] == "rl")
    assert row[3] == f"{100 * found.mean:.1f} ± {halves[0]:.1f} / ± {halves[1]:.1f}"
    assert [row[0] for row in rows("Solved by each decoding")] == ["base", "rl", "ce", "sft"]
    each = len(LABELS) + 1  # the last one is that of the order
    assert [row[0] for row in rows("Differences")][::each] == [
        "rl − ce", "rl − sft", "rl − base", "ce − base", "sft − ce", "sft − base",
    ]  # fmt: skip
    by_order = results.difference("rl", "sft", order("test", "margin"))
    pooled = [results.figure(arm, "test", "margin", "greedy_definite") for arm in ("rl", "sft")]
    assert by_order.mean == pytest.approx(pooled[0] - pooled[1])
    assert rows("Differences")[2 * each - 1][1] == "`greedy_definite`, margin"
    assert rows("Differences")[2 * each - 1][2].strip("*").startswith(f"{100 * by_order.mean:+.1f} ")
    assert [row[0] for row in rows("Room for order")] == ["margin", "margin k=3", "margin ≥1"]
    assert [row[3] == "not reached" for row in rows("At equal forward passes")] == [False, False, True] * 6
    assert [row[3] for row in rows("Cost")] == ["0", "4", rows("Cost")[2][3], "2"]
    with Image.open(folder / "docs" / "images" / "study_tiny.png") as picture:
        assert picture.width > 800


def test_results_of_other_settings_are_refused(folder: Path, results: RegimeResults) -> None:
    given: dict[str, Any] = {**regime(folder), "warmup_share": 0.2}
    other = load_study(write_study(folder / "other.yaml", tiny=given))[0]["tiny"]
    with pytest.raises(StudyConfigError, match=r"other settings \(warmup_share differ\); remove its folder"):
        RegimeResults(Records(folder / "runs"), "tiny", other)


def test_an_arm_trains_by_its_rule_and_is_judged_by_singles(
    folder: Path, tiny: Regime, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    monkeypatch.setattr(
        "scripts.study.arm.UnmaskTrainer",
        lambda model, args, problems, task: seen.append(type(task)) or UnmaskTrainer(model, args, problems, task),
    )
    arms = {"rl": replace(tiny.arms["rl"], rule=EVERY_CELL)}
    run = ArmRun(replace(tiny, arms=arms), "rl", 0, folder / "placebo")
    assert run._task() == SudokuTask(run.tokenizer.pad_token_id, run.tokenizer.eos_token_id)
    run.run(Budget("steps", 1))
    assert seen == [PlaceboTask]
    settings = json.loads((folder / "placebo" / "result.json").read_text())["settings"]
    assert settings["rule"] == EVERY_CELL and tiny.settings("rl")["rule"] == "singles"


def test_held_out_grids_in_training_are_refused(folder: Path) -> None:
    given: dict[str, Any] = {**regime(folder), "train": str(folder / "validation.jsonl")}
    leaky = load_study(write_study(folder / "leaky.yaml", tiny=given))[0]["tiny"]
    with pytest.raises(ValueError, match=r"validation: (\d+) of \1 solution grids occur in training"):
        ArmRun(leaky, "rl", 0, folder / "leaky")


def test_an_arm_needs_its_budget(folder: Path, tiny: Regime) -> None:
    with pytest.raises(ValueError, match="'rl' with budget None: the base has none, all other arms need one"):
        ArmRun(tiny, "rl", 0, folder / "none").run(None)


def test_images_of_the_prompts_are_trained_on_and_are_part_of_the_settings(folder: Path, tiny: Regime) -> None:
    # There are two classes of 4×4 grids: one to train on, so that no image is a held-out grid, and one to test.
    puzzles = default_puzzles(4)
    classes = np.array([canonical_grid(solution) for solution in puzzles.solutions])
    for number, kind in enumerate(sorted(set(classes))):
        prompts = [build_prompt(board, "compact") for board in puzzles.boards[classes == kind][:8]]
        lines = "".join(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts)
        (folder / f"class{number}.jsonl").write_text(lines, encoding="utf-8")
    one, other = (str(folder / f"class{number}.jsonl") for number in (0, 1))
    parted = replace(tiny, train=one, validation=other, test=other, hard_test=None)
    more = replace(parted, train_images=3, train_symmetries="digits")
    alone = ArmRun(parted, "sft", 0, folder / "images")
    with_images, other_seed = (ArmRun(more, "sft", seed, folder / "images") for seed in (0, 1))
    boards, images, others = (
        np.stack([puzzle.layout.puzzle for puzzle in run.train]) for run in (alone, with_images, other_seed)
    )
    assert len(boards) == 8 and len(images) == 24
    np.testing.assert_array_equal(images[:8], boards)
    np.testing.assert_array_equal(images > 0, np.tile(boards > 0, (3, 1)))
    assert not np.array_equal(images[8:], np.tile(boards, (2, 1)))
    assert not np.array_equal(images, others)
    assert tiny.settings("sft")["train_images"] == 1 and more.settings("sft")["train_images"] == 3
    wordy = folder / "wordy.jsonl"
    wordy.write_text(json.dumps({"prompt": "Please solve sudoku 4x4 1..4..1221...3.."}) + "\n", encoding="utf-8")
    with pytest.raises(SudokuError, match="images are written in template 'compact', but 1 of 1 prompts"):
        ArmRun(replace(more, train=str(wordy)), "sft", 0, folder / "images")
    with pytest.raises(ValueError, match="train_symmetries='rows' one of"):
        replace(tiny, train_symmetries="rows")
