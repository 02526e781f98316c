"""Bodies of `/v1/completions`, and what must hold of the answers."""

import math
from collections.abc import Sequence
from typing import Any

from llm_rl.rollout.generation import Completion, SamplingParams
from llm_rl.rollout.server.client import ServerError
from llm_rl.rollout.server.streams import Choice

TOKENS = {"logprobs": 0, "return_token_ids": True, "return_tokens_as_token_ids": True, "ignore_eos": True}
"""Ids and log-probabilities of the tokens themselves; only `stop_token_ids` end a completion."""
WHOLE = {"top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0}
"""Sampling from the whole distribution, whatever the model's generation settings say."""


def scoring_body(served: str, prompt: Sequence[int], temperature: float) -> dict[str, Any]:
    """A request for the log-probabilities of a prompt, and for a token after it sampled at a temperature."""
    return {
        "model": served,
        "prompt": [*prompt],
        "echo": True,
        "max_tokens": 1,
        "temperature": temperature,
        **TOKENS,
        **WHOLE,
    }


def completion_body(
    served: str, prompt: Sequence[int], count: int, seed: int, params: SamplingParams
) -> dict[str, Any]:
    """A request for completions of a prompt, streamed in pieces of several tokens."""
    return {
        "model": served,
        "prompt": [*prompt],
        "n": count,
        "seed": seed,
        "max_tokens": params.max_new_tokens,
        "temperature": 0.0 if params.greedy else params.temperature,
        "stop_token_ids": [*params.eos_token_ids],
        "stream": True,
        "stream_interval": 8,
        **TOKENS,
        **WHOLE,
    }


def as_completion(choice: Choice, params: SamplingParams) -> Completion:
    """What a server answered; greedy tokens have no log-probabilities, as it takes those at the temperature 1.

    Raises:
        ServerError: The completion ends before an end token and before the longest, or a token has no log-probability
            that is finite.
    """
    ids = choice.token_ids
    if ids[-1:] not in [[end] for end in params.eos_token_ids] and len(ids) != params.max_new_tokens:
        raise ServerError(
            f"the server ended a completion after {len(ids)} of {params.max_new_tokens} tokens (finish_reason "
            f"{choice.finish_reason!r}) without one of the end tokens {[*params.eos_token_ids]}; start it with "
            "--generation-config vllm and room (--max-model-len) for prompt and completion"
        )
    if params.greedy:
        return Completion(ids, None)
    logprobs = [math.nan if value is None else value for value in choice.logprobs]
    if len(logprobs) != len(ids) or not all(map(math.isfinite, logprobs)):
        raise ServerError(
            f"the server gave {len(ids)} tokens and {sum(map(math.isfinite, logprobs))} finite log-probabilities; "
            "where the policy's logits are not finite, go back to weights that are and lower the learning rate"
        )
    return Completion(ids, logprobs)
