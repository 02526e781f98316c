"""LoRA adapters on a masked language model, through PEFT (Hu et al. 2021, arXiv:2106.09685).

A frozen weight W of shape (out, in) acts as W + (alpha / r) B A with A (r, in) and B (out, r); only A and B train, and
only they are saved. B starts at zero, so the adapted model starts as the base. PEFT is the extra `lora`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from transformers import PreTrainedModel

if TYPE_CHECKING:
    from peft import PeftModel

LLADA_TARGETS = ("q_proj", "k_proj", "v_proj", "attn_out", "ff_proj", "up_proj", "ff_out")


def add_lora(
    model: PreTrainedModel,
    *,
    r: int = 16,
    alpha: int = 32,
    dropout: float = 0.0,
    target_modules: Sequence[str] = LLADA_TARGETS,
) -> PeftModel:
    """Freeze a model and put adapters on its linear layers.

    Adapters are fp32 even where the model is bfloat16. The output head gets none, although LLaDA's bears the name
    `ff_out` of the MLPs' last layer: the matrices of the blocks are adapted, not the vocabulary's.

    Args:
        model: The base, changed in place; its names and weights stay those of its folder.
        r: Rank of the adapters.
        alpha: Scale; the adapters' product counts alpha / r.
        dropout: Dropout on the adapters' inputs in training mode, in [0, 1). Roll-outs run without, so the ratio of a
            fresh roll-out is 1 at 0 only.
        target_modules: Last names of the linear layers to adapt; the default is every matrix of LLaDA's blocks.

    Returns:
        The model inside PEFT's wrapper. `save_pretrained` writes the adapters alone; `PeftModel.from_pretrained(base,
        folder)` brings them back, `merge_and_unload()` adds them to the weights.

    Raises:
        ModuleNotFoundError: PEFT is not installed.
        ValueError: `r`, `alpha` or `dropout` is out of range, or the model has no layer of a name in `target_modules`.
    """
    try:
        from peft import LoraConfig, get_peft_model
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("LoRA needs peft; install it with pip install 'sudoku-dllm[lora]'") from error
    if r < 1 or not alpha > 0 or not 0 <= dropout < 1:
        raise ValueError(f"LoRA needs r >= 1, alpha > 0 and 0 <= dropout < 1, got {r}, {alpha} and {dropout}")
    head = model.get_output_embeddings()
    excluded = [name for name, module in model.named_modules() if module is head]
    present = {name.rsplit(".", 1)[-1] for name, _ in model.named_modules() if name not in excluded}
    missing = [name for name in target_modules if name not in present]
    if missing or not target_modules:
        raise ValueError(
            f"target_modules={list(target_modules)}: name layers that the model has, not {missing}; "
            f"LLaDA's are {list(LLADA_TARGETS)}"
        )
    config = LoraConfig(
        r=r,
        lora_alpha=alpha,
        lora_dropout=dropout,
        target_modules=list(target_modules),
        exclude_modules=excluded,
    )
    return get_peft_model(model, config)
