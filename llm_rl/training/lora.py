"""LoRA adapters on a language model, through PEFT (Hu et al. 2021, arXiv:2106.09685).

A frozen weight W of shape (out, in) acts as W + (alpha / r) B A with A (r, in) and B (out, r); only A and B train, and
only they are saved. B starts at zero, so the adapted model starts as the base. PEFT is the extra `lora`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import nn
from transformers import PreTrainedModel

if TYPE_CHECKING:
    from peft import PeftModel


def add_lora(
    model: PreTrainedModel,
    *,
    r: int = 16,
    alpha: int = 32,
    dropout: float = 0.0,
    target_modules: Sequence[str] | None = None,
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
        target_modules: Last names of the linear layers to adapt. None: the model's own `lora_target_modules`, which
            LLaDA has, every matrix of its blocks.

    Returns:
        The model inside PEFT's wrapper. `save_pretrained` writes the adapters alone; `PeftModel.from_pretrained(base,
        folder)` brings them back, `merge_and_unload()` adds them to the weights.

    Raises:
        ModuleNotFoundError: PEFT is not installed.
        ValueError: `r`, `alpha` or `dropout` is out of range, or the model has no layer of a name in `target_modules`
            or no names of its own.
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
    names = getattr(model, "lora_target_modules", None) if target_modules is None else target_modules
    if not names or (missing := [name for name in names if name not in present]):
        linear = sorted(
            {name.rsplit(".", 1)[-1] for name, module in model.named_modules() if isinstance(module, nn.Linear)}
        )
        wrong = f"; it has no {missing}" if names else ""
        raise ValueError(f"target_modules={names}: name linear layers of the model, which are {linear}{wrong}")
    config = LoraConfig(
        r=r, lora_alpha=alpha, lora_dropout=dropout, target_modules=list(names), exclude_modules=excluded
    )
    return get_peft_model(model, config)
