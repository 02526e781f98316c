"""The trial on 4×4 Sudoku as a chat, as a user runs it, on a Llama of some thousand parameters or on SmolLM2."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import get_constant_schedule_with_warmup

from llm_rl.training.budget import trapezoid
from scripts.shared.smollm2 import SMOLLM2_FOLDER, default_cache_dir, smollm2_file
from scripts.smollm2 import compare
from scripts.smollm2.compare import Chat, CompareArguments
from scripts.smollm2.raro import RaroTrialArguments
from scripts.smollm2.start import LORA
from sudoku_dllm.trials import Records
from sudoku_dllm.trials.jobs import Job
from tests.helpers.warm_process import run_script
from tests.scripts.smollm2.scripted import Scripted

SCRIPT = Path(__file__).parents[3] / "scripts" / "smollm2" / "compare.py"
SMALL = {"train_rows": 8, "test_rows": 6, "sft_steps": 3, "sft_batch_size": 2, "completions": 4, "num_generations": 2}


def why_without_smollm2() -> str:
    """Empty where SmolLM2 is in the cache or can be written there."""
    try:
        (default_cache_dir() / SMOLLM2_FOLDER).is_dir() or smollm2_file()
    except ImportError as error:
        return str(error)
    return ""


MISSING = why_without_smollm2()


def run(folder: Path, *words: Any, **options: Any) -> str:
    """Run the trial in one process; what it prints."""
    words = [*words, *(word for name, value in options.items() for word in (f"--{name}", value))]
    done = run_script(SCRIPT, [*words, "--jobs", "0", "--output_dir", folder], timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def chat(base: Path, folder: Path) -> Chat:
    return Chat(CompareArguments(model=str(base), output_dir=str(folder), max_steps=2, **SMALL))


def packed(board: str) -> str:
    """A line for each row."""
    return "\n".join(board[start : start + 4] for start in range(0, 16, 4))


@pytest.fixture(scope="module")
def one_step(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run folder of one update of each arm, in which the rate is still 0."""
    folder = tmp_path_factory.mktemp("one_step")
    run(folder, "--seeds", "0", "1", model=base, max_steps=1, **SMALL)
    return folder


def test_arms_of_a_seed_begin_with_its_start(one_step: Path) -> None:
    records = Records(one_step)
    assert len(records.jobs()) == 2 * (1 + len(Chat.ARMS))
    for seed in (0, 1):
        start, outcomes = records.result(f"start/seed{seed}"), records.outcomes(f"start/seed{seed}")
        assert start is not None and start["updates"] == 0
        for arm in Chat.ARMS:
            result, found = records.result(f"{arm}/seed{seed}"), records.outcomes(f"{arm}/seed{seed}")
            assert result is not None and result["updates"] == 1
            assert {name: result[name] for name in Chat.FIGURES} == {name: start[name] for name in Chat.FIGURES}
            assert all(np.array_equal(found[name], values) for name, values in outcomes.items())


def test_the_start_is_the_base_with_merged_adapters(base: Path, one_step: Path) -> None:
    """A start differs from the base in adapted matrices alone, there by matrices of the adapters' rank."""
    before = load_file(base / "model.safetensors")
    starts = [load_file(one_step / "start" / f"seed{seed}" / "model" / "model.safetensors") for seed in (0, 1)]
    for after in starts:
        assert after.keys() == before.keys()
        for name, weight in after.items():
            if name.split(".")[-2] in LORA["target_modules"]:
                values = torch.linalg.svdvals((weight - before[name]).double())
                assert values[0] > 1e-4 and values[LORA["r"] :].max() < 1e-5 * values[0].clamp(min=1)
            else:
                assert torch.equal(weight, before[name])
    assert any(not torch.equal(starts[0][name], starts[1][name]) for name in before)


