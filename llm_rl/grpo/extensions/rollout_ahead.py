"""Roll-outs one ahead of the updates: the next one is sampled in a thread while the policy trains on this one.

What was sampled is then older than the policy by the updates in between, which the importance weights of the trainer
make up for (decoupled PPO, as in AReaL, arXiv:2505.24298). The thread has a copy of the weights and random numbers of
its own, so that a run can be repeated and goes on exactly.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch

from llm_rl.grpo.extensions.base import Extension
from llm_rl.grpo.extensions.importance_correction import ImportanceCorrection
from llm_rl.rollout.completions import as_samples
from llm_rl.rollout.data import Sample
from llm_rl.rollout.generation import Completion, SamplingParams, TransformersEngine
from llm_rl.rollout.scoring import causal_model
from llm_rl.rollout.trainer import RolloutTrainer
from llm_rl.training.arguments import refuse_idle

STRIDE = 1_000_003
"""Between the seeds of one process and the next: more roll-outs than a run has."""


@dataclass
class RolloutAhead(Extension):
    """Trains on roll-outs of the policy of one roll-out before; logs "rollout_staleness", its age in optimizer steps.

    Raises:
        ValueError: When a trainer takes it: there is no `ImportanceCorrection`, another engine, several turns, or
            `offload_optimizer`.
    """

    def bind(self, trainer: RolloutTrainer) -> None:
        """Copy the policy; errors for what does not fit."""
        super().bind(trainer)
        if not any(isinstance(extension, ImportanceCorrection) for extension in trainer.extensions):
            raise ValueError(
                "RolloutAhead trains on completions of an older policy, which needs their importance weights; add "
                "ImportanceCorrection() to extensions"
            )
        if type(trainer.engine) is not TransformersEngine:
            raise ValueError(
                f"RolloutAhead samples by a TransformersEngine of its own, and the engine is a "
                f"{type(trainer.engine).__name__}; leave out RolloutAhead or the engine"
            )
        if trainer.args.max_turns > 1:
            raise ValueError("RolloutAhead samples single turns; leave it out, or max_turns")
        ahead = "beside RolloutAhead, which samples while the policy trains; leave out that"
        refuse_idle(trainer.args, [("offload_optimizer", False, ahead)])
        seed = trainer.args.seed + STRIDE * (1 + trainer.args.process_index)
        engine = trainer.engine.batch_size, trainer.engine.share_prompts
        self.sampler = BackgroundSampler(causal_model(trainer.model), seed, *engine, trainer.accelerator.autocast)

    def sample(self, rows: Sequence[Mapping[str, Any]]) -> list[Sample]:
        """The roll-out that was sampled ahead, while the next one starts."""
        trainer, sampler = self.trainer, self.sampler
        step, served = trainer.state.global_step, trainer.args.steps_per_rollout
        index = step // served
        if sampler.index != index:  # the first one
            self._start(index)
        found = as_samples(self._encoded_rows(index), sampler.take(), trainer.sampling)
        trainer.metrics.add("rollout_staleness", step - sampler.version)
        if (index + 1) * served < trainer.state.max_steps:
            self._start(index + 1)
        return found

    def _start(self, index: int) -> None:
        prompts, step = [ids for _, ids in self._encoded_rows(index)], self.trainer.state.global_step
        self.sampler.submit(causal_model(self.trainer.model), index, step, prompts, self.trainer.sampling)

    def _encoded_rows(self, index: int) -> list[tuple[Mapping[str, Any], list[int]]]:
        """The rows of this process's roll-out `index`, each as often as it has completions, and their tokens."""
        trainer = self.trainer
        sampler: Any = trainer._get_train_sampler()
        size, rank = trainer._rows_per_batch, trainer.args.process_index
        rows = [trainer.train_dataset[row] for row in sampler.block_at(index)[rank * size : (rank + 1) * size]]
        return trainer._encode(rows, trainer.args.num_generations, trainer.sampling)

    def state_dict(self) -> dict[str, Any] | None:
        """The roll-out ahead, which a checkpoint waits for."""
        return self.sampler.state_dict()

    def load_state_dict(self, state: dict[str, Any] | None) -> None:
        """Go on from what `state_dict` returned."""
        self.sampler.load_state_dict(state)


class BackgroundSampler:
    """Samples in a thread of its own, on a copy of the policy's weights.

    To `seed` the number of a roll-out is added. `batch_size` and `share_prompts` are those of a `TransformersEngine`,
    `autocast` makes the context of a forward pass.

    Attributes:
        index: Number of the roll-out that is sampled, or waits to be taken; -1: none.
        version: Optimizer steps that its policy had done.
    """

    def __init__(
        self,
        causal: Any,
        seed: int,
        batch_size: int | None,
        share_prompts: bool | None,
        autocast: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        self.index, self.version = -1, 0
        self._seed, self._engine, self._autocast = seed, (batch_size, share_prompts), autocast
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
        self._pending = self._pool.submit(self._generate, [*prompts], params, index)

    def take(self) -> list[Completion]:
        """The completions, which are then no longer kept; errors as in `result`."""
        try:
            return self.result()
        finally:
            self.index, self._pending = -1, None

    def result(self) -> list[Completion]:
        """The completions, which are waited for; `RuntimeError` where nothing was submitted."""
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

    def _generate(self, prompts: Sequence[Sequence[int]], params: SamplingParams, index: int) -> list[Completion]:
        generator = torch.Generator(self._copy.device).manual_seed(self._seed + index)
        engine = TransformersEngine(*self._engine, generator=generator)
        engine.load_weights(self._copy)
        with torch.no_grad(), self._autocast():
            return engine.generate(prompts, params)
