"""What trainers ask of a causal language model: log-probabilities of sampled tokens, and its frozen reference."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from llm_rl.core import (
    KLEstimator,
    TokenStatistics,
    approx_kl,
    chunked_kl_divergence,
    linear_token_statistics,
    token_statistics,
)
from llm_rl.rollout.arguments import AdapterReference
from llm_rl.rollout.data import RolloutBatch
from llm_rl.rollout.packing import packed_outputs, supports_packing
from llm_rl.rollout.pictures import beside_tokens
from llm_rl.rollout.shared_prompts import prompt_cache, shares_prompts
from llm_rl.training.modes import evaluation_mode
from llm_rl.training.passes import Shards, in_pass
from llm_rl.training.sharding import is_dealt, share, share_of
from llm_rl.training.wrapper import unwrapped

Result = TypeVar("Result")


def causal_model(model: nn.Module) -> Any:
    """The causal model in PEFT's wrapper or ours, adapters in place; `ValueError` where these are virtual tokens."""
    model = unwrapped(model)
    if not hasattr(model, "get_base_model"):
        return model
    if getattr(model.active_peft_config, "is_prompt_learning", False):
        raise ValueError("prompt-learning adapters are not supported; use adapters inside the layers, such as LoRA")
    return model.get_base_model()  # type: ignore[operator]


def positions_of(model: nn.Module) -> Any:
    """How many positions a model has; None where it has no bound."""
    return getattr(causal_model(model).config.get_text_config(), "max_position_embeddings", None)


class PolicyScorer:
    """Statistics of completion tokens given what stands before them.

    Where the model's logits are its output head on its last hidden state, which is tried out once, the logits of all
    tokens are never held together (`linear_token_statistics`); a model that does more (a soft cap, a scale) is asked
    for the logits of the completion.

    Args:
        model: A causal language model of transformers, or PEFT's wrapper of one.
        temperature: Temperature of sampling, > 0.
        share_prompts: A prompt that a batch holds several times is read once (`shared_prompts.prompt_cache`). None:
            where the model supports it.
        padding_free: A batch is one sequence without padding (`packing.packed_outputs`).

    Attributes:
        plain_head: Whether the first way is taken.

    Raises:
        ValueError: Prompts are to be shared, or rows to be packed, and the model does not support it.
    """

    def __init__(
        self, model: nn.Module, temperature: float, share_prompts: bool | None = False, padding_free: bool = False
    ) -> None:
        causal = causal_model(model)
        self.temperature, self.padding_free = temperature, padding_free
        self.share_prompts = shares_prompts(causal, share_prompts)
        if padding_free and not supports_packing(causal):
            raise ValueError(
                "padding_free=True needs a model that takes position_ids and keeps rows apart where they start anew; "
                "leave padding_free out"
            )
        self.plain_head = self._is_plain(causal)

    @staticmethod
    @torch.no_grad()
    def _is_plain(causal: Any) -> bool:
        head = causal.get_output_embeddings()
        if type(head) is not nn.Linear or causal.base_model is causal:
            return False
        # Tried out: what a model does with its head beyond a product is told by no attribute that all have.
        ids = torch.arange(4, device=causal.device).unsqueeze(0) % head.weight.shape[0]
        with evaluation_mode(causal):
            hidden = causal.base_model(input_ids=ids, use_cache=False).last_hidden_state
            logits = causal(input_ids=ids, use_cache=False).logits
        return hidden.shape[-1] == head.weight.shape[1] and torch.allclose(head(hidden).to(logits.dtype), logits)

    def __call__(self, model: nn.Module, batch: RolloutBatch) -> TokenStatistics:
        """Log-probabilities and entropies `(B, T)` of the completion tokens; anything at padding."""
        return self.in_pass(model, lambda: self.statistics(*self.features(model, batch), batch))

    def in_pass(self, model: nn.Module, function: Callable[[], Result]) -> Result:
        """What a function of `features` returns, which where weights are dealt out is one pass of the model."""
        return in_pass(causal_model(model), function) if self.plain_head else function()

    def statistics(self, features: Tensor, head: nn.Linear | None, batch: RolloutBatch) -> TokenStatistics:
        """What `features` say of the completion tokens."""
        if head is None:
            return token_statistics(features, batch.completion_ids, temperature=self.temperature)
        return linear_token_statistics(
            features, head.weight, batch.completion_ids, bias=head.bias, temperature=self.temperature
        )

    def features(self, model: nn.Module, batch: RolloutBatch) -> tuple[Tensor, nn.Linear | None]:
        """Hidden states `(B, T, D)` that the completion tokens are predicted from, and the output head.

        Positions count from the first token of a prompt, whatever the padding before it. Without a plain head there are
        logits `(B, T, V)` and None. To be called, and what it returns used, within `in_pass`.
        """
        causal = causal_model(model)
        keep = batch.completion_ids.shape[1]
        ids = torch.cat([batch.prompt_ids, batch.completion_ids], 1)  # (B, P + T)
        mask = torch.cat([batch.prompt_mask, batch.completion_mask], 1).long()
        predicting = slice(-keep - 1, -1)  # what stands at a token says what comes next

        def outputs(**inputs: Any) -> Tensor:
            return causal.base_model(**inputs).last_hidden_state if self.plain_head else causal(**inputs).logits

        if self.padding_free:
            found = packed_outputs(lambda **inputs: outputs(**inputs, use_cache=False), ids, mask.bool())
        else:
            inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": mask, "use_cache": False}
            inputs |= beside_tokens(causal, mask.bool(), batch.pictures)
            prompts = batch.prompt_ids, batch.prompt_mask
            cache = prompt_cache(causal, *prompts, batch.prompt_groups) if self.share_prompts else None
            # Of a prompt that the cache has read only the last token is left, and the completion behind it.
            if cache is not None:
                inputs = {name: value[:, predicting] for name, value in inputs.items() if torch.is_tensor(value)}
                inputs |= {"attention_mask": mask[:, :-1], "past_key_values": cache, "use_cache": True}
                predicting = slice(None)
            found = outputs(**inputs)
        found = found[:, predicting]
        head = causal.get_output_embeddings() if self.plain_head else None
        return (found, None) if head is None else (found.to(head.weight.dtype), head)


