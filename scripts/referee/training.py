"""A trainer for any of the objectives, on problems of which a program says whether they can still be completed."""

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from dllm_rl.decoding import STRATEGIES, Decode, Decoding, Strategy, decode
from dllm_rl.policy import PolicyConfig, logits_at
from dllm_rl.task import UnmaskBatch, UnmaskTask
from llm_rl.core._checks import check_choice, check_count
from llm_rl.core._options import option
from llm_rl.core.monitors import record_monitors
from llm_rl.training import RunArguments
from llm_rl.training.buffered import BufferedTrainer
from scripts.referee.objectives.copies import Completions, Copies, Objective

Reward = Literal["final", "passes"]
"""1 for a right answer; or the share of passes before the first after which no right answer is left."""
Sampler = Literal["policy", "left_to_right"]
"""Positions drawn by their margins, or the first of those left."""
Logprobs = Callable[[nn.Module, "Asked"], Tensor]
"""What a model says of copies, at the positions scored, row by row."""
TEMPERATURES = PolicyConfig(position_temperature=0.5, token_temperature=1.0)
"""Those of the sampler; estimates of log π are of the model's own probabilities, so that tokens are drawn at 1."""


@dataclass
class ObjectiveArguments(RunArguments):
    """What roll-outs take; `per_device_train_batch_size` is the number of problems of one."""

    num_generations: int = option(16, "Completions of a problem, which are compared.")
    num_iterations: int = option(1, "Updates on a roll-out, each with copies of its own.")
    tokens_per_step: int = option(4, "Positions that a pass of the sampler fills.")
    sampler: Sampler = option("policy", "Which positions these are.")
    max_tokens_per_pass: int = option(
        65536,
        "Largest number of tokens in one forward pass; where copies take several, each is passed once more "
        "without gradient.",
    )
    reward: Reward = option("final", "What is rewarded: the answer, or every pass.")
    divergence: bool = option(False, "Subtract the objective's divergence from the model that training began with.")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("sampler", self.sampler, Sampler)
        check_choice("reward", self.reward, Reward)
        least_of = {"num_generations": 2, "num_iterations": 1, "tokens_per_step": 1, "max_tokens_per_pass": 1}
        for name, least in least_of.items():
            check_count(name, getattr(self, name), least=least)
        if self.gradient_accumulation_steps > 1:
            raise ValueError(
                f"gradient_accumulation_steps={self.gradient_accumulation_steps} is not supported; raise "
                "per_device_train_batch_size"
            )

    @property
    def steps_per_rollout(self) -> int:
        """Updates on a roll-out."""
        return self.num_iterations


def sampling(strategy: Strategy | None, tokens_per_step: int, sampler: Sampler = "policy") -> Decoding:
    """How completions are sampled.

    Args:
        strategy: How positions are chosen and tokens drawn; None: as the sampler does.
        tokens_per_step: Positions that a pass fills.
        sampler: Which positions these are.
    """
    drawn = strategy or replace(STRATEGIES[sampler], sample_token=True)
    return Decoding(drawn, tokens_per_step=tokens_per_step, policy=TEMPERATURES)


class Sampled(NamedTuple):
    """P · G completions of P problems.

    Attributes:
        completions: The completions.
        rewards: float64 `(P, G)`.
        used: bool `(P · G,)`, those of groups whose rewards differ; of the others no objective learns anything.
        updates: The copies of each update on them, with log p `(B, M, L)` under the policy that sampled, where there
            are several updates (None stands for the policy of the update itself), and under the reference, if any.
        mask_id: The mask token.
    """

    completions: Completions
    rewards: Tensor
    used: Tensor
    updates: list[tuple[Copies, Tensor | None, Tensor | None]]
    mask_id: int


def rewards_of(record: Decode, reward: Reward) -> Tensor:
    """The reward of each of N decodes, float64 `(N,)`."""
    problems, of = record.problems, torch.arange(len(record.responses), device=record.responses.device)
    if reward == "final":
        return problems.completable(record.responses, of).double()
    good, kept = torch.ones_like(of, dtype=torch.bool), torch.zeros_like(of, dtype=torch.float64)
    for step in range(int(record.forward_passes.max())):
        states = torch.where(record.step_of <= step, record.responses, problems.mask_id)
        good &= problems.completable(states, of)
        kept += good & (step < record.forward_passes)
    return kept / record.forward_passes


