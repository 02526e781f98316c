"""LLaDA, a masked-diffusion language model: Llama's blocks with attention in both directions.

Architecture, configuration keys and parameter names are those of the published checkpoints (Nie et al. 2025,
"Large Language Diffusion Models", arXiv:2502.09992), so a published folder loads without remote code. Two things differ
on purpose: padding is masked in attention (the published code ignores the attention mask), and logits can be asked for
at chosen positions only.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoModelForMaskedLM, PreTrainedConfig, PreTrainedModel
from transformers import initialization as init
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutput, MaskedLMOutput

from llm_rl.core._checks import promote

_REQUIRED = {
    "block_type": "llama",
    "activation_type": "silu",
    "block_group_size": 1,
    "layer_norm_type": "rms",
    "layer_norm_with_affine": True,
    "bias_for_layer_norm": False,
    "rope": True,
    "rope_full_precision": True,
    "alibi": False,
    "include_bias": False,
    "include_qkv_bias": False,
    "attention_layer_norm": False,
    "input_emb_norm": False,
    "scale_logits": False,
    "weight_tying": False,
    "multi_query_attention": None,
    "attention_dropout": 0.0,
    "embedding_dropout": 0.0,
    "residual_dropout": 0.0,
}


class LladaConfig(PreTrainedConfig):
    """Configuration with the keys of the published checkpoints; the defaults are LLaDA-8B's.

    Args:
        d_model: Width of the residual stream.
        n_layers: Number of blocks.
        n_heads: Attention heads; `d_model / n_heads` must be even.
        n_kv_heads: Key-value heads, a divisor of `n_heads`; None means `n_heads`.
        mlp_hidden_size: Width of the gated MLP; None means `mlp_ratio * d_model`.
        mlp_ratio: Width of the gated MLP over `d_model`, where `mlp_hidden_size` is None.
        vocab_size: Number of token ids.
        embedding_size: Rows of the embedding and of the head; None means `vocab_size`.
        max_sequence_length: Longest input; longer ones raise.
        rope_theta: Base of the rotary frequencies.
        rms_norm_eps: Epsilon of RMSNorm.
        init_fn: "mitchell" (truncated normal, std 1/√fan-in, deeper blocks' outputs smaller) or "normal" (`init_std`).
        init_std: Standard deviation of the "normal" initialization.
        mask_token_id: The id that stands for a masked position.
        **kwargs: Further keys. Published keys whose value would change the architecture in a way that is not
            implemented here (for instance `alibi=True`) raise; null means the value that is. `auto_map`, the published
            pointer to remote code, is dropped.

    Raises:
        ValueError: An unsupported architecture key, or sizes that do not divide.
    """

    model_type = "llada"

    def __init__(
        self,
        d_model: int = 4096,
        n_layers: int = 32,
        n_heads: int = 32,
        n_kv_heads: int | None = None,
        mlp_hidden_size: int | None = 12288,
        mlp_ratio: int = 4,
        vocab_size: int = 126464,
        embedding_size: int | None = None,
        max_sequence_length: int = 4096,
        rope_theta: float = 500000.0,
        rms_norm_eps: float = 1e-5,
        init_fn: str = "mitchell",
        init_std: float = 0.02,
        mask_token_id: int | None = 126336,
        **kwargs: object,
    ) -> None:
        kwargs.pop("auto_map", None)
        for key in ("rope_scaling", "rope_parameters"):
            if (value := kwargs.pop(key, None)) is not None:
                raise ValueError(f"LladaConfig: {key}={value!r} is not supported, only None")
        for key, value in _REQUIRED.items():
            if kwargs.get(key) is None:
                kwargs[key] = value
            if kwargs[key] != value:
                raise ValueError(f"LladaConfig: {key}={kwargs[key]!r} is not supported, only {value!r}")
        if d_model % n_heads or (d_model // n_heads) % 2:
            raise ValueError(f"LladaConfig: d_model={d_model} must be an even multiple of n_heads={n_heads}")
        if n_heads % (n_kv_heads or n_heads):
            raise ValueError(f"LladaConfig: n_heads={n_heads} is not a multiple of n_kv_heads={n_kv_heads}")
        if init_fn not in ("mitchell", "normal"):
            raise ValueError(f"LladaConfig: init_fn={init_fn!r} is not supported; use 'mitchell' or 'normal'")
        self.d_model = d_model
        self.n_layers = n_layers
        self.n_heads = n_heads
        self.n_kv_heads = n_kv_heads or n_heads
        self.mlp_hidden_size = mlp_hidden_size or mlp_ratio * d_model
        self.mlp_ratio = mlp_ratio
        self.vocab_size = vocab_size
        self.embedding_size = embedding_size or vocab_size
        self.max_sequence_length = max_sequence_length
        self.rope_theta = rope_theta
        self.rms_norm_eps = rms_norm_eps
        self.init_fn = init_fn
        self.init_std = init_std
        self.mask_token_id = mask_token_id
        super().__init__(**kwargs)

    @property
    def hidden_size(self) -> int:
        """`d_model`, under the name that other libraries look for."""
        return self.d_model

    @property
    def num_hidden_layers(self) -> int:
        """`n_layers`, under the name that other libraries look for."""
        return self.n_layers


class LladaRMSNorm(nn.Module):
    """Root-mean-square normalization in fp32 or fp64, cast back, times a weight (Zhang and Sennrich 2019)."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """`(..., width)` → the same shape and dtype."""
        normalized = F.rms_norm(promote(x), (x.shape[-1],), eps=self.eps)
        return self.weight * normalized.to(x.dtype)


def rotary_angles(
    position_ids: Tensor, head_dim: int, theta: float, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    """Cosine and sine of the rotary embedding (Su et al. 2021), half-split, each `(B, 1, L, head_dim)` of `dtype`."""
    exponent = torch.arange(0, head_dim, 2, dtype=dtype, device=position_ids.device) / head_dim
    angle = position_ids[:, None, :, None].to(dtype) * theta**-exponent  # (B, 1, L, head_dim / 2)
    angle = torch.cat([angle, angle], dim=-1)
    return angle.cos(), angle.sin()


def apply_rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate `(B, heads, L, head_dim)` in fp32 or fp64 and cast back."""
    exact = promote(x)
    first, second = exact.chunk(2, dim=-1)
    return (exact * cos + torch.cat([-second, first], dim=-1) * sin).to(x.dtype)


class LladaHead(nn.Linear):
    """Output head without bias: logits in fp32, or fp64 if the model is, also under autocast."""

    def forward(self, x: Tensor) -> Tensor:
        """`(..., d_model)` → `(..., embedding_size)`."""
        with torch.autocast(x.device.type, enabled=False):
            return F.linear(promote(x), promote(self.weight))


class LladaBlock(GradientCheckpointingLayer):
    """Pre-norm block: attention without a causal mask, then a SiLU-gated MLP."""

    def __init__(self, config: LladaConfig, layer_index: int) -> None:
        super().__init__()
        self.n_heads, self.n_kv_heads = config.n_heads, config.n_kv_heads
        self.head_dim = config.d_model // config.n_heads
        kv_width = self.n_kv_heads * self.head_dim
        self.attn_norm = LladaRMSNorm(config.d_model, config.rms_norm_eps)
        self.ff_norm = LladaRMSNorm(config.d_model, config.rms_norm_eps)
        self.q_proj = nn.Linear(config.d_model, config.d_model, bias=False)
        self.k_proj = nn.Linear(config.d_model, kv_width, bias=False)
        self.v_proj = nn.Linear(config.d_model, kv_width, bias=False)
        self.attn_out = nn.Linear(config.d_model, config.d_model, bias=False)
        self.ff_proj = nn.Linear(config.d_model, config.mlp_hidden_size, bias=False)
        self.up_proj = nn.Linear(config.d_model, config.mlp_hidden_size, bias=False)
        self.ff_out = nn.Linear(config.mlp_hidden_size, config.d_model, bias=False)
        for output in (self.attn_out, self.ff_out):
            output.init_scale = (2 * (layer_index + 1)) ** -0.5

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, attention_mask: Tensor | None) -> Tensor:
        """`(B, L, d_model)` → the same; `attention_mask` is bool `(B, 1, 1, L)`, true where attended, or None."""
        batch, length, width = x.shape
        h = self.attn_norm(x)
        q = self.q_proj(h).view(batch, length, self.n_heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(h).view(batch, length, self.n_kv_heads, self.head_dim).transpose(1, 2)
        v = self.v_proj(h).view(batch, length, self.n_kv_heads, self.head_dim).transpose(1, 2)
        attended = F.scaled_dot_product_attention(
            apply_rotary(q, cos, sin),
            apply_rotary(k, cos, sin),
            v,
            attn_mask=attention_mask,
            enable_gqa=self.n_kv_heads != self.n_heads,
        )
        x = x + self.attn_out(attended.transpose(1, 2).reshape(batch, length, width))
        h = self.ff_norm(x)
        return x + self.ff_out(F.silu(self.ff_proj(h)) * self.up_proj(h))


class LladaPreTrainedModel(PreTrainedModel):
    """Shared loading, saving and initialization."""

    config_class = LladaConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ("LladaBlock",)
    _supports_sdpa = True

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        # One leaf at a time: the library skips modules that hold no parameters of their own.
        if isinstance(module, LladaRMSNorm):
            init.ones_(module.weight)
        elif isinstance(module, nn.Embedding | nn.Linear):
            fan_in = module.weight.shape[1]
            std = fan_in**-0.5 * getattr(module, "init_scale", 1.0)
            if self.config.init_fn == "normal":
                std = self.config.init_std
            init.trunc_normal_(module.weight, mean=0.0, std=std, a=-3 * std, b=3 * std)


class LladaTransformer(nn.Module):
    """Embedding, blocks, last norm and output head, under the names of the published checkpoints."""

    def __init__(self, config: LladaConfig) -> None:
        super().__init__()
        self.wte = nn.Embedding(config.embedding_size, config.d_model)
        self.blocks = nn.ModuleList([LladaBlock(config, index) for index in range(config.n_layers)])
        self.ln_f = LladaRMSNorm(config.d_model, config.rms_norm_eps)
        self.ff_out = LladaHead(config.d_model, config.embedding_size, bias=False)
        self.head_dim, self.rope_theta = config.d_model // config.n_heads, config.rope_theta

    def forward(self, input_ids: Tensor, position_ids: Tensor, attention_mask: Tensor | None) -> Tensor:
        """The body, without the head: hidden states `(B, L, d_model)`.

        Args:
            input_ids: int64 `(B, L)`.
            position_ids: int64 `(B, L)` or `(1, L)`.
            attention_mask: bool `(B, L)`, true where attended, or None for everywhere.
        """
        keep = None if attention_mask is None else attention_mask[:, None, None, :]
        x = self.wte(input_ids)
        exact = torch.promote_types(x.dtype, torch.float32)
        cos, sin = rotary_angles(position_ids, self.head_dim, self.rope_theta, exact)
        for block in self.blocks:
            x = block(x, cos, sin, keep)
        return self.ln_f(x)


def fixed_size_parts(
    input_ids: Tensor, position_ids: Tensor, attention_mask: Tensor | None, rows: int
) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Cut B sequences into parts of exactly `rows`, the last filled up with copies of the first sequence.

    Args:
        input_ids: int64 `(B, L)`.
        position_ids: int64 `(B, L)` or `(1, L)`.
        attention_mask: bool `(B, L)`, or None for everywhere.
        rows: Sequences of a part.

    Returns:
        Ids, positions and mask of each part, `(rows, L)` each.
    """
    if attention_mask is None:
        attention_mask = torch.ones_like(input_ids, dtype=torch.bool)
    position_ids = position_ids.expand_as(input_ids)
    chosen = torch.arange(-(-len(input_ids) // rows) * rows, device=input_ids.device)
    parts = torch.where(chosen < len(input_ids), chosen, 0).split(rows)
    return [(input_ids[part], position_ids[part], attention_mask[part]) for part in parts]


class LladaModel(LladaPreTrainedModel):
    """The body and the output head, which the published checkpoints keep in one `transformer`."""

    def __init__(self, config: LladaConfig) -> None:
        super().__init__(config)
        self.transformer = LladaTransformer(config)
        self.fixed_rows: int | None = None  # see `dllm_rl.models.compiled`
        self.post_init()

    def get_input_embeddings(self) -> nn.Embedding:
        """The token embedding."""
        return self.transformer.wte

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        """Replace the token embedding."""
        self.transformer.wte = value

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        **_: object,
    ) -> BaseModelOutput:
        """Hidden states after the last norm, `(B, L, d_model)`.

        Args:
            input_ids: int64 `(B, L)`.
            attention_mask: `(B, L)`, non-zero where a token is real; None means everywhere. Padding on either side
                changes nothing at the real positions.
            position_ids: int64 `(B, L)`; by default real tokens are counted from 0 in each row.

        Raises:
            ValueError: The sequence is longer than `max_sequence_length`.
        """
        length = input_ids.shape[1]
        if length > self.config.max_sequence_length:
            raise ValueError(
                f"sequence of {length} tokens exceeds max_sequence_length={self.config.max_sequence_length}; shorten it"
            )
        if position_ids is None:
            if attention_mask is None:
                position_ids = torch.arange(length, device=input_ids.device).expand(1, length)
            else:
                position_ids = (attention_mask.long().cumsum(-1) - 1).clamp_min(0)
        keep = None if attention_mask is None else attention_mask.bool()
        if self.fixed_rows is None:
            return BaseModelOutput(last_hidden_state=self.transformer(input_ids, position_ids, keep))
        parts = fixed_size_parts(input_ids, position_ids, keep, self.fixed_rows)
        hidden = torch.cat([self.transformer(*part) for part in parts])
        return BaseModelOutput(last_hidden_state=hidden[: len(input_ids)])


class LladaForMaskedLM(LladaPreTrainedModel):
    """LLaDA with its output head; logits are not shifted: those at a position are for that position."""

    lora_target_modules = ("q_proj", "k_proj", "v_proj", "attn_out", "ff_proj", "up_proj", "ff_out")
    """The matrices of the blocks, which `llm_rl.training.lora.add_lora` adapts where nothing else is asked for."""

    def __init__(self, config: LladaConfig) -> None:
        super().__init__(config)
        self.model = LladaModel(config)
        self.post_init()

    def get_input_embeddings(self) -> nn.Embedding:
        """The token embedding."""
        return self.model.get_input_embeddings()

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        """Replace the token embedding."""
        self.model.set_input_embeddings(value)

    def get_output_embeddings(self) -> LladaHead:
        """The output head."""
        return self.model.transformer.ff_out

    def set_output_embeddings(self, value: nn.Linear) -> None:
        """Replace the output head by one that holds the weight of `value` and still computes in fp32."""
        head = LladaHead(value.in_features, value.out_features, bias=False, device="meta")
        head.weight = value.weight
        self.model.transformer.ff_out = head

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        labels: Tensor | None = None,
        logits_mask: Tensor | None = None,
        output_hidden_states: bool | None = None,
        **_: object,
    ) -> MaskedLMOutput:
        """Logits in fp32, everywhere or at chosen positions.

        Args:
            input_ids: int64 `(B, L)`.
            attention_mask: `(B, L)`, as `LladaModel.forward` takes it.
            position_ids: int64 `(B, L)`, as `LladaModel.forward` takes them.
            labels: int64 `(B, L)`, -100 where no loss is wanted: mean cross-entropy over the others.
            logits_mask: bool `(B, L)`: compute logits only where true, in row-major order. Not together with `labels`.
            output_hidden_states: Whether to return `hidden_states`, the last ones alone.

        Returns:
            `logits` is `(B, L, V)`, or `(logits_mask.sum(), V)` with a mask; `hidden_states` holds what the output head
            was given for them.
        """
        if labels is not None and logits_mask is not None:
            raise ValueError("labels need logits everywhere; pass either labels or logits_mask")
        hidden = self.model(input_ids, attention_mask, position_ids).last_hidden_state
        hidden = hidden if logits_mask is None else hidden[logits_mask]
        logits = self.model.transformer.ff_out(hidden)
        loss = None if labels is None else F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return MaskedLMOutput(loss=loss, logits=logits, hidden_states=(hidden,) if output_hidden_states else None)


AutoConfig.register("llada", LladaConfig, exist_ok=True)
AutoModel.register(LladaConfig, LladaModel, exist_ok=True)
AutoModelForMaskedLM.register(LladaConfig, LladaForMaskedLM, exist_ok=True)
