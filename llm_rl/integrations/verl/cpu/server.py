"""A server of completions on verl: one process that samples with `model.generate`, with the trainer's weights alone."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.torch_dtypes import PrecisionType
from verl.workers.rollout.replica import TokenOutput

from llm_rl.rollout.generation import SamplingParams, TransformersEngine

GATHER_SECONDS = 0.01
"""How long a request waits for others that `model.generate` can answer in the same batch."""
OFF = {"top_p": 1, "top_k": -1, "repetition_penalty": 1}
"""Settings that change the distribution, and the values that do not."""
READ = {"temperature", "logprobs", "max_tokens", "max_new_tokens", "stop_token_ids"}
"""The other settings of a request; log-probabilities are always returned."""


@dataclass(frozen=True)
class Waiting:
    """A request that is not answered; `answer` gets the completion, once there is one."""

    prompt_ids: list[int]
    params: SamplingParams
    answer: asyncio.Future[TokenOutput]


class TransformersServer:
    """Answers requests of agent loops, many in a batch; an actor of Ray.

    It has no weights until `update_weights`, and none after `sleep`: a request then raises, so no completion comes from
    weights of an earlier step. What is drawn depends on the seed, on the step of the weights and on the order in which
    requests come.

    `config` and `model_config` are verl's `actor_rollout_ref.rollout` and `actor_rollout_ref.model`. Each replica draws
    otherwise.
    """

    def __init__(self, config: Any, model_config: Any, replica_rank: int) -> None:
        self.config = omega_conf_to_dataclass(config)
        given = omega_conf_to_dataclass(model_config)
        dtype = PrecisionType.to_dtype(self.config.dtype)
        self.model = AutoModelForCausalLM.from_config(given.hf_config, dtype=dtype).requires_grad_(False)
        tokenizer = given.tokenizer
        ends = getattr(given.generation_config, "eos_token_id", None)
        ends = [ends] if isinstance(ends, int) else list(ends or ())
        self.ends = tuple(dict.fromkeys([*ends, tokenizer.eos_token_id]))
        self.pad = tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id
        self.replica_rank = replica_rank
        self.generator = torch.Generator()
        self.engine = TransformersEngine(self.config.max_num_seqs, generator=self.generator)
        self.step: int | None = None
        self.awake = False
        self._waiting: list[Waiting] = []
        self._answering: asyncio.Task[None] | None = None
        self._busy = asyncio.Lock()

    async def update_weights(self, weights: Mapping[str, Tensor], step: int | None) -> None:
        """Take over all weights, by their names in transformers, after the requests that are being answered.

        `step` counts optimizer steps. `RuntimeError` where a name is missing or unknown, or a shape is another.
        """
        async with self._busy:
            self.model.load_state_dict(weights, strict=True)
            self.engine.load_weights(self.model)
            self.generator.manual_seed(
                hash((self.config.seed, self.replica_rank, -1 if step is None else step)) % 2**63
            )
            self.step, self.awake = step, True

    async def sleep(self) -> None:
        """Answer no further request before the next `update_weights`."""
        async with self._busy:
            self.awake = False

    async def generate(
        self, request_id: str, *, prompt_ids: Sequence[int], sampling_params: Mapping[str, Any], **inputs: Any
    ) -> TokenOutput:
        """A completion of a prompt.

        Of verl's `sampling_params` there are `temperature` (0 takes the most likely token), `stop_token_ids` besides
        the model's own, and `max_tokens` or `max_new_tokens`; `top_p`, `top_k` and `repetition_penalty` must be off,
        and further inputs, images and the like, None.

        Returns:
            Token ids, end token included, their log-probabilities, and in `extra_fields["global_steps"]` the step of
            the weights.

        Raises:
            ValueError: Something is asked that is not supported, or the prompt leaves no room for a token.
            RuntimeError: There are no weights of this step.
        """
        if given := [name for name, value in inputs.items() if value is not None]:
            raise ValueError(f"{given} were given; this server reads text alone")
        answer: asyncio.Future[TokenOutput] = asyncio.get_running_loop().create_future()
        self._waiting.append(Waiting(list(prompt_ids), self._params(len(prompt_ids), sampling_params), answer))
        if len(self._waiting) == 1:
            self._answering = asyncio.create_task(self._answer())
        return await answer

    def _params(self, length: int, given: Mapping[str, Any]) -> SamplingParams:
        for name, off in OFF.items():
            if given.get(name, off) != off:
                raise ValueError(
                    f"{name} is {given[name]}; the trainer's log-probabilities are of the whole distribution: set "
                    f"rollout.{name}={off}"
                )
        if unknown := given.keys() - OFF.keys() - READ:
            raise ValueError(f"sampling by {sorted(unknown)} is not supported; {sorted(READ)} are")
        room = self.config.prompt_length + self.config.response_length - length
        limit = min(room, given.get("max_tokens", given.get("max_new_tokens", self.config.response_length)))
        if limit < 1:
            raise ValueError(
                f"a prompt has {length} tokens, which leaves no room: data.max_prompt_length + max_response_length is "
                f"{self.config.prompt_length + self.config.response_length}"
            )
        temperature = float(given.get("temperature", 1.0))
        greedy = temperature == 0
        ends = tuple(dict.fromkeys([*self.ends, *(given.get("stop_token_ids") or ())]))
        return SamplingParams(limit, 1.0 if greedy else temperature, ends, self.pad, greedy)

    async def _answer(self) -> None:
        """Answer all that waits by then, those with equal settings together."""
        await asyncio.sleep(GATHER_SECONDS)
        async with self._busy:
            waiting, self._waiting = self._waiting, []
            groups: dict[SamplingParams, list[Waiting]] = {}
            for one in waiting:
                groups.setdefault(replace(one.params, max_new_tokens=0), []).append(one)
            for group in groups.values():
                try:
                    outputs = await asyncio.to_thread(self._sample, group)
                except Exception as error:
                    for one in group:
                        one.answer.set_exception(error)
                    continue
                for one, output in zip(group, outputs, strict=True):
                    one.answer.set_result(output)

    def _sample(self, group: Sequence[Waiting]) -> list[TokenOutput]:
        if not self.awake:
            raise RuntimeError(
                "the server has no weights of this step: a request came before the trainer's; this replica serves "
                "trainer.v1.trainer_mode=sync"
            )
        limits = [one.params.max_new_tokens for one in group]
        params = replace(group[0].params, max_new_tokens=max(limits))
        drawn = self.engine.generate([one.prompt_ids for one in group], params)
        return [
            TokenOutput(
                token_ids=ids[:limit],
                log_probs=logprobs and logprobs[:limit],
                stop_reason="completed",
                extra_fields={"global_steps": self.step},
            )
            for (ids, logprobs), limit in zip(drawn, limits, strict=True)
        ]