def test_an_arm_trains_adapters_on_the_model_that_is_judged(base: Path, tmp_path: Path) -> None:
    trial, ids = chat(base, tmp_path), torch.arange(5)[None]
    model = trial.load(base)
    kept = {name: weight.clone() for name, weight in model.state_dict().items()}
    before = model(ids).logits
    _, spent = trial.trained(Job("more", 0), model, tmp_path, trial.args.budget, lambda share: None, resume=False)
    assert spent["updates"] == 2
    assert not torch.equal(model(ids).logits, before)
    after = {name.replace(".base_layer", ""): weight for name, weight in model.state_dict().items()}
    assert all(torch.equal(after[name], weight) for name, weight in kept.items())


def test_figures_and_outcomes_by_hand(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The solution, the puzzle with its blanks filled wrongly, and no grid, in turn."""
    trial = chat(base, tmp_path)
    answers = {}
    for number, row in enumerate(trial.rows["test"]):
        cells = zip(row["puzzle"], row["solution"], strict=True)
        wrong = packed("".join(str(int(digit) % 4 + 1) if given == "." else given for given, digit in cells))
        written = [row["chosen"], f"<RESPONSE>\n{wrong}\n</RESPONSE>", "I give up."][number % 3]
        answers[packed(row["puzzle"].replace(".", "0"))] = written
    engine = Scripted(trial.words, lambda prompt: next(text for lines, text in answers.items() if lines in prompt))
    monkeypatch.setattr(compare, "TransformersEngine", lambda size: engine)
    figures, outcomes = trial.judge(trial.load(base), 0, tmp_path)
    for way in ("sampled", "greedily"):
        found = [figures[f"{way}/{name}"] for name in ("reward", "givens", "cells", "exact")]
        assert found == pytest.approx([4 / 3, 2 / 3, 1 / 3, 1 / 3])
        assert outcomes[f"{way}/reward"].tolist() == [3, 1, 0, 3, 1, 0]
    assert outcomes["solved"].tolist() == [1, 0, 0, 1, 0, 0]


def test_held_out_puzzles_have_grids_of_their_own(base: Path, tmp_path: Path) -> None:
    rows = Chat(CompareArguments(model=str(base), output_dir=str(tmp_path), train_rows=100)).rows
    train, test = ({row["solution"] for row in rows[split]} for split in ("train", "test"))
    assert not train & test and (len(rows["train"]), len(rows["test"])) == (100, 128)
    assert {row["puzzle"].count(".") for part in rows.values() for row in part} == {2, 3}


@pytest.mark.parametrize(("kind", "steps"), [(CompareArguments, 12), (RaroTrialArguments, 24)])
def test_the_rate_rises_over_four_steps_and_stays(kind: Any, steps: int, base: Path) -> None:
    args = kind(model=str(base))
    factor = trapezoid(args.warmup_share, args.decay_share)
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)])
    usual = get_constant_schedule_with_warmup(optimizer, 4).lr_lambdas[0]
    assert [factor(step / steps) for step in range(steps)] == pytest.approx([usual(step) for step in range(steps)])


def test_what_is_there_is_kept_and_an_arm_can_be_added(base: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"model": base, "seeds": 0, "max_steps": 2, **SMALL}
    run(tmp_path, "--arms", "grpo", **options)
    times = {job: (tmp_path / job / "result.json").stat().st_mtime_ns for job in ("start/seed0", "grpo/seed0")}
    said = run(tmp_path, "--arms", "grpo", "more", "--resume_from_checkpoint", "last", **options)
    assert "1 of 1 results are there already" in said and "1 of 2 results are there already" in said
    assert times == {job: (tmp_path / job / "result.json").stat().st_mtime_ns for job in times}
    lines = (tmp_path / "table.md").read_text("utf-8").splitlines()
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| start", "| GRPO", "| more SFT"]
    assert lines[0].startswith("|  | solved % | each seed | minus start | minus more SFT | reward of 3, sampled | ")


@pytest.mark.long
@pytest.mark.skipif(bool(MISSING), reason=MISSING)
def test_a_start_on_smollm2_writes_the_form(tmp_path: Path) -> None:
    run(tmp_path, "--arms", "more", seeds=0, max_steps=1, test_rows=16)
    start = Records(tmp_path).result("start/seed0")
    assert start is not None and 0.3 < start["greedily/givens"] < 1
