"""What trainers ask of a causal language model: log-probabilities of sampled tokens, and its frozen reference."""

import copy
import inspect
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from llm_rl.core import TokenStatistics, next_token_statistics, token_statistics
from llm_rl.data import RolloutBatch


def causal_model(model: nn.Module) -> Any:
    """The causal language model inside PEFT's wrapper, or the model itself; adapters stay in place.

    Raises:
        ValueError: The adapters are virtual tokens, which live in the wrapper.
    """
    if not hasattr(model, "get_base_model"):
        return model
    if getattr(model.active_peft_config, "is_prompt_learning", False):
        raise ValueError("prompt-learning adapters are not supported; use adapters inside the layers, such as LoRA")
    return model.get_base_model()  # type: ignore[operator]


class PolicyScorer:
    """Statistics of completion tokens given what stands before them.

    Where the model's logits are its output head on its last hidden state, which is tried out once, the logits of all
    tokens are never held together (`core.next_token_statistics`); a model that does more (a soft cap, a scale) is asked
    for the logits of the completion.

    Args:
        model: A causal language model of transformers, or PEFT's wrapper of one.
        temperature: Of sampling, > 0.

    Attributes:
        plain_head: Whether the first way is taken.
    """

    def __init__(self, model: nn.Module, temperature: float) -> None:
        causal = causal_model(model)
        self.temperature = temperature
        self._takes_positions = "position_ids" in inspect.signature(causal.forward).parameters
        self.plain_head = self._is_plain(causal)

    @staticmethod
    @torch.no_grad()
    def _is_plain(causal: Any) -> bool:
        head = causal.get_output_embeddings()
        if type(head) is not nn.Linear or causal.base_model is causal:
            return False
        training = causal.training
        causal.eval()
        ids = torch.arange(4, device=causal.device).unsqueeze(0) % head.weight.shape[0]
        hidden = causal.base_model(input_ids=ids, use_cache=False).last_hidden_state
        logits = causal(input_ids=ids, use_cache=False).logits
        causal.train(training)
        return hidden.shape[-1] == head.weight.shape[1] and torch.allclose(head(hidden).to(logits.dtype), logits)

    def __call__(self, model: nn.Module, batch: RolloutBatch) -> TokenStatistics:
        """Log-probabilities and entropies `(B, T)` of the completion tokens; anything at padding.

        Positions count from the first token of a prompt, whatever the padding before it.
        """
        causal = causal_model(model)
        keep = batch.completion_ids.shape[1]
        ids = torch.cat([batch.prompt_ids, batch.completion_ids], 1)  # (B, P + T)
        mask = torch.cat([batch.prompt_mask, batch.completion_mask], 1).long()
        inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": mask, "use_cache": False}
        if self._takes_positions:
            inputs["position_ids"] = (mask.cumsum(1) - 1).clamp(min=0)
        if not self.plain_head:
            logits = causal(**inputs).logits[:, -keep - 1 : -1]
            return token_statistics(logits, batch.completion_ids, temperature=self.temperature)
        head = causal.get_output_embeddings()
        hidden = causal.base_model(**inputs).last_hidden_state.to(head.weight.dtype)
        return next_token_statistics(hidden, head.weight, ids, keep=keep, bias=head.bias, temperature=self.temperature)


class ReferenceModel:
    """The policy that a divergence holds training to: a copy, PEFT's base with the adapters off, or a given model.

    Args:
        model: The policy at the start of training.
        temperature: Of sampling, > 0.
        ref_model: Another reference. None: the policy as it is now; with adapters, without them.
    """

    def __init__(self, model: nn.Module, temperature: float, ref_model: nn.Module | None = None) -> None:
        self._adapted = ref_model is None and hasattr(model, "disable_adapter")
        self.model: Any = model
        if not self._adapted:
            frozen = copy.deepcopy(model) if ref_model is None else ref_model
            self.model = frozen.requires_grad_(False).to(next(model.parameters()).device)
        self._score = PolicyScorer(self.model, temperature)

    @torch.no_grad()
    def logprobs(self, batch: RolloutBatch) -> Tensor:
        """Log-probabilities `(B, T)` of the completion tokens under the reference, in evaluation mode."""
        training = self.model.training
        self.model.eval()
        try:
            with self.model.disable_adapter() if self._adapted else nullcontext():
                return self._score(self.model, batch).logprobs
        finally:
            self.model.train(training)
