"""The configuration of LLaDA, with the keys of the published checkpoints."""

from typing import ClassVar

from transformers import PreTrainedConfig

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
    "init_fn": "mitchell",
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
        mask_token_id: The id that stands for a masked position.
        n_loops: How often a pass goes through the blocks, from the first to the last each time (the looped or universal
            transformer, Dehghani et al. 2019, arXiv:1807.03819); 1 is the published models'.
        **kwargs: Further keys. Published keys whose value would change the architecture in a way that is not
            implemented here (for instance `alibi=True`) raise; null means the value that is. `auto_map`, the published
            pointer to remote code, is dropped.

    Raises:
        ValueError: An unsupported architecture key, sizes that do not divide, or no loop.
    """

    model_type = "llada"
    attribute_map: ClassVar = {"hidden_size": "d_model", "num_hidden_layers": "n_layers"}  # what other libraries read

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
        mask_token_id: int | None = 126336,
        n_loops: int = 1,
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
        if n_loops < 1:
            raise ValueError(f"LladaConfig: n_loops={n_loops} must be at least 1")
        self.d_model = d_model
        self.n_layers = n_layers
        self.n_loops = n_loops
        self.n_heads = n_heads
        self.n_kv_heads = n_kv_heads or n_heads
        self.mlp_hidden_size = mlp_hidden_size or mlp_ratio * d_model
        self.mlp_ratio = mlp_ratio
        self.vocab_size = vocab_size
        self.embedding_size = embedding_size or vocab_size
        self.max_sequence_length = max_sequence_length
        self.rope_theta = rope_theta
        self.rms_norm_eps = rms_norm_eps
        self.mask_token_id = mask_token_id
        super().__init__(**kwargs)