def completions_of(record: Decode) -> Completions:
    """N decodes with their prompts, on the CPU.

    Raises:
        ValueError: Prompts are padded, which the copies of an objective know nothing of.
    """
    if record.problems.prompt_mask is not None:
        raise ValueError("prompts differ in length, and padding would be read; choose problems of one length")
    tokens = torch.cat([record.problems.prompt_ids, record.responses], dim=1)
    steps = torch.cat([torch.full_like(record.problems.prompt_ids, -1), record.step_of], dim=1)
    tokens, steps = tokens.cpu(), steps.cpu()
    return Completions(tokens, steps >= 0, steps >= 0, steps)


class Asked(NamedTuple):
    """The N copies of some completions at which something is scored.

    Attributes:
        inputs: int64 `(N, L)`, what the model is given.
        masked: bool `(N, L)`, where it holds the mask.
        scored: bool `(N, L)`.
        tokens: int64 `(N, L)`, the completions.
        mask_id: The mask token.
    """

    inputs: Tensor
    masked: Tensor
    scored: Tensor
    tokens: Tensor
    mask_id: int

    def beside(self, model: nn.Module) -> "Asked":
        """These where a model is; what an objective makes of its answers is computed on the CPU."""
        place = next(model.parameters()).device
        return self._replace(**{name: getattr(self, name).to(place) for name in self._fields[:-1]})

    def parts(self, max_tokens: int) -> "Iterator[Asked]":
        """As many copies at a time as have at most so many tokens, one at least."""
        every = torch.arange(len(self.inputs)).split(max(1, max_tokens // self.inputs.shape[1]))
        for rows in every if len(self.inputs) else ():
            yield Asked(self.inputs[rows], self.masked[rows], self.scored[rows], self.tokens[rows], self.mask_id)


def asked_of(completions: Completions, copies: Copies, used: Tensor, mask_id: int) -> Asked:
    """The copies at which something is scored, of completions that are used, bool `(B,)`."""
    scored = copies.scored & used[:, None, None]
    some = scored.any(-1)  # (B, M)
    tokens = completions.tokens.unsqueeze(1).expand(scored.shape)[some]
    inputs = copies.inputs(completions, mask_id)[some]
    return Asked(inputs, copies.masked[some], scored[some], tokens, mask_id)


def told(logprobs: Logprobs, model: nn.Module, asked: Asked, scored: Tensor, max_tokens: int) -> Tensor:
    """What a model says of copies where they are scored, bool `(B, M, L)`, and 0 elsewhere: `(B, M, L)`."""
    if not len(asked.inputs):
        return torch.zeros(scored.shape)
    found = torch.cat([logprobs(model, part.beside(model)) for part in asked.parts(max_tokens)]).cpu()
    return found.new_zeros(scored.shape).masked_scatter(scored, found)


def at_copies(
    logprobs: Logprobs,
    model: nn.Module,
    completions: Completions,
    copies: Copies,
    used: Tensor,
    mask_id: int,
    max_tokens: int = ObjectiveArguments.max_tokens_per_pass,
) -> Tensor:
    """Log-probabilities where copies are scored, 0 elsewhere: `(B, M, L)`.

    Args:
        logprobs: What is scored.
        model: A model as `dllm_rl.policy.logits_at` takes it.
        completions: B of them.
        copies: Theirs.
        used: bool `(B,)`, those that the model is asked about.
        mask_id: The mask token.
        max_tokens: Largest number of tokens in one forward pass.
    """
    asked = asked_of(completions, copies, used, mask_id)
    return told(logprobs, model, asked, copies.scored & used[:, None, None], max_tokens)


def token_logprobs(model: nn.Module, asked: Asked) -> Tensor:
    """log p of the completions' tokens where they are scored, row by row."""
    logits = logits_at(model, asked.inputs[:, :0], None, asked.inputs, asked.scored, asked.mask_id)
    return logits.log_softmax(-1).gather(1, asked.tokens[asked.scored].unsqueeze(1)).squeeze(1)


class ObjectiveTrainer(BufferedTrainer):
    """Trains a model by an objective on completions that it samples, in one process.

    Args:
        model: A masked language model with the interface of `LladaForMaskedLM`.
        objective: The objective.
        args: The arguments of the run.
        problems: Problems to train on.
        task: What kind of problems they are.
        strategy: How positions are chosen and tokens drawn; None: as the arguments say.
        logprobs: What the objective is told of the copies.

    Raises:
        ValueError: There are several processes.
    """

    args: ObjectiveArguments

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        args: ObjectiveArguments,
        problems: Sequence[Any],
        task: UnmaskTask,
        strategy: Strategy | None = None,
        logprobs: Logprobs = token_logprobs,
    ) -> None:
        if args.world_size > 1:
            raise ValueError(f"{args.world_size} processes are not supported by {type(self).__name__}; start one")
        super().__init__(model, args, problems, data_collator=lambda rows: {"problems": task.batch(rows)})
        self.objective, self.logprobs = objective, logprobs
        self.reference = deepcopy(model).eval().requires_grad_(False) if args.divergence else None
        self.how = sampling(strategy, args.tokens_per_step, args.sampler)

    @property
    def _rows_per_batch(self) -> int:
        return self.args.per_device_train_batch_size

    def failed_rollout(self) -> None:
        """None: what failed is made again by the seed and the number of the step."""

    def _make_rollout(self, model: nn.Module, inputs: dict[str, UnmaskBatch]) -> list[Sampled]:
        problems, count = inputs["problems"], self.args.num_generations
        seed = np.random.SeedSequence((self.args.seed, self.state.global_step)).generate_state(1, np.uint64)[0]
        generator = torch.Generator().manual_seed(int(seed))
        repeated = problems.select(torch.arange(len(problems)).repeat_interleave(count))
        most = self.args.max_tokens_per_pass
        record = decode(model, repeated, self.how, generator=generator, max_tokens=most)
        completions, rewards = completions_of(record), rewards_of(record, self.args.reward).cpu().reshape(-1, count)
        flat = (rewards == rewards[:, :1]).all(1)
        used = (~flat).repeat_interleave(count)

        # Copies of each update, and what the policy that sampled and the reference say of them.
        updates: list[tuple[Copies, Tensor | None, Tensor | None]] = []
        for _ in range(self.args.num_iterations):
            copies = self.objective.copies(completions, generator)
            given = (completions, copies, used, problems.mask_id, most)
            old = reference = None
            with torch.no_grad():
                if self.args.num_iterations > 1:
                    old = at_copies(self.logprobs, model, *given)
                if self.reference is not None:
                    reference = at_copies(self.logprobs, self.reference, *given)
            updates.append((copies, old, reference))
        record_monitors(self.metrics, rewards=rewards, flat_groups=flat)
        return [Sampled(completions, rewards, used, updates, problems.mask_id)]

    def _train_on_buffer(self, model: nn.Module, inputs: Any, num_items_in_batch: Tensor | int | None = None) -> Tensor:
        (sampled,) = self._buffered_inputs
        copies, old, reference = sampled.updates[self._step]
        advantages = self.objective.advantages(sampled.rewards).float()
        model.train()
        scored = copies.scored & sampled.used[:, None, None]
        asked = asked_of(sampled.completions, copies, sampled.used, sampled.mask_id)
        parts = list(asked.parts(self.args.max_tokens_per_pass))
        with torch.set_grad_enabled(len(parts) == 1):
            logprobs = told(self.logprobs, model, asked, scored, self.args.max_tokens_per_pass)
        if len(parts) < 2:
            loss = self.objective.loss(logprobs, copies, advantages, old, reference)
            if loss.requires_grad:
                self.accelerator.backward(loss)
            return loss.detach().float().to(self.args.device)

        # The loss is one of all passes together: first its gradient by what they say, then of each by the weights.
        loss = self.objective.loss(logprobs.requires_grad_(), copies, advantages, old, reference)
        (slopes,) = torch.autograd.grad(loss, logprobs)
        of_parts = slopes[scored].split([int(part.scored.sum()) for part in parts])  # (M,), row by row
        for part, slope in zip(parts, of_parts, strict=True):
            self.accelerator.backward((self.logprobs(model, part.beside(model)).cpu() * slope).sum())
        return loss.detach().float().to(self.args.device)
