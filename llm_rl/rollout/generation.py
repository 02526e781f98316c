"""Token in, token out sampling: the interface of an engine, and the one that calls `model.generate`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList, SuppressTokensLogitsProcessor

from llm_rl.core import selective_log_softmax
from llm_rl.core._checks import check_count
from llm_rl.rollout.data import pad
from llm_rl.rollout.pictures import Pictures
from llm_rl.rollout.shared_prompts import prompt_cache, shares_prompts


@dataclass(frozen=True)
class SamplingParams:
    """How to sample: from softmax(logits / temperature), whole, so that the trainer's log-probabilities are these.

    Attributes:
        max_new_tokens: Longest completion.
        temperature: > 0.
        eos_token_ids: Any of these ends a completion.
        pad_token_id: The token that pads; it may be an end token.
        greedy: Take the most likely token each time, instead of sampling; for evaluations.
    """

    max_new_tokens: int
    temperature: float
    eos_token_ids: tuple[int, ...]
    pad_token_id: int
    greedy: bool = False


class Completion(NamedTuple):
    """Sampled ids.

    Attributes:
        token_ids: The ids in order; what follows the first end token is dropped by the trainer.
        logprobs: Log-probability of each token as the engine sampled it. None: not known.
    """

    token_ids: list[int]
    logprobs: list[float] | None


class GenerationEngine(Protocol):
    """What samples completions: `model.generate` here, or continuous batching, or a server elsewhere."""

    def load_weights(self, model: nn.Module) -> None:
        """Take over the weights of a policy; called before each roll-out with the causal language model.

        With `shard` its parameters are dealt out, as `DTensor`s. With `offload_model` they lie in host memory from the
        end of this call until sampling ends.
        """

    def generate(self, prompts: Sequence[Sequence[int]], params: SamplingParams) -> list[Completion]:
        """One completion for each list of ids, in order; a prompt that occurs several times gets several.

        An engine with the attribute `takes_pictures`, True, may get prompts that are `PicturedPrompt`.
        """


def cut_at_eos(completion: Completion, eos_token_ids: Sequence[int]) -> tuple[Completion, bool]:
    """The completion up to and including its first end token, and whether it is truncated, i.e. has none."""
    for index, token in enumerate(completion.token_ids):
        if token in eos_token_ids:
            logprobs = None if completion.logprobs is None else completion.logprobs[: index + 1]
            return Completion(completion.token_ids[: index + 1], logprobs), False
    return completion, True


class TransformersEngine:
    """`model.generate` on batches that are padded on the left; transformers' global generator draws.

    The model's own generation settings (top_k, penalties, …) are not used, for they would make the distribution that is
    sampled from another than the one that is trained. Only beside pictures their own token is never sampled, for which
    the model would ask for one more picture.

    Args:
        batch_size: Sequences at a time. None: all.
        share_prompts: A prompt that a batch holds several times is read once (`shared_prompts.prompt_cache`). None:
            where the model supports it.
        generator: Draws instead of the global generator, by Gumbel noise on the scores, whose maximum is a sample.

    Raises:
        ValueError: The size is below 1.
    """

    takes_pictures = True

    def __init__(
        self,
        batch_size: int | None = None,
        share_prompts: bool | None = False,
        generator: torch.Generator | None = None,
    ) -> None:
        self.generator = generator
        if batch_size is not None:
            check_count("batch_size", batch_size, ", or None for all at once")
        self.batch_size, self.share_prompts = batch_size, share_prompts
        self._model: Any = None
        self._shares = False

    def load_weights(self, model: nn.Module) -> None:
        """Keep the model: the weights are its own.

        Raises:
            ValueError: Prompts are to be shared, and the model does not support it.
        """
        if model is not self._model:
            self._shares = shares_prompts(model, self.share_prompts)
        self._model = model

    def generate(self, prompts: Sequence[Sequence[int]], params: SamplingParams) -> list[Completion]:
        """One completion for each list of ids, as `GenerationEngine.generate` documents it.

        Raises:
            RuntimeError: `load_weights` was not called.
            ValueError: Prompts with pictures are to be shared.
        """
        if self._model is None:
            raise RuntimeError("the engine has no weights; call load_weights(model) before generate")
        size = self.batch_size or len(prompts)
        parts = [prompts[start : start + size] for start in range(0, len(prompts), size)]
        training, kept = self._model.training, self._model.generation_config
        self._model.eval()
        self._model.generation_config = GenerationConfig(
            do_sample=self._draws(params),
            **({} if not self._draws(params) else {"temperature": params.temperature, "top_k": 0, "top_p": 1.0}),
            max_new_tokens=params.max_new_tokens,
            eos_token_id=list(params.eos_token_ids),
            pad_token_id=params.pad_token_id,
            use_cache=True,
        )
        try:
            return [completion for part in parts for completion in self._generate_part(part, params)]
        finally:
            self._model.generation_config = kept
            self._model.train(training)

    def _draws(self, params: SamplingParams) -> bool:
        return not params.greedy and self.generator is None

    @torch.no_grad()
    def _generate_part(self, prompts: Sequence[Sequence[int]], params: SamplingParams) -> list[Completion]:
        ids, mask = (tensor.to(self._model.device) for tensor in pad(prompts, params.pad_token_id, "left"))
        recorder = _LogprobRecorder(params.temperature)
        pictures, processors = Pictures.of(prompts), LogitsProcessorList([recorder])
        if pictures is None:
            cache, seen = prompt_cache(self._model, ids, mask) if self._shares else None, {}
        elif self._shares and self.share_prompts:
            raise ValueError("share_prompts=True keeps no pictures apart; leave it out where prompts have them")
        else:
            cache, seen = None, pictures.inputs(self._model, mask)
            processors.append(SuppressTokensLogitsProcessor([self._model.config.image_token_id], self._model.device))
        if self.generator is not None and not params.greedy:
            processors.append(_GumbelNoise(params.temperature, self.generator))
        output: Tensor = self._model.generate(
            input_ids=ids,
            attention_mask=mask.long(),
            logits_processor=processors,
            synced_gpus=False,
            **seen,
            **({} if cache is None else {"past_key_values": cache}),
        )
        sampled = output[:, ids.shape[1] :]
        logprobs = recorder.finish(sampled)
        rows = zip(sampled.tolist(), logprobs.tolist(), strict=True)
        return [cut_at_eos(Completion(*row), params.eos_token_ids)[0] for row in rows]


class _GumbelNoise(LogitsProcessor):
    """Scores whose maximum is a sample from softmax(scores / temperature), drawn by a generator."""

    def __init__(self, temperature: float, generator: torch.Generator) -> None:
        self._temperature, self._generator = temperature, generator

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        noise = torch.empty(scores.shape, dtype=torch.float32, device=scores.device)
        noise.exponential_(generator=self._generator)
        return scores.float() / self._temperature - noise.log()


class _LogprobRecorder(LogitsProcessor):
    """Takes the log-probability of each sampled token and keeps the scores of one step alone."""

    def __init__(self, temperature: float) -> None:
        self._temperature = temperature
        self._scores: Tensor | None = None
        self._columns: list[Tensor] = []

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        if not torch.isfinite(scores.amax(1)).all():
            raise FloatingPointError(
                "the model's logits are not finite, so that no token can be drawn; go back to weights that are finite "
                "and lower the learning rate"
            )
        self._take(input_ids[:, -1])
        self._scores = scores
        return scores

    def _take(self, tokens: Tensor) -> None:
        if self._scores is not None:
            self._columns.append(selective_log_softmax(self._scores, tokens, temperature=self._temperature))

    def finish(self, sampled: Tensor) -> Tensor:
        """`(B, T)`; where a row had ended before, anything."""
        self._take(sampled[:, -1])
        return torch.stack(self._columns, 1)
