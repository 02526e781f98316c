"""Pictures in messages, through sampling, scores, updates, evaluation and supervised learning, in both families."""

import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageColor
from transformers import TrainingArguments

from llm_rl.dpo.trainer import DPOTrainer
from llm_rl.grpo.extensions import Chord, ImportanceCorrection, RolloutAhead
from llm_rl.grpo.trainer import GRPOTrainer
from llm_rl.ppo.trainer import PPOTrainer
from llm_rl.rollout.completions import sample_completions, sampling_params
from llm_rl.rollout.data import RolloutBatch, Sample, encode_prompt
from llm_rl.rollout.generation import TransformersEngine
from llm_rl.rollout.sampling import sample_and_score
from llm_rl.rollout.scoring import PolicyScorer
from llm_rl.rollout.sft import SupervisedDataset, supervised_trainer
from llm_rl.tools.trajectories import TrajectoryDataset
from llm_rl.training.errors import CheckpointError
from llm_rl.training.failure import load_failure
from sudoku_env.envs.rendering import LAST
from tests.helpers import SHORT
from tests.helpers.pages import ROOT
from tests.helpers.refusals import refused
from tests.llm_rl.helpers import tiny_dpo, tiny_ppo
from tests.llm_rl.helpers.tiny_grpo import SAVING, arguments, go_on, new_model, small_ids, tokenizer
from tests.llm_rl.helpers.tiny_pictures import FAMILIES, picture, processor, seeing_model, seeing_rows
from tests.llm_rl.helpers.watch import assert_same_weights, gradients_of, trained

each_family = pytest.mark.parametrize("family", FAMILIES)
TEXT = {"prompt": [{"role": "user", "content": "one two"}]}


def seeing_trainer(folder: Path, family: str, model: Any = None, rows: Any = None, **given: Any) -> GRPOTrainer:
    passed = {name: given.pop(name) for name in ("engine", "tools", "next_turn", "extensions") if name in given}
    model, data = seeing_model(family) if model is None else model, [*seeing_rows(), TEXT] if rows is None else rows
    args = arguments(folder, per_device_train_batch_size=4, gradient_accumulation_steps=2, **given)
    return GRPOTrainer(model, small_ids, args, data, processor(family), eval_dataset=data, **passed)


def alone(model: Any, prompt: list[int], answer: list[int]) -> torch.Tensor:
    """Log-probabilities of an answer's tokens, of one prompt with its own pictures."""
    tensors = dict(getattr(prompt, "tensors", {}))
    if "mm_token_type_ids" in tensors:
        kinds = tensors["mm_token_type_ids"]
        tensors["mm_token_type_ids"] = torch.cat([kinds, kinds.new_zeros(1, len(answer))], 1)
    logits = model(input_ids=torch.tensor([[*prompt, *answer]]), **tensors).logits[0, len(prompt) - 1 : -1]
    return logits.log_softmax(-1).gather(1, torch.tensor(answer)[:, None])[:, 0]


