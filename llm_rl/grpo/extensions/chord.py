"""CHORD: expert answers in the loss of reinforcement learning (arXiv:2508.11408).

The loss is (1 − μ)·L_RL + μ·L_SFT. μ falls in the course of training, and a token of an answer may weigh φ = p(1 − p)
with p its probability: what the policy knows already, and what is foreign to it, weigh little.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from llm_rl.core import PolicyTensors, masked_sum
from llm_rl.core._checks import check_count, check_mask
from llm_rl.core._options import option
from llm_rl.grpo.extensions.base import Extension
from llm_rl.rollout.completions import prompt_ids
from llm_rl.rollout.data import RolloutBatch, Sample, encode_answer, named_place
from llm_rl.rollout.generation import SamplingParams
from llm_rl.rollout.loading import as_rows
from llm_rl.rollout.pictures import tokenizer_of
from llm_rl.rollout.scoring import causal_model, positions_of
from llm_rl.rollout.trainer import RolloutTrainer
from llm_rl.training.identity import fingerprint
from llm_rl.training.sampler import RepeatedBatchSampler


@dataclass
class Chord(Extension):
    """Mixes expert answers into the loss.

    Logs "chord_mu" and "chord_nll", the mean of −log π over the tokens of the answers.

    Raises:
        ValueError: A number is out of range; when a trainer takes it, there are no rows or one cannot be used.
    """

    rows: Any = field(metadata={"help": 'Expert answers: rows with "prompt" and "completion".'})
    mu_peak: float = option(0.5, "Highest weight of the expert answers; the surrogate has the rest.")
    mu_valley: float = option(0.05, "Their last weight.")
    mu_warmup_steps: int = option(0, "Optimizer steps up to the highest weight.")
    mu_decay_steps: int = option(100, "Steps from there to the last.")
    batch_size: int = option(1, "Expert answers beside each micro-batch.")
    phi: bool = option(True, "Tokens weigh p(1 - p) of their probability p.")

    def __post_init__(self) -> None:
        if not 0 <= self.mu_valley <= self.mu_peak <= 1:
            raise ValueError(
                f"mu_valley is {self.mu_valley} and mu_peak {self.mu_peak}; they take 0 <= valley <= peak <= 1"
            )
        for name, least in (("mu_warmup_steps", 0), ("mu_decay_steps", 0), ("batch_size", 1)):
            check_count(name, getattr(self, name), least=least)

    def bind(self, trainer: RolloutTrainer) -> None:
        """Encode the answers; errors as in `ExpertAnswers`."""
        super().bind(trainer)
        self.answers = ExpertAnswers(
            as_rows(self.rows),
            causal_model(trainer.model),
            trainer.processing_class,
            trainer.sampling,
            trainer._template_arguments,
            trainer.args.seed,
        )

    def mu(self, step: int) -> float:
        """The weight μ of the expert answers in a step, counted from 0: up in a line, down along a cosine, constant."""
        if step < self.mu_warmup_steps:
            return self.mu_peak * step / self.mu_warmup_steps
        after = step - self.mu_warmup_steps
        if after >= self.mu_decay_steps:
            return self.mu_valley
        share = (1 + math.cos(math.pi * after / self.mu_decay_steps)) / 2
        return self.mu_valley + (self.mu_peak - self.mu_valley) * share

    def loss(self, loss: Tensor, model: nn.Module, policy: PolicyTensors, batch: RolloutBatch) -> Tensor:
        """(1 − μ) · loss + μ · the loss on expert answers, this micro-batch's share."""
        # The step's answers of all processes, of which this micro-batch takes its part.
        args, step = self.trainer.args, self.trainer.state.global_step
        of_step = self.batch_size * args.gradient_accumulation_steps * args.world_size
        taken = self.answers.take(step * of_step, of_step)
        part = self.trainer._step % args.gradient_accumulation_steps
        part += args.gradient_accumulation_steps * args.process_index
        answers = self.answers.batch(taken[part * self.batch_size : (part + 1) * self.batch_size], args.device)

        logps = self.trainer._get_per_token_logps_and_entropies(model, answers).logprobs  # (B, T)
        mask = answers.completion_mask
        tokens = torch.tensor(sum(len(sample.completion_ids) for sample in taken), device=logps.device)
        expert, mu = expert_loss(logps, mask, tokens, phi=self.phi), self.mu(step)
        self.trainer.metrics.add("chord_mu", mu)
        self.trainer.metrics.add_ratio("chord_nll", -masked_sum(logps.detach(), mask), mask.sum())
        return (1 - mu) * loss + mu * expert

    def identity(self) -> dict[str, Any]:
        """The options, with a checksum of the answers."""
        return {**super().identity(), "rows": fingerprint(self.answers.samples)}


