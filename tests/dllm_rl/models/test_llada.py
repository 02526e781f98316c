import math
import re

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoConfig, AutoModel, AutoModelForMaskedLM

from dllm_rl.models.llada import LladaForMaskedLM, LladaModel, LladaRMSNorm, apply_rotary, rotary_angles
from dllm_rl.models.llada_config import LladaConfig
from tests.dllm_rl.helpers.tiny_llada import make_model
from tests.helpers.refusals import refused


def ids(batch: int, length: int, vocabulary: int = 105) -> Tensor:
    return torch.randint(3, vocabulary, (batch, length), generator=torch.Generator().manual_seed(1))


def test_the_defaults_are_those_of_the_8b_model() -> None:
    config = LladaConfig()
    assert (config.d_model, config.n_layers, config.n_heads, config.n_kv_heads) == (4096, 32, 32, 32)
    assert (config.mlp_hidden_size, config.vocab_size, config.embedding_size) == (12288, 126464, 126464)
    assert (config.max_sequence_length, config.rope_theta, config.mask_token_id) == (4096, 500000.0, 126336)
    assert (config.hidden_size, config.num_hidden_layers) == (4096, 32)
    with torch.device("meta"):
        assert sum(parameter.numel() for parameter in LladaForMaskedLM(config).parameters()) == 8_015_581_184


def test_null_stands_for_what_is_implemented() -> None:
    config = LladaConfig(bias_for_layer_norm=None, include_qkv_bias=None)
    assert config.bias_for_layer_norm is False and config.include_qkv_bias is False


def test_sizes_left_out_are_derived() -> None:
    config = LladaConfig(d_model=32, n_heads=4, n_kv_heads=None, mlp_hidden_size=None, mlp_ratio=3, vocab_size=7)
    assert (config.n_kv_heads, config.mlp_hidden_size, config.embedding_size) == (4, 96, 7)


def test_attention_goes_both_ways() -> None:
    model, tokens = make_model(), ids(1, 8)
    changed = tokens.clone()
    changed[0, -1] = 3 if tokens[0, -1] != 3 else 4
    with torch.no_grad():
        difference = (model(tokens).logits - model(changed).logits).abs().amax(-1)[0]
    assert bool((difference > 1e-5).all())


@pytest.mark.parametrize("n_kv_heads", [4, 2])
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_changes_nothing_at_real_positions(side, n_kv_heads) -> None:
    model, tokens = make_model(n_kv_heads=n_kv_heads), ids(3, 10)
    mask = torch.zeros(3, 10, dtype=torch.int64)
    for row, length in enumerate((10, 7, 4)):
        mask[row, slice(0, length) if side == "right" else slice(10 - length, 10)] = 1
    with torch.no_grad():
        padded = model(tokens, attention_mask=mask).logits
        assert torch.equal(padded, model(tokens, attention_mask=mask.bool()).logits)
        for row, real in enumerate(mask.bool()):
            alone = model(tokens[row : row + 1, real]).logits[0]
            torch.testing.assert_close(padded[row, real], alone, atol=1e-5, rtol=1e-5)
    assert bool(torch.isfinite(padded).all())


def test_positions_may_be_given() -> None:
    model, tokens = make_model(), ids(1, 6)
    with torch.no_grad():
        plain = model(tokens).logits
        shifted = model(tokens, position_ids=torch.arange(5, 11)[None]).logits
        stretched = model(tokens, position_ids=2 * torch.arange(6)[None]).logits
    torch.testing.assert_close(plain, shifted, atol=1e-5, rtol=1e-5)  # rotary angles are relative
    assert float((plain - stretched).abs().max()) > 1e-4


def test_rotary_by_hand() -> None:
    """Pairs (0, 2) and (1, 3) turn by the position times 1 and times θ^(−1/2)."""
    cos, sin = rotary_angles(torch.tensor([[0, 3]]), head_dim=4, theta=100.0)
    x = torch.tensor([1.0, 2.0, 3.0, 4.0]).expand(1, 1, 2, 4)
    first, second = apply_rotary(x, cos, sin)[0, 0]
    torch.testing.assert_close(first, x[0, 0, 0])
    c, s, slow_c, slow_s = math.cos(3), math.sin(3), math.cos(0.3), math.sin(0.3)
    expected = torch.tensor([c - 3 * s, 2 * slow_c - 4 * slow_s, s + 3 * c, 2 * slow_s + 4 * slow_c])
    torch.testing.assert_close(second, expected)


def test_rms_norm_by_hand() -> None:
    norm = LladaRMSNorm(2, eps=0.5)
    with torch.no_grad():
        norm.weight.copy_(torch.tensor([1.0, 2.0]))
    torch.testing.assert_close(norm(torch.tensor([3.0, 4.0])), torch.tensor([3.0, 8.0]) / math.sqrt(12.5 + 0.5))


