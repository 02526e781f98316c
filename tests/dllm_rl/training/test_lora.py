"""LoRA on LLaDA: what trains, what is saved, and that the trainer works with it."""

import copy
import sys
from typing import Any

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from torch import Tensor, nn

from dllm_rl.decoding import Decoding
from dllm_rl.decoding.noise import StateNoise
from dllm_rl.decoding.rollouts import rollout
from dllm_rl.models.llada import LladaForMaskedLM
from dllm_rl.policy import PolicyConfig
from dllm_rl.terms.objective import ObjectiveConfig
from llm_rl.training.lora import add_lora
from tests.dllm_rl.helpers import tiny_training
from tests.dllm_rl.helpers.tiny_llada import make_model
from tests.dllm_rl.helpers.tiny_training import logged, puzzles, sudoku_task, trainer, warm_model
from tests.dllm_rl.helpers.tiny_training import trained as played
from tests.dllm_rl.helpers.update_checks import run as objective
from tests.dllm_rl.helpers.weights import moved_from, weights


def ids() -> Tensor:
    return torch.randint(3, 105, (2, 8), generator=torch.Generator().manual_seed(1))


def trained(model: nn.Module) -> dict[str, Tensor]:
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def stir(model: nn.Module) -> None:
    """Give both factors random values: B starts at zero, where A has no gradient."""
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in trained(model).values():
            parameter.copy_(0.1 * torch.randn(parameter.shape, generator=generator))


def adapted(seed: int = 0, **options: Any) -> PeftModel:
    base = warm_model()
    torch.manual_seed(seed)
    return add_lora(base, **{"r": 2, "alpha": 4, **options})


def test_every_matrix_of_the_blocks_gets_adapters_and_the_head_none() -> None:
    model = add_lora(make_model(), r=3)
    names = set(trained(model))
    assert names == {
        f"base_model.model.model.transformer.blocks.{block}.{layer}.lora_{factor}.default.weight"
        for block in range(2)
        for layer in LladaForMaskedLM.lora_target_modules
        for factor in "AB"
    }
    assert isinstance(model.get_base_model().get_output_embeddings(), nn.Linear)


def test_an_adapted_layer_by_hand() -> None:
    """W x + (alpha / r) B A x, and at first W x alone."""
    base = make_model()
    expected = base(ids()).logits
    weight = base.model.transformer.blocks[1].ff_out.weight.clone()
    model = add_lora(base, r=2, alpha=6, target_modules=["ff_out"])
    assert torch.equal(model(input_ids=ids()).logits, expected)
    stir(model)
    layer = model.get_base_model().model.transformer.blocks[1].ff_out
    a, b = layer.lora_A["default"].weight, layer.lora_B["default"].weight
    x = torch.randn(5, 48)
    torch.testing.assert_close(layer(x), x @ (weight + 3 * b @ a).T)
    assert not torch.allclose(model(input_ids=ids()).logits, expected, atol=1e-3)


def test_adapters_of_a_bfloat16_body_are_fp32_and_so_are_the_logits() -> None:
    model = add_lora(make_model().to(torch.bfloat16), r=2)
    assert {parameter.dtype for parameter in trained(model).values()} == {torch.float32}
    assert model(input_ids=ids()).logits.dtype == torch.float32
    assert model.get_base_model().model(ids()).last_hidden_state.dtype == torch.bfloat16