def expert_loss(logprobs: Tensor, mask: Tensor, tokens: Tensor, *, phi: bool) -> Tensor:
    """This micro-batch's share of −mean of φ·log π over the tokens of expert answers, a scalar.

    `logprobs`, `(B, T)`, are log π of the answers' tokens, which the bool `mask`, `(B, T)`, tells; `tokens`, an int64
    scalar, is how many there are in the whole optimizer step. With `phi` the tokens weigh φ = p(1 − p), a constant,
    else 1.

    Raises:
        ValueError: The mask does not fit.
    """
    check_mask(mask, "logprobs", logprobs)
    if phi:
        probabilities = logprobs.detach().masked_fill(~mask, 0.0).exp()
        logprobs = logprobs * probabilities * (1 - probabilities)
    return -masked_sum(logprobs, mask) / tokens.clamp(min=1)


class ExpertAnswers:
    """Expert answers, encoded once, and which of them each micro-batch takes.

    The order depends on the seed and the place in the run alone, so that a run that goes on takes the same. Every
    process knows what all take, and so the number of tokens of an optimizer step.

    Rows have "prompt" (text or messages) and "completion" (a text, or a list of one message), and the positions of
    `causal` hold them. The end token behind an answer, and the padding, are those of `params`; `seed` is that of the
    order.

    Raises:
        ValueError: There are no rows, or one cannot be used; the message says which.
    """

    def __init__(
        self, rows: Any, causal: Any, tokenizer: Any, params: SamplingParams, chat_template_kwargs: Any, seed: int
    ) -> None:
        room = positions_of(causal) or math.inf
        self.pad_id, self.samples = params.pad_token_id, list[Sample]()
        for index in range(len(rows)):
            row = rows[index]
            with named_place(f"row {index} of Chord"):
                text = _answer(row)
                before = prompt_ids(row, causal, tokenizer, params, chat_template_kwargs)
                words = tokenizer_of(tokenizer)
                end = params.eos_token_ids[0] if words.eos_token_id is None else words.eos_token_id
                ids = encode_answer(text, words, end)
                if len(before) + len(ids) > room:
                    raise ValueError(f"{len(before)} + {len(ids)} tokens exceed the model's {room} positions")
            self.samples.append(Sample(row, before, ids, truncated=False))
        if not self.samples:
            raise ValueError("Chord has no rows; give expert answers, or leave it out")
        self._order = RepeatedBatchSampler(len(self.samples), block=1, repeats=1, seed=seed)

    def take(self, first: int, count: int) -> list[Sample]:
        """`count` answers from place `first` of an endless series of shuffled passes."""
        return [self.samples[index] for place in range(first, first + count) for index in self._order.block_at(place)]

    def batch(self, samples: Sequence[Sample], device: torch.device | str) -> RolloutBatch:
        """The padded tensors of answers."""
        return RolloutBatch.collate(samples, self.pad_id, device=device)


def _answer(row: Any) -> str:
    value = row.get("completion") if hasattr(row, "get") else None
    text = value[0].get("content") if isinstance(value, list) and len(value) == 1 else value
    if not isinstance(text, str):
        raise ValueError(f"'completion' is {value!r}; it must be a text or a list of one message")
    return text