class ReferenceModel:
    """The policy that a divergence holds training to: as it is at the start, PEFT's base, or a given model.

    Of a policy with adapters only their weights at the start are kept, and put in place while the reference is asked.

    `ref_model` is another reference than the policy as it is now; `adapters` is "start", or "base" for the model
    without its adapters. The other arguments are those of `PolicyScorer`.

    Raises:
        ValueError: `adapters` is "base" and there are none, or there is a `ref_model`.
    """

    def __init__(
        self,
        model: nn.Module,
        temperature: float,
        ref_model: nn.Module | None = None,
        share_prompts: bool | None = False,
        adapters: AdapterReference = "start",
        padding_free: bool = False,
    ) -> None:
        adapted = ref_model is None and hasattr(model, "disable_adapter")
        if adapters == "base" and not adapted:
            raise ValueError(
                "adapter_reference='base' does nothing without adapters or beside a ref_model; leave it out"
            )
        self._without_adapters = adapters == "base"
        self._at_start: list[tuple[nn.Parameter, Tensor]] = []
        self.model: Any = model
        if adapted and not self._without_adapters:
            trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
            self._at_start = [(parameter, parameter.detach().clone()) for parameter in trained]
        if not adapted:
            frozen = copy.deepcopy(model) if ref_model is None else ref_model
            self.model = frozen.requires_grad_(False).to(next(model.parameters()).device)
        self._score = PolicyScorer(self.model, temperature, share_prompts, padding_free)

    def deal_out(self, shards: Shards, policy: nn.Module) -> None:
        """Deals out a model of its own, and otherwise the adapters that it keeps, once the policy's are."""
        policy = unwrapped(policy)
        if self.model is not policy:
            deal_out(shards, self.model)
        trained = [parameter for parameter in policy.parameters() if parameter.requires_grad]
        self._at_start = [
            (parameter, share_of(kept, parameter))
            for parameter, (_, kept) in zip(trained, self._at_start, strict=bool(self._at_start))
        ]

    def tensors(self) -> list[Tensor]:
        """What it holds in memory: its model, which with adapters is the policy's, and the adapters of the start."""
        return [*self.model.parameters(), *self.model.buffers(), *(kept for _, kept in self._at_start)]

    def logprobs(self, batch: RolloutBatch) -> Tensor:
        """Log-probabilities `(B, T)` of the completion tokens under the reference, in evaluation mode."""
        with self._frozen():
            return self._score(self.model, batch).logprobs

    def full_divergence(self, scorer: PolicyScorer, model: nn.Module, batch: RolloutBatch) -> Tensor:
        """KL(π ‖ π_ref) over the whole vocabulary at each completion token, `(B, T)`; anything at padding.

        The gradient goes to `model`, the policy, whose scorer is given.
        """
        with self._frozen():
            reference, head = self._score.features(self.model, batch)
        features, policy_head = scorer.features(model, batch)
        heads = _head(policy_head), _head(head)
        return chunked_kl_divergence(features, reference, *heads, temperature=scorer.temperature)

    @contextmanager
    def _frozen(self) -> Iterator[None]:
        adapters_off = self.model.disable_adapter() if self._without_adapters else nullcontext()
        with torch.no_grad(), evaluation_mode(self.model), adapters_off:
            self._exchange()
            try:
                yield
            finally:
                self._exchange()

    def _exchange(self) -> None:
        """Swap the adapters' weights and those of the start."""
        for parameter, kept in self._at_start:
            if is_dealt(parameter):  # FSDP gathers from where the share lies
                mine = share(parameter)
                before = mine.clone()
                mine.copy_(kept)
                kept.copy_(before)
            else:
                parameter.data, kept.data = kept.data, parameter.data


def deal_out(shards: Shards, model: nn.Module, reference: "ReferenceModel | None" = None) -> None:
    """Deal out the weights of a causal language model, whose head is read outside its own forward pass.

    Its reference, if there is one, is dealt out after it.
    """
    causal = causal_model(model)
    token = torch.zeros(1, 1, dtype=torch.long, device=causal.device)
    shards.add(causal, lambda: causal(input_ids=token, use_cache=False), head_apart=False)
    if reference is not None:
        reference.deal_out(shards, model)


def reference_kl(logps: Tensor | None, ref_logps: Tensor | None, mask: Tensor, estimator: KLEstimator) -> Tensor:
    """Estimates of KL(π ‖ π_ref) a token, `(B, T)`, 0 outside the bool mask; `ValueError` without log-probabilities."""
    if logps is None or ref_logps is None:
        raise ValueError("the batch has no old or reference log-probabilities, which the divergence is made from")
    logps, ref_logps = (values.masked_fill(~mask, 0.0) for values in (logps, ref_logps))
    return approx_kl(logps, ref_logps, estimator=estimator)


def _head(linear: nn.Linear | None) -> Callable[[Tensor], Tensor]:
    """The map from hidden states to logits, which autocast does not reach; the identity for logits."""

    def logits(hidden: Tensor) -> Tensor:
        if linear is None:
            return hidden
        with torch.autocast(hidden.device.type, enabled=False):
            return nn.functional.linear(hidden, linear.weight, linear.bias)

    return logits
