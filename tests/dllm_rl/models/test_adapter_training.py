"""Models of other architectures under `UnmaskTrainer` and `SftTrainer`: what trains and what is saved."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from torch import nn
from transformers import BertConfig, BertForMaskedLM, Qwen2Config, Qwen2ForCausalLM

from dllm_rl.decoding import Decoding
from dllm_rl.decoding.decisions import draw_decisions, right_decisions
from dllm_rl.decoding.noise import StateNoise
from dllm_rl.decoding.rollouts import rollout
from dllm_rl.models.adapter import LogitsAdapter, as_policy_model
from dllm_rl.policy import NEG_INF, PolicyConfig, action_logprobs, score_states, scores_of
from dllm_rl.terms.judged_decisions import JUDGED
from dllm_rl.terms.objective import ObjectiveConfig
from llm_rl.training.lora import add_lora
from tests.dllm_rl.helpers import tiny_text, tiny_training
from tests.dllm_rl.helpers.tiny_training import logged, puzzles, sudoku_task, tokenizer, trained
from tests.dllm_rl.helpers.update_checks import run
from tests.dllm_rl.helpers.weights import moved_from, weights
from tests.helpers.pages import run_page

PAGE = Path(__file__).parents[3] / "docs" / "decoding.md"
Make = Callable[..., LogitsAdapter]
SAVING: dict[str, Any] = {"max_steps": 2, "save_strategy": "steps", "save_steps": 2, "position_temperature": 1.0}


def bert_model(seed: int = 0) -> BertForMaskedLM:
    """An encoder with learned positions and a head that is tied to the embedding."""
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(tokenizer()), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=64, initializer_range=0.2, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        pad_token_id=tokenizer().pad_token_id,
    )  # fmt: skip
    config.mask_token_id = tokenizer().mask_token_id
    return BertForMaskedLM(config)


def dream_model(seed: int = 0, names: Any = None) -> Qwen2ForCausalLM:
    """As Dream: a Qwen2 that attends in both directions and whose logits at a position are for the next one."""
    torch.manual_seed(seed)
    names = names or tokenizer()
    config = Qwen2Config(
        vocab_size=len(names), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
        intermediate_size=64, max_position_embeddings=64, initializer_range=0.2, tie_word_embeddings=False,
        is_causal=False,
    )  # fmt: skip
    config.mask_token_id = names.mask_token_id
    model = Qwen2ForCausalLM(config)
    for layer in model.model.layers:
        layer.self_attn.is_causal = False
    return model


def bert(seed: int = 0) -> nn.Module:
    return as_policy_model(bert_model(seed))


def dream(seed: int = 0) -> nn.Module:
    return as_policy_model(dream_model(seed), shifted=True)


def adapted(base: nn.Module, seed: int, *modules: str) -> nn.Module:
    """The same base for every seed, other adapters."""
    torch.manual_seed(seed)
    return add_lora(base, r=2, alpha=4, target_modules=list(modules))


def bert_with_lora(seed: int = 0) -> nn.Module:
    return as_policy_model(adapted(bert_model(), seed, "query", "value", "dense"))


def dream_with_lora(seed: int = 0) -> nn.Module:
    return as_policy_model(adapted(dream_model(), seed, "q_proj", "v_proj", "down_proj"), shifted=True)


def test_the_dream_like_model_attends_in_both_directions() -> None:
    model, ids = dream_model().eval(), torch.arange(4, 12)[None]
    changed = ids.clone()
    changed[0, -1] = 4
    here, there = (model(each, attention_mask=torch.ones_like(ids)).logits[0, 0] for each in (ids, changed))
    assert not torch.equal(here, there)


@pytest.mark.parametrize("make", [bert, dream])
def test_every_weight_of_the_wrapped_model_trains(make, tmp_path) -> None:
    before = weights(model := make())
    run = trained(tmp_path, model, max_steps=2, learning_rate=1e-2)
    assert run.model is model and moved_from(before, model) == before.keys()
    assert logged(run, "max_log_ratio_at_update_0") == pytest.approx([0, 0], abs=1e-5)
    assert all(value != 0 for value in logged(run, "grad_norm"))


@pytest.mark.parametrize(("make", "shifted"), [(bert_model, False), (dream_model, True)])
def test_judged_decisions_of_a_wrapped_model_are_those_of_its_own_logits(make, shifted) -> None:
    """Σ_m (r_m / Σ r − 1/M) ∇ log π(a_m|s) of logits that the plain model gives state by state, of the same draws."""
    plain = make().eval().double()
    problems, policy = sudoku_task().batch(puzzles(3, answers="any")), PolicyConfig(1.0, 1.0)
    how = Decoding("policy", tokens_per_step=2, policy=policy, on_error="redraw", draws=512)
    wrapped = as_policy_model(plain, shifted=shifted)
    record = rollout(wrapped, problems, how, generator=torch.Generator().manual_seed(0))
    config = ObjectiveConfig(policy_weight=0.0, f_weight=0.0, judged_weight=1.0, judged_draws=256)
    noise = StateNoise((1,))
    result, found = run(wrapped, record, config, noise=noise)

    plain.zero_grad()
    uniforms = noise.of_states(record.problem_of, JUDGED, (256, 2, 2))
    visits = torch.bincount(record.state_of[record.live], minlength=len(record.responses)) / len(problems.responses)
    mixed = holding = 0
    for number, response in enumerate(record.responses):
        of = record.problem_of[number : number + 1]
        prompts, padding = problems.prompts_of(of)
        ids, masked = torch.cat([prompts[0], response]), response == problems.mask_id
        seen = torch.ones_like(ids)
        seen[: len(prompts[0])] = 1 if padding is None else padding[0]
        logits = plain(ids[None], attention_mask=seen[None]).logits[0]  # (P + R, V)
        logits = (logits.roll(1, 0) if shifted else logits)[len(prompts[0]) :][masked]
        logits = logits.index_fill(1, torch.tensor([problems.mask_id]), NEG_INF)
        scores = scores_of(logits, masked[None], policy)
        positions, tokens = draw_decisions(scores, torch.tensor([0]), uniforms[number : number + 1], policy)
        right = right_decisions(problems, response[None], of, positions, tokens)[0]  # (M,)
        if right.any():
            weights = right.double() / right.sum() - 1 / 256
            state = torch.zeros(256, dtype=torch.long)
            logprobs = action_logprobs(scores, state, positions[0], tokens[0], policy)
            (visits[number] * (weights * logprobs).sum()).backward()
        mixed += bool(right.any() and not right.all())
        holding += int(right.sum())
    assert mixed and result.shares["decisions_right"] == (holding, 256 * len(record.responses))
    whole = torch.cat([weight.grad.flatten() for weight in plain.parameters()])
    found = torch.cat([gradient.flatten() for gradient in found])
    assert float((found - whole).norm()) < 1e-5 * float(whole.norm())  # Qwen2 normalizes in fp32 whatever its weights


def test_logits_of_the_shifted_model_are_taken_one_token_earlier() -> None:
    model = dream_model().eval()
    batch = sudoku_task().batch(puzzles(2))
    record = rollout(as_policy_model(model, shifted=True), batch, num_generations=2)
    prompt_ids, prompt_mask = batch.prompts_of(record.problem_of)
    inputs = prompt_ids, prompt_mask, record.responses, batch.mask_id, PolicyConfig()
    scores = score_states(as_policy_model(model, shifted=True), *inputs)
    ids = torch.cat([prompt_ids, record.responses], dim=1)
    with torch.no_grad():
        logits = model(ids, attention_mask=torch.ones_like(ids)).logits
    state, position = (record.responses == batch.mask_id).nonzero(as_tuple=True)
    expected = logits[state, prompt_ids.shape[1] + position - 1]
    expected[:, batch.mask_id] = -torch.inf
    torch.testing.assert_close(scores.logits, expected)


@pytest.mark.parametrize(("make", "shifted"), [(bert_model, False), (dream_model, True)])
def test_padding_is_masked(make, shifted) -> None:
    """What stands at padding changes nothing."""
    model = as_policy_model(make(), shifted=shifted).eval()
    ids = torch.arange(4, 14)[None]
    changed = ids.clone()
    changed[0, :2] = 20
    real, marked = torch.arange(10)[None] >= 2, torch.arange(10)[None] >= 4
    logits = [model(one, real, marked).logits for one in (ids, changed)]
    torch.testing.assert_close(*logits)
    assert not torch.allclose(*(model(one, None, marked).logits for one in (ids, changed)))


@pytest.mark.parametrize(("make", "plain"), [(bert, bert_model), (dream, dream_model)])
def test_what_is_saved_is_the_model_without_the_adapter(make, plain, tmp_path) -> None:
    run = trained(tmp_path, make(), **SAVING)
    run.save_model(str(tmp_path / "end"))
    for folder in ("end", "checkpoint-2"):
        again = type(plain(0)).from_pretrained(tmp_path / folder)
        assert again.config.mask_token_id == tokenizer().mask_token_id
        found = weights(again)
        assert found.keys() == weights(plain(0)).keys()
        assert all(torch.equal(value, found[name]) for name, value in weights(run.model.model).items())


@pytest.mark.parametrize(("make", "plain"), [(bert_with_lora, bert_model), (dream_with_lora, dream_model)])
def test_only_lora_trains_and_is_saved_for_the_plain_model(make, plain, tmp_path) -> None:
    before = weights(model := make())
    trained(tmp_path, model, **SAVING, learning_rate=1e-2)
    changed = moved_from(before, model)
    assert changed and changed == {name for name, value in model.named_parameters() if value.requires_grad}
    files = {path.name for path in (tmp_path / "checkpoint-2").glob("*model*.safetensors")}
    assert files == {"adapter_model.safetensors"}
    assert len(load_file(tmp_path / "checkpoint-2" / "adapter_model.safetensors")) == len(changed)
    again = PeftModel.from_pretrained(plain(), str(tmp_path / "checkpoint-2"))
    ids = torch.arange(4, 12)[None]
    with torch.no_grad():
        assert torch.equal(again.eval()(input_ids=ids).logits, model.model.eval()(input_ids=ids).logits)


def test_a_lora_on_llada_needs_no_adapter() -> None:
    model = add_lora(tiny_training.warm_model(), r=2)
    assert as_policy_model(model) is model


def test_supervised_training_asks_for_the_mask_token(tmp_path) -> None:
    model = bert()
    del model.model.config.mask_token_id
    with pytest.raises(ValueError, match=r"BertConfig has no mask_token_id; set .*config\.mask_token_id"):
        tiny_training.sft_trainer(tmp_path, model)


def test_the_example_runs_as_it_stands(tmp_path, monkeypatch) -> None:
    for each in (tiny_text.text_model(), tiny_text.tokenizer()):
        each.save_pretrained(tmp_path / "my-writer")
    names = run_page(PAGE, tmp_path, monkeypatch, model=bert_model(), tokenizer=tokenizer())
    assert names["trainer"].state.global_step == 2
    PeftModel.from_pretrained(bert_model(), str(tmp_path / "runs" / "my_run" / "end"))
