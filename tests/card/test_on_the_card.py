"""Everything once where a model lies on a card: decodes, roll-outs, and three steps of each trainer with its resume."""

import json
import sys
from functools import partial

import pytest
import torch

from dllm_rl.decoding import Decoding, EntropyBound, TakeBack, Threshold, decode, evaluate, replay, rollout
from dllm_rl.policy import PolicyConfig
from dllm_rl.task import UnmaskBatch
from scripts.referee import compare
from scripts.referee.compare import METHODS, Boards, BoardsArguments
from sudoku_dllm.__main__ import main
from sudoku_dllm.trials.trial import short_training
from tests.dllm_rl.helpers import tiny_training
from tests.dllm_rl.helpers.tiny_training import puzzles, sudoku_task, warm_model
from tests.dllm_rl.helpers.weights import moved_from
from tests.dllm_rl.helpers.weights import weights as copies
from tests.llm_rl.helpers import tiny_dpo, tiny_grpo, tiny_ppo, tiny_raro, tiny_vapor

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("card")]


def padded() -> UnmaskBatch:
    """Problems whose prompts differ in length, on the CPU."""
    return sudoku_task().batch([*puzzles(2), *puzzles(2, seed=2, template="short")])


DECODINGS = {
    **{name: Decoding(name) for name in ("margin", "probability", "entropy", "policy", "random", "definite_first")},
    "three a pass": Decoding("margin", tokens_per_step=3),
    "threshold": Decoding("margin", tokens_per_step=None, limit=Threshold(0.5)),
    "entropy bound": Decoding("entropy", tokens_per_step=None, limit=EntropyBound(0.3)),
    "guard": Decoding("margin", tokens_per_step=2, guard="completable"),
    "guard by rules": Decoding("policy", guard="rules"),
    "edits": Decoding("margin", take_back=TakeBack(edit_threshold=0.3, max_passes=20)),
    "doubts": Decoding("margin", take_back=TakeBack(remask_threshold=0.4, remask_count=1, max_passes=20)),
    "restarts": Decoding("margin", tokens_per_step=4, take_back=TakeBack(restart_share=0.2, max_passes=12)),
}


@pytest.mark.parametrize("how", DECODINGS.values(), ids=DECODINGS)
def test_a_batch_of_the_processor_is_decoded_where_the_model_is(how) -> None:
    problems = padded()
    assert problems.prompt_mask is not None and not problems.prompt_mask.all()
    record = decode(warm_model().to("cuda"), problems, how, generator=torch.Generator().manual_seed(0))
    assert record.responses.is_cuda and record.problems.responses.is_cuda
    assert record.dead_end.any() or not (record.responses == problems.mask_id).any()


def test_what_is_drawn_on_the_card_is_what_the_processor_draws() -> None:
    model, drawn = warm_model(), Decoding("random")
    here, there = (
        decode(model.to(place), padded(), drawn, generator=torch.Generator().manual_seed(0)).step_of.cpu()
        for place in ("cpu", "cuda")
    )
    assert torch.equal(here, there)
    assert len(evaluate(model, puzzles(6), sudoku_task(), drawn).solved) == 6


@pytest.mark.parametrize("on_error", ["end", "continue", "correct", "redraw"])
def test_roll_outs_and_answers_of_an_engine_go_where_the_model_is(on_error) -> None:
    model, how = warm_model().to("cuda"), Decoding("policy", tokens_per_step=2, on_error=on_error)
    record = rollout(model, padded(), how, num_generations=3, generator=torch.Generator().manual_seed(0))
    assert record.rewards.is_cuda and record.old_logprobs.isfinite().all()
    whole = decode(model, padded(), Decoding("margin"))
    told = replay(model, padded(), whole.responses.cpu(), whole.step_of.cpu(), PolicyConfig(), on_error="continue")
    assert told.positions.is_cuda and bool((told.live.sum(1) == whole.forward_passes).all())


