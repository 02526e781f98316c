"""What a card would stumble over, where it can be seen: at import, in pickled arguments, on resume, at the start."""

import json
import pickle
import re
import subprocess
import sys
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from accelerate.state import AcceleratorState

from dllm_rl.decoding import Decoding, decode, evaluate
from dllm_rl.sft import SftArguments
from dllm_rl.training.trainer import UnmaskTrainer
from dllm_rl.training.two_rates import TwoRateOptimizer
from llm_rl.training.arguments import RunArguments
from llm_rl.training.errors import CheckpointError
from sudoku_dllm.__main__ import main
from sudoku_dllm.machine import machine
from tests.card import report
from tests.dllm_rl.helpers import tiny_training
from tests.dllm_rl.helpers.tiny_training import arguments, puzzles, sft_trainer, sudoku_task, trainer, warm_model
from tests.helpers.house import ROOT
from tests.helpers.refusals import refused
from tests.llm_rl.helpers import tiny_dpo, tiny_grpo

IMPORTS = """
import importlib, pkgutil, torch

def asked(*args, **kwargs):
    raise AssertionError("a card was asked for")

torch.cuda.is_available = torch.cuda.device_count = torch.accelerator.is_available = asked
torch.accelerator.device_count = asked
for package in ("llm_rl", "dllm_rl", "sudoku_dllm"):
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, package + "."):
        if not module.name.endswith("__main__") and ".verl" not in module.name:
            importlib.import_module(module.name)
importlib.import_module("scripts.benchmarks.grids")
"""
on_card = pytest.mark.usefixtures("card")


@pytest.mark.slow
def test_no_module_asks_for_a_card_when_it_is_imported() -> None:
    """What asks spoils the card for all processes that are forked later, such as those of jobs."""
    found = subprocess.run([sys.executable, "-c", IMPORTS], cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr


@pytest.mark.slow
@on_card
@pytest.mark.parametrize("use_cpu", [True, False])
def test_arguments_that_travel_to_another_process_set_their_device_up_there(tmp_path, use_cpu) -> None:
    sent = pickle.dumps(arguments(tmp_path, use_cpu=use_cpu))
    AcceleratorState._reset_state(reset_partial_state=True)  # as in a process that begins
    run = trainer(tmp_path, args=pickle.loads(sent), count=4)
    assert run.accelerator.device.type == run.args.device.type == ("cpu" if use_cpu else "cuda")
    run.train()


@pytest.mark.slow
@on_card
def test_a_checkpoint_without_the_cards_random_state_is_not_continued(tmp_path, monkeypatch) -> None:
    saving = {"max_steps": 2, "save_strategy": "steps", "save_steps": 1, "use_cpu": False}
    with monkeypatch.context() as patched:
        patched.setattr(torch.cuda, "is_available", lambda: False)
        run = sft_trainer(tmp_path, **saving)
        assert run.args.device.type == "cpu"
        run.train()
    with pytest.raises(CheckpointError, match="checkpoint-1 holds no random state for cuda:0"):
        sft_trainer(tmp_path, **saving).train(resume_from_checkpoint=str(tmp_path / "checkpoint-1"))


@pytest.mark.slow
@on_card
def test_a_run_says_which_card_it_had() -> None:
    assert torch.cuda.get_device_name() in machine()


@pytest.mark.slow
@on_card
def test_what_cannot_be_exact_on_a_card_is_refused_at_the_start(tmp_path) -> None:
    with pytest.raises(ValueError, match="full_determinism=True would stop the first roll-out"):
        trainer(tmp_path, full_determinism=True, use_cpu=False)
    model = warm_model()
    two = TwoRateOptimizer(model.parameters(), torch.optim.SGD, (1e-3, 1e-4))
    args = arguments(tmp_path, fp16=True, use_cpu=False)
    run = UnmaskTrainer(model, args, puzzles(4), sudoku_task(), optimizers=(two, None))
    refused("TwoRateOptimizer is not supported with fp16", lambda: run.train())


@pytest.mark.parametrize("tiny", [tiny_training, tiny_grpo, tiny_dpo])
def test_a_device_without_float64_is_refused_at_the_start(tmp_path, monkeypatch, tiny) -> None:
    monkeypatch.setattr(RunArguments, "device", property(lambda self: torch.device("mps")))
    refused(r"float64.* does not exist on mps; use the CPU", lambda: tiny.trainer(tmp_path))
    model = SimpleNamespace(parameters=lambda: iter([SimpleNamespace(device=torch.device("mps"))]))
    refused(r"float64.* does not exist on mps", lambda: sudoku_task().batch(puzzles(2)).beside(model))


def test_supervised_training_refuses_two_cards_in_one_process_and_what_does_nothing(tmp_path, monkeypatch) -> None:
    for idle in ({"torch_compile": True}, {"label_smoothing_factor": 0.1}):
        with pytest.raises(ValueError, match=rf"{next(iter(idle))}=.*; leave it out"):
            sft_trainer(tmp_path, **idle)
    monkeypatch.setattr(SftArguments, "n_gpu", property(lambda self: 2))
    refused("one process sees 2 devices", lambda: sft_trainer(tmp_path))


def test_rows_of_logits_are_bounded_and_change_nothing() -> None:
    model, problems, rows = warm_model().double(), sudoku_task().batch(puzzles(4)), []
    model.get_output_embeddings().register_forward_hook(lambda module, given, found: rows.append(len(found)))
    whole = decode(model, problems, Decoding("margin"))
    assert max(rows) > 20
    rows.clear()
    parted = decode(model, problems, Decoding("margin"), max_masked=20)
    assert max(rows) <= 20 and torch.equal(whole.responses, parted.responses)
    rows.clear()
    evaluate(model, puzzles(4), sudoku_task(), max_masked=20)
    assert max(rows) <= 20


def test_without_a_card_the_report_says_so_and_the_environment_is_told(monkeypatch, capsys) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert report.main() == 1 and "there is no card: torch" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["sudoku-dllm", "check", "--json"])
    assert not main()
    found = json.loads(capsys.readouterr().out)
    assert found["card"] == "none" and f"torch {torch.__version__}" in found["packages"]


@pytest.mark.slow
@on_card
def test_the_report_times_two_trainers(monkeypatch) -> None:
    monkeypatch.setattr(report, "WIDE", {})
    for make in (partial(report.unmask, size=1), partial(report.grpo, size=8)):
        assert re.fullmatch(r"\d+ steps, [1-9]\d* states/s, [1-9]\d* tokens/s, .*GiB", report.rate(make, 0.1))
