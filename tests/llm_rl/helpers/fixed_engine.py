"""An engine whose completions depend on the prompt alone, so that runs of several cuts sample the same."""

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from llm_rl.rollout.generation import Completion, SamplingParams, TransformersEngine
from tests.llm_rl.helpers.tiny_grpo import tokenizer


class Weightless:
    """An engine whose completions do not depend on weights."""

    def load_weights(self, model: Any) -> None:
        pass


class Says(Weightless):
    """An engine whose completions a function of prompts and parameters gives."""

    def __init__(self, generate: Callable[[Any, SamplingParams], list[Completion]]) -> None:
        self.generate = generate


class FixedEngine(Weightless):
    """The n-th completion of a prompt comes from a hash of its ids and n; lengths differ, some end."""

    takes_pictures = True

    def generate(self, prompts: Sequence[Sequence[int]], params: SamplingParams) -> list[Completion]:
        seen: Counter[tuple[int, ...]] = Counter()
        result = []
        for prompt in prompts:
            key = tuple(prompt)
            digest = hashlib.sha256(repr((key, seen[key])).encode()).digest()
            seen[key] += 1
            result.append(Completion(self.written(digest, params), None))
        return result

    def written(self, digest: bytes, params: SamplingParams) -> list[int]:
        ids = [1 + byte % (len(tokenizer()) - 1) for byte in digest[: 1 + digest[0] % params.max_new_tokens]]
        return [*ids[:-1], params.eos_token_ids[0]] if digest[1] % 3 else ids


class EndingEngine(TransformersEngine):
    """Of what it samples the first, the third and so on never end, the others do after one to five tokens."""

    def generate(self, prompts: Any, params: Any) -> list[Completion]:
        result, end = [], params.eos_token_ids[0]
        for number, (ids, logprobs) in enumerate(super().generate(prompts, params)):
            kept = len(ids) if number % 2 == 0 else 1 + number % 5
            going_on = [token if token != end else 1 for token in ids[:kept]]
            written = going_on if number % 2 == 0 else [*going_on[:-1], end]
            result.append(Completion(written, logprobs and logprobs[:kept]))
        return result


class BiasedEngine(TransformersEngine):
    """Claims other log-probabilities than it sampled with."""

    def generate(self, prompts: Any, params: Any) -> list[Completion]:
        return [
            Completion(ids, [value - 0.4 * (index % 3 - 1) for index, value in enumerate(logprobs or [])])
            for ids, logprobs in super().generate(prompts, params)
        ]