UNMASK = {
    "as published": {},
    "two rates": {"rl_learning_rate": 1e-3, "sft_learning_rate": 1e-4},
    "all terms, redrawn": {
        "judged_weight": 1.0, "kept_weight": 0.5, "ce_weight": 0.5, "on_error": "redraw", "tokens_per_step": 2,
    },
    "mini-batches of judged decisions": {
        "policy_weight": 0.0, "f_weight": 0.0, "judged_weight": 1.0, "num_mini_batches": 2,
    },
    "guarded": {
        "policy_weight": 0.0, "f_weight": 0.0, "ce_weight": 1.0, "num_generations": 1, "on_error": "guard",
        "ce_target": "own",
    },
    "corrected, part of the states": {"on_error": "correct", "state_fraction": 0.5, "max_masked_per_pass": 16},
    "adapters with dropout": {"lora_r": 2, "lora_dropout": 0.3},
    "bfloat16, blocks again": {"bf16": True, "gradient_checkpointing": True, "num_iterations": 2},
}  # fmt: skip
TRAINERS = {
    **{f"UnmaskTrainer, {name}": partial(tiny_training.trainer, **changes) for name, changes in UNMASK.items()},
    "SftTrainer": tiny_training.sft_trainer,
    "SftTrainer, definite": partial(tiny_training.sft_trainer, ce_on="definite"),
    "GRPO": partial(tiny_grpo.trainer, kl_weight=0.1),
    "GRPO, bfloat16": partial(tiny_grpo.trainer, bf16=True, num_iterations=2, gradient_accumulation_steps=2),
    "PPO": partial(tiny_ppo.trainer, kl_weight=0.1),
    "DPO": tiny_dpo.trainer,
    "VAPOR": tiny_vapor.trainer,
    "RARO": tiny_raro.trainer,
}


@pytest.mark.parametrize("make", TRAINERS.values(), ids=TRAINERS)
def test_a_trainer_resumes_on_the_card_bit_for_bit(tmp_path, make) -> None:
    short = {"max_steps": 3, "save_strategy": "steps", "save_steps": 1, "use_cpu": False}
    whole, resumed = make(tmp_path / "whole", **short), make(tmp_path / "resumed", **short)
    whole.train()
    torch.rand(5, device="cuda")
    resumed.train(resume_from_checkpoint=str(tmp_path / "whole" / "checkpoint-2"))
    weights, again = whole.model.state_dict(), resumed.model.state_dict()
    assert all(value.is_cuda and torch.equal(value, again[name]) for name, value in weights.items())
    assert moved_from(copies(make(tmp_path / "before", **short).model), whole.model)


@pytest.mark.parametrize("method", METHODS)
def test_each_objective_of_the_referee_trains_on_the_card(tmp_path, monkeypatch, method) -> None:
    """Two updates on a roll-out, with the divergence where there is one, and several passes each."""
    monkeypatch.setattr(compare, "short_training", lambda *given: {**short_training(*given), "use_cpu": False})
    few = {"boards": 40, "test_boards": 2, "prompts": 2, "num_generations": 4, "num_iterations": 2}
    trial = Boards(BoardsArguments(**few, reward="passes", divergence=True))
    trainer = trial.trainer(method, model := trial.start(0, tmp_path), 0, tmp_path)
    trainer.args.max_steps, trainer.args.max_tokens_per_pass = 2, 2000
    before = copies(model)
    trainer.train()
    assert moved_from(before, model) and all(parameter.is_cuda for parameter in model.parameters())


SETTINGS = {
    "several": "--arms sft judged --boards 20 --judged_draws 4 --test_boards 2 --draws 2 --eval_tokens 9",
    "labels": "--arms sft objective --max_puzzles 8 --eval_puzzles 2 --eval_tokens 4",
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_comparison_trains_and_judges_on_the_card(tmp_path, monkeypatch, setting) -> None:
    few = f"--setting {setting} {SETTINGS[setting]} --max_steps 2 --jobs 0 --report_to none"
    few += " --per_device_train_batch_size 2 --control_batch_size 4"
    monkeypatch.setattr(sys, "argv", ["sudoku-dllm", "train", *few.split(), "--output_dir", str(tmp_path / "run")])
    assert not main()
    results = [json.loads(path.read_text()) for path in (tmp_path / "run").rglob("result.json")]
    assert len(results) == 3 and all(torch.cuda.get_device_name() in each["machine"] for each in results)
