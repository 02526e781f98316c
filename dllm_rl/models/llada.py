"""LLaDA, a masked-diffusion language model: Llama's blocks with attention in both directions.

Architecture, configuration keys and parameter names are those of the published checkpoints (Nie et al. 2025,
"Large Language Diffusion Models", arXiv:2502.09992), so a published folder loads without remote code. Two things differ
on purpose: padding is masked in attention (the published code ignores the attention mask), and logits can be asked for
at chosen positions only.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoModelForMaskedLM, PreTrainedModel
from transformers import initialization as init
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutput, MaskedLMOutput

from dllm_rl.models.llada_config import LladaConfig
from llm_rl.core._checks import promote


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

    def forward(
        self, x: Tensor, cos: Tensor, sin: Tensor, attention_mask: Tensor | None, at: Tensor | None = None
    ) -> Tensor:
        """What follows the block, `(B, L, d_model)`, or at chosen positions alone.

        Args:
            x: `(B, L, d_model)`.
            cos: `(B, 1, L, head_dim)` or `(1, 1, L, head_dim)`, from `rotary_angles`.
            sin: The same.
            attention_mask: bool `(B, 1, 1, L)`, true where attended, or None for everywhere.
            at: int64 `(B, C)`, the positions of each sequence that are asked for; None for all. Only their queries and
                what is computed from them are then computed.

        Returns:
            `(B, L, d_model)`, or `(B, C, d_model)`.
        """
        h = self.attn_norm(x)
        k = self._heads(self.k_proj(h), self.n_kv_heads)
        v = self._heads(self.v_proj(h), self.n_kv_heads)
        k = apply_rotary(k, cos, sin)
        if at is not None:
            rows = torch.arange(len(x), device=x.device)[:, None]
            x, h = x[rows, at], h[rows, at]  # (B, C, d_model)
            cos, sin = (angle.squeeze(1).expand(len(x), -1, -1)[rows, at][:, None] for angle in (cos, sin))
        attended = F.scaled_dot_product_attention(
            apply_rotary(self._heads(self.q_proj(h), self.n_heads), cos, sin),
            k,
            v,
            attn_mask=attention_mask,
            enable_gqa=self.n_kv_heads != self.n_heads,
        )
        x = x + self.attn_out(attended.transpose(1, 2).reshape(x.shape))
        h = self.ff_norm(x)
        return x + self.ff_out(F.silu(self.ff_proj(h)) * self.up_proj(h))

    def _heads(self, x: Tensor, count: int) -> Tensor:
        return x.view(*x.shape[:2], count, self.head_dim).transpose(1, 2)  # (B, count, L, head_dim)


class LladaPreTrainedModel(PreTrainedModel):
    """Shared loading, saving and initialization."""

    config_class = LladaConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ("LladaBlock",)
    _supports_sdpa = True

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        # "Mitchell": truncated normal, std 1/√fan-in, deeper blocks' outputs smaller.
        if isinstance(module, LladaRMSNorm):
            init.ones_(module.weight)
        elif isinstance(module, nn.Embedding | nn.Linear):
            std = module.weight.shape[1] ** -0.5 * getattr(module, "init_scale", 1.0)
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
        self.n_loops = config.n_loops

    def forward(
        self, input_ids: Tensor, position_ids: Tensor, attention_mask: Tensor | None, at: Tensor | None = None
    ) -> Tensor:
        """The body, without the head: hidden states `(B, L, d_model)`, or `(B, C, d_model)` at chosen positions.

        Args:
            input_ids: int64 `(B, L)`.
            position_ids: int64 `(B, L)` or `(1, L)`.
            attention_mask: bool `(B, L)`, true where attended, or None for everywhere.
            at: int64 `(B, C)`, the positions that are asked for; None for all.
        """
        keep = None if attention_mask is None else attention_mask[:, None, None, :]
        x = self.wte(input_ids)
        exact = torch.promote_types(x.dtype, torch.float32)
        cos, sin = rotary_angles(position_ids, self.head_dim, self.rope_theta, exact)
        *before, last = [*self.blocks] * self.n_loops
        for block in before:
            x = block(x, cos, sin, keep)
        return self.ln_f(last(x, cos, sin, keep, at))


def chosen_positions(mask: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The positions where a mask is true, row by row, filled up to the longest row with others.

    Args:
        mask: bool `(B, L)`.

    Returns:
        The positions, int64 `(B, C)`, rising where they are true; and row and column there of the M that are true,
        int64 `(M,)` each, row by row.
    """
    counts = mask.sum(1)
    longest, most = torch.stack([counts.max(), counts.sum()]).tolist() if len(mask) else (0, 0)  # one wait for both
    at = mask.byte().argsort(dim=1, descending=True, stable=True)[:, : max(longest, 1)]
    number, until = torch.arange(most, device=mask.device), counts.cumsum(0)
    rows = torch.searchsorted(until, number, right=True)
    return at, (rows, number - (until - counts)[rows])


