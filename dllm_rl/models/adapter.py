"""Any model with `(input_ids, attention_mask) → logits` as a policy's model."""

from typing import Any

import torch
from torch import Tensor, nn
from transformers.modeling_outputs import MaskedLMOutput

from dllm_rl.models.llada import LladaForMaskedLM
from llm_rl.training.wrapper import ModelWrapper


class LogitsAdapter(ModelWrapper):
    """Gives a model the call that `dllm_rl.policy.score_states` makes, for decoding and for training.

    Trainers save the model inside, with its own names and configuration. LoRA goes on that model before it is adapted.
    Prompts of different lengths are padded on the left: a model whose positions are learned and absolute sees those
    of a shorter prompt moved to the right, in training as in decoding.

    Args:
        model: Called with `input_ids` and `attention_mask`, int64 `(B, L)`; returns logits `(B, L, V)`, or an output
            that has them as `.logits`. It should attend in both directions.
        shifted: Whether the logits at position i are those of token i + 1, as in models made from next-token
            predictors (Dream, arXiv:2508.15487), rather than those of token i.
    """

    def __init__(self, model: nn.Module, *, shifted: bool = False) -> None:
        super().__init__(model)
        self.shifted = shifted

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None, logits_mask: Tensor) -> MaskedLMOutput:
        """Logits `(M, V)` of the M tokens marked in `logits_mask`, bool `(B, L)`, in row-major order.

        Raises:
            TypeError: The model returns neither a tensor nor an output with `.logits`.
            ValueError: The logits do not fit the input, or a first token is asked for of a shifted model.
        """
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        output: Any = self.model(input_ids=input_ids, attention_mask=attention_mask.long())
        logits = output if isinstance(output, Tensor) else getattr(output, "logits", None)
        if not isinstance(logits, Tensor):
            raise TypeError(
                f"{type(self.model).__name__} returned {type(output).__name__}, not logits or an output with .logits; "
                "load it with its language-model head"
            )
        if logits.ndim != 3 or logits.shape[:2] != input_ids.shape:
            raise ValueError(
                f"{type(self.model).__name__} returned logits {tuple(logits.shape)} for input_ids "
                f"{tuple(input_ids.shape)}; expected (B, L, V), one row of V logits for every token"
            )
        if logits.shape[-1] <= int(input_ids.max()):
            raise ValueError(
                f"{type(self.model).__name__} has logits for {logits.shape[-1]} tokens, but the input holds token "
                f"{int(input_ids.max())}; use the tokenizer that belongs to the model"
            )
        if not self.shifted:
            return MaskedLMOutput(logits=logits[logits_mask])
        if bool(logits_mask[:, 0].any()):
            raise ValueError("a model with shifted logits cannot predict the first token; put a prompt before it")
        return MaskedLMOutput(logits=logits[:, :-1][logits_mask[:, 1:]])


def as_policy_model(model: nn.Module, *, shifted: bool = False) -> nn.Module:
    """The model as `score_states` needs it: a native LLaDA as it is, any other one in a `LogitsAdapter`.

    Args:
        model: A model as `LogitsAdapter` takes it, or a LLaDA, either with or without PEFT's adapters.
        shifted: Whether the logits at position i are those of token i + 1.
    """
    base: Any = getattr(model, "get_base_model", lambda: model)()
    return model if isinstance(base, LladaForMaskedLM) and not shifted else LogitsAdapter(model, shifted=shifted)
