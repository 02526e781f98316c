"""Roll-outs one ahead of the updates: the next one is sampled in a thread while the policy trains on this one.

What was sampled is then older than the policy by the updates in between, which the importance weights of the trainer
make up for (decoupled PPO, as in AReaL, arXiv:2505.24298). The thread has a copy of the weights and random numbers of
its own, so that a run can be repeated and goes on exactly.
"""

import copy
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

import torch

from llm_rl.rollout.generation import Completion, SamplingParams, TransformersEngine

STRIDE = 1_000_003
"""Between the seeds of one process and the next: more roll-outs than a run has."""


class RolloutAhead:
    """Samples in a thread of its own, on a copy of the policy's weights.

    Args:
        causal: The causal language model.
        seed: Of the random numbers; the number of the roll-out is added.
        batch_size: Sequences at a time. None: all.
        autocast: Makes the context of a forward pass.

    Attributes:
        index: Number of the roll-out that is sampled or was sampled last; -1: none.
        version: Optimizer steps that its policy had done.
    """

    def __init__(
        self, causal: Any, seed: int, batch_size: int | None, autocast: Callable[[], AbstractContextManager[Any]]
    ) -> None:
        self.index, self.version = -1, 0
        self._seed, self._batch_size, self._autocast = seed, batch_size, autocast
        self._copy = copy.deepcopy(causal).requires_grad_(False).eval()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="rollout")
        self._pending: Future[list[Completion]] | None = None

    def forget(self) -> None:
        """Wait for what is being sampled and throw it away."""
        if self._pending is not None:
            self._pending.exception()
        self.index, self._pending = -1, None

    @torch.no_grad()
    def submit(
        self, causal: Any, index: int, version: int, prompts: Sequence[Sequence[int]], params: SamplingParams
    ) -> None:
        """Start to sample roll-out `index` with the weights of now."""
        self.forget()
        for mine, its in zip(self._copy.state_dict().values(), causal.state_dict().values(), strict=True):
            mine.copy_(its)
        self.index, self.version = index, version
        self._pending = self._pool.submit(self._generate, [list(prompt) for prompt in prompts], params, index)

    def result(self) -> list[Completion]:
        """The completions; waits for them.

        Raises:
            RuntimeError: Nothing was submitted.
        """
        if self._pending is None:
            raise RuntimeError("no roll-out is ahead; submit one first")
        return self._pending.result()

    def state_dict(self) -> dict[str, Any] | None:
        """What a checkpoint keeps of the roll-out ahead, which it waits for; None where there is none."""
        if self._pending is None:
            return None
        found = self.result()
        return {
            "index": self.index,
            "version": self.version,
            "token_ids": [completion.token_ids for completion in found],
            "logprobs": [completion.logprobs for completion in found],
        }

    def load_state_dict(self, state: dict[str, Any] | None) -> None:
        """Go on from what `state_dict` returned."""
        self.forget()
        if state is not None:
            self.index, self.version = state["index"], state["version"]
            self._pending = Future()
            self._pending.set_result(
                [Completion(*both) for both in zip(state["token_ids"], state["logprobs"], strict=True)]
            )

    def _generate(self, prompts: list[list[int]], params: SamplingParams, index: int) -> list[Completion]:
        generator = torch.Generator(self._copy.device).manual_seed(self._seed + index)
        engine = TransformersEngine(self._batch_size, generator=generator)
        engine.load_weights(self._copy)
        with torch.no_grad(), self._autocast():
            return engine.generate(prompts, params)