@each_family
def test_completions_are_sampled_and_scored_as_those_of_their_prompt_alone(family: str) -> None:
    """The prompts with one picture have the same tokens; one has two pictures and one has none."""
    model, eyes = seeing_model(family).eval(), processor(family)
    params = sampling_params(model, eyes, 6, 1.0)
    samples = sample_completions(model, TransformersEngine(), eyes, [*seeing_rows(), TEXT], 3, params, {})
    assert samples[0].prompt_ids == samples[6].prompt_ids
    with torch.no_grad():
        found = PolicyScorer(model, 1.0)(model, RolloutBatch.collate(samples, 0)).logprobs
        first = alone(model, samples[0].prompt_ids, samples[0].completion_ids)
        other = alone(model, samples[6].prompt_ids, samples[0].completion_ids)
        assert (first - other).abs().max() > 1e-3  # the picture counts
        for row, sample in zip(found, samples, strict=True):
            expected = alone(model, sample.prompt_ids, sample.completion_ids)
            torch.testing.assert_close(row[: len(expected)], expected, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(torch.tensor(sample.engine_logprobs), expected, rtol=1e-4, atol=1e-5)


@each_family
def test_a_picture_is_looked_at_once_for_its_answers_with_the_gradient_of_copies(family: str) -> None:
    model, looked = seeing_model(family, dtype=torch.float64), []
    tower = model.model.vision_tower if family == "llava" else model.model.visual
    tower.register_forward_pre_hook(lambda module, given: looked.append(len(given[0])))
    prompts = [encode_prompt(row["prompt"], processor(family), {}) for row in seeing_rows(2)]
    samples = [Sample({}, prompts[number // 3], [1 + number, 7], False) for number in range(6)]
    copies = [Sample({}, type(one.prompt_ids)(one.prompt_ids, {**one.prompt_ids.tensors}), one.completion_ids, False)
              for one in samples]  # fmt: skip
    steps = []
    for each in (samples, copies):
        model.zero_grad()
        PolicyScorer(model, 1.0)(model, RolloutBatch.collate(each, 0)).logprobs.sum().backward()
        steps.append([weight.grad.clone() for weight in model.parameters() if weight.grad is not None])
    assert sum(looked[:-1]) * 3 == looked[-1]
    for once, copied in zip(*steps, strict=True):
        torch.testing.assert_close(once, copied, rtol=1e-6, atol=1e-9)


@each_family
def test_a_run_on_pictures_goes_on_bit_for_bit_in_the_middle_of_a_roll_out(tmp_path: Path, family: str) -> None:
    settings = {"num_iterations": 2, "kl_weight": 0.1, **SAVING}
    whole = trained(seeing_trainer(tmp_path / "whole", family, max_steps=4, log_completions=True, **settings))
    seeing_trainer(tmp_path / "parts", family, max_steps=3, **settings).train()
    rest = trained(seeing_trainer(tmp_path / "parts", family, max_steps=4, **settings), resume_from_checkpoint="last")
    assert_same_weights(rest.model, whole.model)
    assert rest.evaluate() == whole.evaluate()
    prompts = [json.loads(line)["prompt"] for line in (tmp_path / "whole" / "completions.jsonl").open()]
    assert len({json.dumps(prompt) for prompt in prompts}) == 4

    seen = seeing_rows()
    seen[3]["prompt"][0]["content"][0]["image"] = picture(8)
    other = seeing_trainer(tmp_path / "parts", family, rows=[*seen, TEXT], max_steps=5, **settings)
    refused("train_dataset is", lambda: other.train(resume_from_checkpoint="last"), CheckpointError)


def test_a_step_that_is_not_finite_keeps_its_pictures(tmp_path: Path) -> None:
    run = seeing_trainer(tmp_path, "llava", rows=seeing_rows())
    run.model.lm_head.weight.register_hook(lambda gradient: gradient * torch.inf)
    refused("failed_step-0", lambda: run.train(), FloatingPointError)
    failure = load_failure(tmp_path / "failed_step-0", run.record_classes)
    shown = failure.inputs[0]["prompt"][0]["content"][0]["image"]
    assert any((Image.fromarray(shown).tobytes()) == part["image"].tobytes() for row in seeing_rows()
               for part in row["prompt"][0]["content"] if part["type"] == "image")  # fmt: skip
    assert failure.rollout[0].pictures.prompts[0]["pixel_values"].ndim == 4


@each_family
def test_extensions_sample_ahead_and_learn_from_experts_with_the_pictures(tmp_path: Path, family: str) -> None:
    experts = Chord([{**row, "completion": "sky"} for row in seeing_rows()])
    extensions = [ImportanceCorrection(cap=2.0), RolloutAhead(), experts]
    run = seeing_trainer(tmp_path, family, extensions=extensions, rows=seeing_rows(), learning_rate=1e-9, max_steps=2)
    run.train()
    assert run.state.log_history[1]["rollout_staleness"] == 1
    assert run.state.log_history[1]["engine_logp_diff_max"] < 1e-3  # it was sampled with what it is scored with
    learned = run.extensions[2].answers.samples
    assert all("pixel_values" in sample.prompt_ids.tensors for sample in learned)


class Blind:
    def load_weights(self, model: Any) -> None:
        raise AssertionError("it was asked")


def add(one: int, two: int) -> int:
    """Adds.

    Args:
        one: A number.
        two: Another.
    """
    return one + two


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"share_prompts": True}, "share_prompts"),
        ({"padding_free": True}, "padding_free"),
        ({"engine": Blind()}, "Blind"),
        ({"tools": [add], "max_turns": 2}, "tools"),
        ({"next_turn": go_on, "max_turns": 2}, "next_turn"),
    ],
)
def test_what_cannot_take_pictures_says_so(tmp_path: Path, given: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=f"LlavaProcessor, and {named} cannot take pictures; leave that out, or pass"):
        seeing_trainer(tmp_path, "llava", **given)