class LladaModel(LladaPreTrainedModel):
    """The body and the output head, which the published checkpoints keep in one `transformer`."""

    def __init__(self, config: LladaConfig) -> None:
        super().__init__(config)
        self.transformer = LladaTransformer(config)
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
        hidden_mask: Tensor | None = None,
        **_: object,
    ) -> BaseModelOutput:
        """Hidden states after the last norm, `(B, L, d_model)`, or where they are asked for.

        Args:
            input_ids: int64 `(B, L)`.
            attention_mask: `(B, L)`, non-zero where a token is real; None means everywhere. Padding on either side
                changes nothing at the real positions.
            position_ids: int64 `(B, L)`; by default real tokens are counted from 0 in each row.
            hidden_mask: bool `(B, L)`: hidden states only where true, `(hidden_mask.sum(), d_model)` in row-major
                order. The last block then computes no more than these need; its keys and values are those of all.

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
        at, chosen = (None, None) if hidden_mask is None else chosen_positions(hidden_mask)
        hidden = self.transformer(input_ids, position_ids, keep, at)
        return BaseModelOutput(last_hidden_state=hidden if chosen is None else hidden[chosen])


class LladaForMaskedLM(LladaPreTrainedModel):
    """LLaDA with its output head; logits are not shifted: those at a position are for that position."""

    lora_target_modules = ("q_proj", "k_proj", "v_proj", "attn_out", "ff_proj", "up_proj", "ff_out")
    """The matrices of the blocks, which `llm_rl.training.lora.add_lora` adapts where nothing else is asked for."""

    def __init__(self, config: LladaConfig) -> None:
        super().__init__(config)
        self.model = LladaModel(config)
        self.post_init()

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
        **_: object,
    ) -> MaskedLMOutput:
        """Logits in fp32, everywhere or at chosen positions.

        Args:
            input_ids: int64 `(B, L)`.
            attention_mask: `(B, L)`, as `LladaModel.forward` takes it.
            position_ids: int64 `(B, L)`, as `LladaModel.forward` takes them.
            labels: int64 `(B, L)`, -100 where no loss is wanted: mean cross-entropy over the others.
            logits_mask: bool `(B, L)`: compute logits only where true, in row-major order. Not together with `labels`.

        Returns:
            `logits` is `(B, L, V)`, or `(logits_mask.sum(), V)` with a mask.
        """
        if labels is not None and logits_mask is not None:
            raise ValueError("labels need logits everywhere; pass either labels or logits_mask")
        hidden = self.model(input_ids, attention_mask, position_ids, logits_mask).last_hidden_state
        logits = self.model.transformer.ff_out(hidden)
        loss = None if labels is None else F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return MaskedLMOutput(loss=loss, logits=logits)


AutoConfig.register("llada", LladaConfig, exist_ok=True)
AutoModel.register(LladaConfig, LladaModel, exist_ok=True)
AutoModelForMaskedLM.register(LladaConfig, LladaForMaskedLM, exist_ok=True)
