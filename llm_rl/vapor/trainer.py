"""`VAPORTrainer`: verifiable reward and preference in one ratio, on `RolloutTrainer`. Source: docs/vapor.md."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from llm_rl.core import LossCounts, MetricAccumulator
from llm_rl.rollout.data import RolloutBatch, Sample, is_conversation
from llm_rl.rollout.scoring import positions_of
from llm_rl.rollout.trainer import RolloutTrainer
from llm_rl.training.modes import evaluation_mode
from llm_rl.training.symptoms import Symptom
from llm_rl.vapor.arguments import VAPORArguments
from llm_rl.vapor.batches import (
    Response,
    VaporRolloutBatch,
    VaporSample,
    collate_pairs,
    encode_response,
    find_part,
    preference_pair,
)
from llm_rl.vapor.monitors import NOTHING_FOUND, record_preferences, record_vapor
from llm_rl.vapor.objective import VaporCounts, vapor_loss, vapor_terms
from llm_rl.vapor.ratios import span_mask, vapor_advantage


class VAPORTrainer(RolloutTrainer):
    """Trains a causal language model on a reward of a tagged part of its completions and on preference pairs.

    Rows have "prompt", "chosen" and "rejected", a text each, or messages: any number in the prompt, one in the others.
    A completion without the verifiable part has reward 0 and ratio 1; the preference term is 1 where a response was not
    found. Arguments as in `RolloutTrainer`, with `VAPORArguments`; there is always a reference.

    Raises:
        ValueError: A row has no pair, or one of the reasons of `RolloutTrainer`.
    """

    args: VAPORArguments
    shards = True
    record_classes = (RolloutBatch, VaporRolloutBatch)

    # A roll-out

    def _symptoms(self) -> tuple[Symptom, ...]:
        return (*super()._symptoms(), NOTHING_FOUND)

    def _generate_completions(self, rows: Sequence[Mapping[str, Any]], num_generations: int) -> list[Sample]:
        """Samples with their verifiable part; a row's side by side."""
        tagged: list[Sample] = []
        for sample in super()._generate_completions(rows, num_generations):
            span, text = find_part(
                sample.completion_ids, self.processing_class, self.args.verifiable_term_split, self.args.span_rule
            )
            tagged.append(VaporSample(**vars(sample), span=span, text=text))
        return tagged

    def _compute_rewards_per_func(self, samples: Sequence[Any]) -> Tensor:
        """float64 `(N, F)`; NaN, which adds nothing, where the verifiable part was not found."""
        found = [index for index, sample in enumerate(samples) if sample.span is not None]
        rewards = torch.full((len(samples), len(self.rewards.names)), torch.nan, dtype=torch.float64)
        if found:
            parts = [samples[index] for index in found]
            rewards[found] = super()._compute_rewards_per_func(
                [replace(part, completion_ids=part.completion_ids[slice(*part.span)]) for part in parts]
            )
        return rewards

    def _rewarded_completion(self, sample: Any) -> Any:
        return [{"role": "assistant", "content": sample.text}] if is_conversation(sample.row["prompt"]) else sample.text

    def _record_samples(self, metrics: MetricAccumulator, samples: Sequence[Any], per_function: Tensor) -> None:
        super()._record_samples(metrics, samples, per_function)
        metrics.add_ratio("verifiable_failure_frac", sum(sample.span is None for sample in samples), len(samples))

    def _check_row(self, row: Any) -> None:
        super()._check_row(row)
        self._encode_pair(row)

    def _encode_pair(self, row: Mapping[str, Any]) -> tuple[Response, Response]:
        tags, rule = self.args.preference_term_split, self.args.span_rule
        chosen, rejected = (
            encode_response(row, name, self.processing_class, tags, rule) for name in ("chosen", "rejected")
        )
        return chosen, rejected

    def _collate(self, samples: Sequence[Any], num_generations: int | None = None) -> VaporRolloutBatch:
        """Adds the spans of s_i, and each prompt's pair, encoded once."""
        size = self.args.num_generations if num_generations is None else num_generations
        batch, firsts = super()._collate(samples), list(samples[::size])
        pairs = [self._encode_pair(sample.row) for sample in firsts]
        if self.args.preference_context == "generated":
            firsts, pairs = list(samples), [pair for pair in pairs for _ in range(size)]
        return VaporRolloutBatch(
            **vars(batch),
            spans=span_mask([sample.span for sample in samples], batch.completion_ids.shape[1], self.args.device),
            pairs=collate_pairs(
                firsts,
                pairs,
                self.args.preference_context,
                self.sampling.pad_token_id,
                room=positions_of(self.model),
                device=self.args.device,
            ),
        )

    @torch.no_grad()
    def _prepare_batch_inputs(self, samples: Sequence[Sample]) -> list[RolloutBatch]:
        """Adds the reference's log-probabilities of the pairs, and how many of the optimizer step were found."""
        micro_batches: list[Any] = super()._prepare_batch_inputs(samples)
        for batch in micro_batches:
            batch.pairs.ref_per_token_logps = self._reference_logps(batch.pairs)
        # Both responses of a pair have tokens or neither has.
        found = torch.stack([batch.pairs.loss_mask.any(-1).sum() // 2 for batch in micro_batches]).sum()
        self.settle()
        found = self.accelerator.reduce(found)
        for batch in micro_batches:
            batch.pairs_found = found
        return micro_batches

    def _compute_advantages(self, rewards: Tensor) -> Tensor:
        """A = reward − group mean, `(Q, G)`."""
        found = torch.ones_like(rewards, dtype=torch.bool)
        return vapor_advantage(rewards, found, self.args.objective.advantage_scale)

    # The update

    def _compute_loss_and_metrics(self, model: nn.Module, inputs: Any) -> Tensor:
        """This micro-batch's share of the loss −J (docs/vapor.md), to be added up over micro-batches and processes."""
        config = self.args.objective
        logps, entropies = self._get_per_token_logps_and_entropies(model, inputs)  # (B, T) each
        old_logps = logps.detach() if inputs.old_per_token_logps is None else inputs.old_per_token_logps
        # Without a strength the preference is still logged, at no cost of a graph.
        with torch.set_grad_enabled(torch.is_grad_enabled() and config.beta > 0):
            pair_logps = self._get_per_token_logps_and_entropies(model, inputs.pairs).logprobs
        batch = inputs.tensors(logps, old_logps, pair_logps, self.args.num_generations)
        terms = vapor_terms(batch, config)
        samples = self.args.per_device_train_batch_size * self.args.gradient_accumulation_steps * self.args.world_size
        counts = VaporCounts(
            torch.tensor(samples, device=logps.device), LossCounts(inputs.sequences, inputs.tokens), inputs.pairs_found
        )
        loss = vapor_loss(terms, batch, config, counts)
        record_vapor(self.metrics, terms, batch, entropies.view_as(batch.spans))
        record_preferences(self.metrics, batch.pair)
        self._record_mismatch(inputs, old_logps, inputs.completion_mask)
        return loss.loss

    # Evaluation

    @torch.no_grad()
    def _record_evaluation(self, metrics: MetricAccumulator, samples: Sequence[Any], per_function: Tensor) -> None:
        """Adds the preference metrics of the rows' pairs."""
        super()._record_evaluation(metrics, samples, per_function)
        batch = self._collate(samples, num_generations=1)
        batch.pairs.ref_per_token_logps = self._reference_logps(batch.pairs)
        with evaluation_mode(self.model):
            pair_logps = self._get_per_token_logps_and_entropies(self.model, batch.pairs).logprobs
        record_preferences(metrics, preference_pair(batch.pairs, pair_logps, len(samples)))