def test_trainers_models_and_functions_that_cannot_take_pictures_say_so(tmp_path: Path) -> None:
    eyes, model, rows = processor("llava"), seeing_model("llava"), seeing_rows()
    ppo, dpo = tiny_ppo.arguments(tmp_path), tiny_dpo.arguments(tmp_path)
    refused("and PPOTrainer cannot take pictures", lambda: PPOTrainer(model, small_ids, ppo, rows, eyes))
    refused("and DPOTrainer cannot take pictures", lambda: DPOTrainer(model, dpo, rows, eyes))
    refused("and tools cannot take pictures", lambda: TrajectoryDataset([{**TEXT, "completion": []}], eyes, [add]))
    with pytest.raises(ValueError, match="and Blind cannot take pictures"):
        sample_and_score(model, rows, small_ids, eyes, engine=Blind())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="share_prompts=True keeps no pictures apart"):
        sharing = TransformersEngine(share_prompts=True)
        sample_and_score(model, rows, small_ids, eyes, engine=sharing, max_completion_length=6)
    with pytest.raises(ValueError, match=r"row 0 of .* makes pixel_values .*, which LlamaForCausalLM does"):
        seeing_trainer(tmp_path, "llava", new_model(vocab_size=200))
    with pytest.raises(ValueError, match=r"row 0 .*images and the like are not supported.*AutoProcessor"):
        GRPOTrainer(new_model(), small_ids, arguments(tmp_path), rows, tokenizer())
    missing = [{"prompt": [{"role": "user", "content": [{"type": "image"}]}]}]
    with pytest.raises(ValueError, match=r'row 0 .*\'image\'.*give a text, or parts .*"image": PIL.Image'):
        seeing_trainer(tmp_path, "llava", rows=missing)


@each_family
def test_answers_to_pictures_are_learned_from_with_the_gradient_of_one_after_the_other(
    tmp_path: Path, family: str
) -> None:
    eyes, model = processor(family), seeing_model(family, dtype=torch.float64)
    rows = [{**row, "chosen": "sky sea " * number} for number, row in enumerate([*seeing_rows(), TEXT], 1)]
    total = torch.zeros((), dtype=torch.float64)
    for row, item in zip(rows, SupervisedDataset(rows, eyes), strict=True):
        prompt = encode_prompt(row["prompt"], eyes, {})
        answer = item["input_ids"][len(prompt) :]
        assert item["input_ids"][: len(prompt)] == prompt and answer[-1] == eyes.tokenizer.eos_token_id
        total = total - alone(model, prompt, answer).sum()
    (total / sum(label != -100 for item in SupervisedDataset(rows, eyes) for label in item["labels"])).backward()
    expected = {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
    fresh = seeing_model(family, dtype=torch.float64)
    args = TrainingArguments(str(tmp_path), max_steps=1, max_grad_norm=0.0, per_device_train_batch_size=5, **SHORT)
    (found,) = gradients_of(supervised_trainer(fresh, args, rows, eyes))
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-3, atol=1e-5)


def test_the_example_marks_the_digit_that_it_asks_for(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    example = import_module("name_the_digit")
    rows = example.make_rows(16, 0)
    for row in rows:
        pixels = np.array(row["prompt"][0]["content"][0]["image"])
        assert pixels.shape == (64, 64, 3) and (pixels == ImageColor.getrgb(LAST)).all(2).sum() > 50
    monkeypatch.setattr(example, "make_rows", lambda *asked: rows)
    monkeypatch.setattr("sys.argv", ["name", "--seeds", "0", "--sft_steps", "1", "--rl_steps", "1"])
    example.main()
    assert re.search(r"seed 0: named [\d.]+% after teaching, [\d.]+% after the reward", capsys.readouterr().out)