@pytest.mark.parametrize("kv_heads", [1, 2])
@pytest.mark.parametrize("padded", [False, True])
def test_logits_at_chosen_positions_are_those_of_all_with_their_gradients(kv_heads, padded) -> None:
    model, tokens = make_model(n_kv_heads=kv_heads), ids(4, 8)
    real = torch.ones(4, 8, dtype=torch.bool)
    real[1, :3], real[2, 6:] = False, False
    chosen = torch.zeros(4, 8, dtype=torch.bool)
    for row, places in enumerate(([0, 3, 4, 7], [3, 6], [0, 1, 5])):  # none in the last row
        chosen[row, places] = True
    keep = {"attention_mask": real} if padded else {}
    full, some = model(tokens, **keep).logits[chosen], model(tokens, logits_mask=chosen, **keep).logits
    assert some.shape == (int(chosen.sum()), 105)
    torch.testing.assert_close(some, full, atol=1e-6, rtol=1e-6)
    parameters = [value for value in model.parameters() if value.requires_grad]
    found, expected = (torch.autograd.grad(each.sin().sum(), parameters) for each in (some, full))
    for one, other in zip(found, expected, strict=True):
        assert float((one - other).abs().max()) < 1e-5 * max(1.0, float(other.abs().max()))


def test_where_nothing_is_chosen_nothing_comes() -> None:
    model, tokens = make_model(), ids(2, 8)
    none = torch.zeros(2, 8, dtype=torch.bool)
    assert model(tokens, logits_mask=none).logits.shape == (0, 105)
    assert model(tokens[:0], logits_mask=none[:0]).logits.shape == (0, 105)


def test_the_last_block_has_queries_at_chosen_positions_alone() -> None:
    model, tokens = make_model(), ids(2, 8)
    chosen = torch.zeros(2, 8, dtype=torch.bool)
    chosen[0, [1, 5, 6]], chosen[1, 7] = True, True
    rows = []
    last = model.model.transformer.blocks[-1]
    for linear in (last.q_proj, last.k_proj, last.ff_out):
        linear.register_forward_hook(lambda module, args, output: rows.append(output.shape[:2]))
    model(tokens, logits_mask=chosen)
    assert sorted(map(tuple, rows)) == [(2, 3), (2, 3), (2, 8)]
    body = model.model(tokens, hidden_mask=chosen).last_hidden_state
    torch.testing.assert_close(body, model.model(tokens).last_hidden_state[chosen], atol=1e-6, rtol=1e-6)


def test_labels_give_the_mean_cross_entropy_of_positions_that_count() -> None:
    model, tokens = make_model(), ids(2, 6)
    labels = tokens.clone()
    labels[:, ::2] = -100
    output = model(tokens, labels=labels)
    log_p = output.logits.log_softmax(-1)
    chosen = [-log_p[row, col, tokens[row, col]] for row in range(2) for col in (1, 3, 5)]
    torch.testing.assert_close(output.loss, torch.stack(chosen).mean())
    refused("either labels or logits_mask", lambda: model(tokens, labels=labels, logits_mask=labels >= 0))


@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")
def test_gradient_checkpointing_gives_the_same_gradients() -> None:
    model, tokens = make_model().train(), ids(2, 8)
    mask = torch.ones(2, 8, dtype=torch.bool)
    mask[0, :3] = False
    calls: list[int] = []
    model.model.transformer.blocks[0].q_proj.register_forward_hook(lambda *_: calls.append(1))

    def gradients() -> tuple[Tensor, ...]:
        loss = model(tokens, attention_mask=mask, labels=tokens).loss
        return torch.autograd.grad(loss, list(model.parameters()))

    plain = gradients()
    model.gradient_checkpointing_enable()
    assert model.is_gradient_checkpointing
    torch.testing.assert_close(gradients(), plain, atol=1e-6, rtol=1e-5)
    assert len(calls) == 1 + 2  # the checkpointed forward is repeated in the backward


def test_saved_models_come_back_through_the_auto_classes(tmp_path) -> None:
    model = make_model(rope_theta=100.0)
    model.save_pretrained(tmp_path)
    assert set(load_file(tmp_path / "model.safetensors")) == set(model.state_dict())
    tokens = ids(2, 7)
    again = AutoModelForMaskedLM.from_pretrained(tmp_path).eval()
    body = AutoModel.from_pretrained(tmp_path).eval()
    config = AutoConfig.from_pretrained(tmp_path)
    assert type(again) is LladaForMaskedLM and type(body) is LladaModel and type(config) is LladaConfig
    assert (config.rope_theta, config.init_fn, config.n_kv_heads) == (100.0, "mitchell", 2)
    with torch.no_grad():
        assert torch.equal(again(tokens).logits, model(tokens).logits)
        assert torch.equal(body(tokens).last_hidden_state, model.model(tokens).last_hidden_state)