def test_without_peft_the_error_names_the_extra(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(ModuleNotFoundError, match=r"sudoku-dllm\[lora\]"):
        add_lora(make_model())


def test_only_adapters_train_and_are_saved(tmp_path) -> None:
    before = weights(model := adapted())
    run = played(tmp_path, model, max_steps=2, learning_rate=1e-2, save_strategy="steps", save_steps=1)
    changed = moved_from(before, model)
    assert changed == set(trained(model))
    run.save_model(str(tmp_path / "end"))
    saved = load_file(tmp_path / "end" / "adapter_model.safetensors")
    assert len(saved) == len(changed) and all("lora_" in name for name in saved)
    for folder in ("end", "checkpoint-1"):
        assert {path.name for path in (tmp_path / folder).glob("*model*.safetensors")} == {"adapter_model.safetensors"}
    again = PeftModel.from_pretrained(warm_model(), str(tmp_path / "end")).eval()
    tokens = torch.tensor([puzzles(1)[0].token_ids])
    with torch.no_grad():
        logits = model.eval()(input_ids=tokens).logits
        assert torch.equal(again(input_ids=tokens).logits, logits)
        torch.testing.assert_close(again.merge_and_unload()(tokens).logits, logits, atol=1e-4, rtol=1e-4)


def test_two_learning_rates_work_with_adapters(tmp_path) -> None:
    """Nothing may move with the second rate 0 and no first term; with that rate nothing but adapters."""
    for rate, moves in ((0.0, False), (1e-2, True)):
        before = weights(model := adapted())
        played(tmp_path, model, learning_rate=1e-3, sft_learning_rate=rate, policy_weight=0.0)
        moved = moved_from(before, model)
        assert bool(moved) is moves and moved <= set(trained(model))


def test_the_trainer_adds_the_adapters_that_it_is_asked_for(tmp_path) -> None:
    """Once: a model that has them keeps its own, and other ranks than asked for are refused."""
    before = weights(model := tiny_training.new_model())
    run = played(tmp_path, model, lora_r=2, lora_target_modules=["q_proj"], max_steps=2)
    assert isinstance(run.model, PeftModel) and all(".lora_" in name for name in trained(run.model))
    kept = {name.replace(".base_layer", ""): weight for name, weight in run.model.get_base_model().state_dict().items()}
    assert all(torch.equal(weight, kept[name]) for name, weight in before.items())
    assert trainer(tmp_path / "again", run.model, lora_r=2, lora_target_modules=["q_proj"]).model is run.model
    with pytest.raises(ValueError, match=r"lora_r=4, but the model has adapters of rank \[2\]; leave lora_r out"):
        trainer(tmp_path / "other", run.model, lora_r=4)


def gradients(model: PeftModel) -> dict[str, Tensor]:
    """The gradients of the whole objective over one roll-out."""
    how = Decoding("policy", policy=PolicyConfig(position_temperature=1.0), on_error="end")
    batch, generator = sudoku_task().batch(puzzles(2)), torch.Generator().manual_seed(0)
    record = rollout(model, batch, how, num_generations=4, generator=generator)
    objective(model.train(), record, ObjectiveConfig(), max_tokens=800)
    return {name: parameter.grad for name, parameter in trained(model).items() if parameter.grad is not None}


def test_judged_decisions_reach_adapters_by_the_chain_rule(tmp_path) -> None:
    """∇A = (α / r) Bᵀ G and ∇B = (α / r) G Aᵀ, with G the gradient of the whole matrix, of the same draws."""
    options = {"policy_weight": 0.0, "f_weight": 0.0, "judged_weight": 1.0, "judged_draws": 8}
    model = adapted().double()
    stir(model)
    whole = copy.deepcopy(model).merge_and_unload().requires_grad_(True)
    how = Decoding("policy", tokens_per_step=2, policy=PolicyConfig(1.0), on_error="redraw")
    record = rollout(whole, sudoku_task().batch(puzzles(4)), how, generator=torch.Generator().manual_seed(0))
    for each in (model, whole):
        objective(each, record, ObjectiveConfig(**options), noise=StateNoise((1,)))
    for name, matrix in whole.named_parameters():
        if (layer := "base_model.model." + name.removesuffix(".weight")) + ".lora_A.default.weight" in trained(model):
            factors = [trained(model)[f"{layer}.lora_{factor}.default.weight"] for factor in "AB"]
            (a, b), (of_a, of_b) = factors, (factor.grad for factor in factors)
            torch.testing.assert_close(of_a, 2 * b.T @ matrix.grad)
            torch.testing.assert_close(of_b, 2 * matrix.grad @ a.T)
            assert bool(of_a.any()) and bool(of_b.any())

    before = weights(model)
    options |= {"num_mini_batches": 2, "tokens_per_step": 2, "on_error": "redraw"}
    played(tmp_path, model, max_steps=2, learning_rate=1e-2, **options)
    assert moved_from(before, model) == set(trained(model))


@pytest.mark.parametrize("reentrant", [False, True])
def test_gradient_checkpointing_changes_no_gradient(reentrant) -> None:
    plain = adapted()
    stir(plain)
    checkpointed = copy.deepcopy(plain)
    calls: list[bool] = []
    base = checkpointed.get_base_model()
    base.gradient_checkpointing_enable({"use_reentrant": reentrant})
    checkpointed.enable_input_require_grads()
    expected = gradients(plain)
    base.model.transformer.blocks[1].ff_out.register_forward_hook(lambda *_: calls.append(torch.is_grad_enabled()))
    found = gradients(checkpointed)
    assert calls.count(True) > 0
    assert expected.keys() == found.keys() == trained(plain).keys()
    assert all(float(gradient.abs().max()) > 0 for gradient in expected.values())
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("accumulation", [1, 2])
def test_the_first_ratio_is_one_in_bfloat16(tmp_path, checkpointing, accumulation) -> None:
    model = add_lora(warm_model().to(torch.bfloat16), r=2)
    stir(model)
    options = {"gradient_checkpointing": checkpointing, "gradient_accumulation_steps": accumulation}
    ratios = logged(played(tmp_path, model, max_steps=2, **options), "max_log_ratio_at_update_0")
    assert len(ratios) == 2 and max(ratios) < 1e-5


def test_dropout_moves_the_first_ratio_off_one(tmp_path) -> None:
    model = adapted(dropout=0.5)
    stir(model)
    assert logged(played(tmp_path, model), "max_log_ratio_at_update_0")[0] > 1e-2
