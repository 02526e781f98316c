"""torch.compile for policies whose passes differ in size.

The passes of roll-outs and updates have as many sequences as there are distinct states, and as many rows of logits as
these have masked positions; compiled as a whole, a model would be compiled again for nearly every pass. So the body
alone is compiled, for one number of sequences: a pass is cut into parts of that size and the last one is filled up.
Head and selection of positions stay outside. What is left is one compilation for each length of sequences and each
mode, roll-outs (no gradient, evaluation mode) and updates.
"""

from collections.abc import Callable

import torch
from torch import nn

from dllm_rl.models.llada import LladaModel


def compile_body(model: nn.Module, rows: int, backend: str | Callable = "inductor") -> None:
    """Compile the body of a LLaDA in place, for parts of `rows` sequences; names and values of weights stay.

    Padding is always passed as an attention mask, so results equal those of the eager model up to rounding. Copies by
    `copy.deepcopy` are eager but still take sequences in parts.

    Args:
        model: A `LladaForMaskedLM`, or a module that holds one, e.g. with LoRA adapters.
        rows: Sequences of a part. Passes of `max_tokens // length` sequences fill parts of that size.
        backend: Backend of `torch.compile`; "inductor" needs a C++ compiler on CPU.

    Raises:
        ValueError: `rows` is below 1, or the blocks checkpoint their activations.
        TypeError: The model holds no LLaDA.
    """
    if rows < 1:
        raise ValueError(f"rows={rows} must be at least 1: it is the number of sequences of a compiled pass")
    bodies = [module for module in model.modules() if isinstance(module, LladaModel)]
    if not bodies:
        raise TypeError(f"{type(model).__name__} holds no LladaModel; only a LLaDA's body can be compiled this way")
    for body in bodies:
        if any(block.gradient_checkpointing for block in body.transformer.blocks):
            raise ValueError("a body with gradient checkpointing cannot be compiled; leave one of the two out")
        body.fixed_rows = rows
        body.transformer.compile(backend=backend, dynamic=False)


def compilations() -> int:
    """Graphs that torch has compiled in this process so far, over all models."""
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]