def test_a_half_precision_body_gives_logits_in_fp32() -> None:
    model, tokens = make_model(), ids(2, 8)
    reference = model(tokens).logits
    output = model.to(torch.bfloat16)(tokens)
    assert output.logits.dtype == torch.float32
    assert model.model(tokens).last_hidden_state.dtype == torch.bfloat16
    assert not torch.equal(output.logits.bfloat16().float(), output.logits)
    torch.testing.assert_close(output.logits, reference, atol=0.15, rtol=0.1)


def test_a_double_precision_model_computes_in_it_throughout() -> None:
    model = make_model().double()
    weight, tokens, step = model.model.transformer.wte.weight, ids(1, 8), 1e-6
    loss = model(tokens).logits[0, 3, 5]
    (gradient,) = torch.autograd.grad(loss, weight)
    with torch.no_grad():
        weight[tokens[0, 0], 2] += step
        higher = model(tokens).logits[0, 3, 5]
        weight[tokens[0, 0], 2] -= 2 * step
        slope = (higher - model(tokens).logits[0, 3, 5]) / (2 * step)
    assert loss.dtype == torch.float64
    # In fp32 the difference of two logits so near to each other is off by a few percent.
    torch.testing.assert_close(slope, gradient[tokens[0, 0], 2], atol=0, rtol=1e-7)


def test_autocast_leaves_the_head_in_fp32() -> None:
    model, tokens = make_model(), ids(2, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        hidden, logits = model.model(tokens).last_hidden_state, model(tokens).logits
    assert logits.dtype == torch.float32
    assert torch.equal(logits, hidden.float() @ model.get_output_embeddings().weight.T)


def test_inputs_that_are_too_long_are_refused() -> None:
    model = make_model(max_sequence_length=8)
    assert model(ids(1, 8)).logits.shape[1] == 8
    refused("9 tokens exceeds max_sequence_length=8", lambda: model(ids(1, 9)))


def spread(weight: Tensor) -> float:
    return float(weight.detach().std())


def test_mitchell_initialization() -> None:
    """Truncated normal of deviation 1/√fan-in (cut at three deviations), outputs of block n smaller by 1/√(2(n+1))."""
    model = make_model(d_model=256, n_heads=4, n_kv_heads=2, mlp_hidden_size=512, n_layers=3)
    cut = 0.98658  # deviation of a standard normal cut at ±3
    transformer = model.model.transformer
    for part in (transformer.wte, transformer.ff_out):
        assert spread(part.weight) == pytest.approx(cut * 256**-0.5, rel=0.03)
    for index, block in enumerate(transformer.blocks):
        depth = (2 * (index + 1)) ** -0.5
        for part in (block.q_proj, block.k_proj, block.ff_proj):
            assert spread(part.weight) == pytest.approx(cut * 256**-0.5, rel=0.03)
        assert spread(block.attn_out.weight) == pytest.approx(cut * depth * 256**-0.5, rel=0.03)
        assert spread(block.ff_out.weight) == pytest.approx(cut * depth * 512**-0.5, rel=0.03)
        assert float(block.ff_out.weight.detach().abs().max()) <= 3 * depth * 512**-0.5
        assert bool((block.attn_norm.weight == 1).all() and (block.ff_norm.weight == 1).all())
    assert bool((transformer.ln_f.weight == 1).all())


def test_loops_are_a_deeper_model_whose_blocks_share_their_weights() -> None:
    looped, deep = make_model(n_layers=2, n_loops=3), make_model(n_layers=6)
    weights, keys = looped.state_dict(), deep.state_dict()
    shared = {key: re.sub(r"blocks\.(\d)", lambda block: f"blocks.{int(block[1]) % 2}", key) for key in keys}
    deep.load_state_dict({key: weights[name] for key, name in shared.items()})
    inputs, some = ids(2, 8), torch.arange(16).view(2, 8) % 3 == 0
    assert torch.equal(looped(inputs).logits, deep(inputs).logits)
    for model in (looped, deep):
        model(inputs, logits_mask=some).logits.square().sum().backward()
    bodies = [model.model.transformer for model in (looped, deep)]
    for index, block in enumerate(bodies[0].blocks):
        of_deep = [each.q_proj.weight.grad for each in bodies[1].blocks[index::2]]
        torch.testing.assert_close(block.q_proj.weight.grad, sum(of_deep))


def test_embeddings_can_be_replaced() -> None:
    model = make_model()
    wider = torch.nn.Embedding(110, 32)
    model.set_input_embeddings(wider)
    assert model.get_input_embeddings() is wider is model.model.transformer.wte
    head = torch.nn.Linear(32, 110, bias=False)
    model.set_output_embeddings(head)
    assert model.get_output_embeddings() is model.model.transformer.ff_out
    assert model.get_output_embeddings().weight is head.weight
    assert model(ids(1, 4)).logits.shape == (1, 4, 110)
    assert model.bfloat16()(ids(1, 4)).logits.dtype == torch.float32
