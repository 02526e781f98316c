"""`GRPOTrainer`: group-relative policy optimization (arXiv:2402.03300) on `EpisodeTrainer`; see docs/grpo.md."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from llm_rl.core import (
    LossCounts,
    PolicyTensors,
    RewardScale,
    SurrogateOutput,
    aggregate_loss,
    clipped_surrogate,
    group_relative_advantage,
    masked_sum,
    record_monitors,
    rewards_with_kl,
    token_log_ratio,
)
from llm_rl.core.mismatch import importance_weight, record_mismatch
from llm_rl.grpo.arguments import GRPOArguments, ScaleRewards
from llm_rl.grpo.chord import ExpertAnswers, expert_loss
from llm_rl.grpo.entropy_bonus import EntropyBonus
from llm_rl.rollout.ahead import STRIDE, RolloutAhead
from llm_rl.rollout.clip import ClippedArguments
from llm_rl.rollout.completions import as_samples, encode_rows
from llm_rl.rollout.data import RolloutBatch, Sample
from llm_rl.rollout.generation import TransformersEngine
from llm_rl.rollout.loading import as_rows
from llm_rl.rollout.scoring import causal_model
from llm_rl.tools.trainer import EpisodeTrainer
from llm_rl.training.identity import fingerprint
from llm_rl.training.modes import evaluation_mode

SCALES: dict[ScaleRewards, RewardScale] = {"group": "std", "batch": "batch_std", "none": "none"}


def grpo_surrogate(
    args: ClippedArguments, logps: Tensor, old_logps: Tensor, mask: Tensor, advantages: Tensor
) -> SurrogateOutput:
    """The clipped surrogate of each token, `core.clipped_surrogate`.

    Args:
        args: The clip range.
        logps: `(B, T)`, under the policy that is trained.
        old_logps: `(B, T)`, under the policy at sampling.
        mask: bool `(B, T)`, the tokens that count.
        advantages: `(B,)`, or `(B, T)`.
    """
    advantages = advantages.unsqueeze(1) if advantages.dim() == 1 else advantages
    log_ratio = token_log_ratio(logps, old_logps, mask)
    return clipped_surrogate(log_ratio, torch.zeros_like(log_ratio), advantages, args.epsilon, args.clip_high)


class GRPOTrainer(EpisodeTrainer):
    """Trains a causal language model on rewards that are compared within groups of completions of one prompt.

    Where this departs from usual code, such as TRL's: the loss is normalized over the whole optimizer step of all
    processes for every `loss_type`; completions without a token that counts are left out of its means; a group without
    spread has advantage 0 exactly. Arguments as in `EpisodeTrainer`, with `GRPOArguments`, and `chord_dataset`: rows
    with "prompt" and "completion", expert answers that are mixed into the loss (CHORD, see `llm_rl.grpo.chord`).
    """

    args: GRPOArguments
    leaves_out_unscored = True

    def __init__(self, *args: Any, chord_dataset: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.experts = None if chord_dataset is None else self._expert_answers(chord_dataset)
        self.ahead = self._new_ahead() if self.args.rollouts_ahead else None
        bonus = self.args.entropy_coef, self.args.entropy_target
        self.entropy_bonus = EntropyBonus(*bonus, self.args.entropy_coef_delta, self.args.entropy_coef_max)

    def _expert_answers(self, chord_dataset: Any) -> ExpertAnswers:
        causal, rows = causal_model(self.model), as_rows(chord_dataset)
        given = causal, self.processing_class, self.sampling, self._template_arguments
        return ExpertAnswers(rows, *given, self.args.seed)

    def _new_ahead(self) -> RolloutAhead:
        if type(self.engine) is not TransformersEngine:
            raise ValueError("rollouts_ahead needs the TransformersEngine: another engine samples where it likes")
        seed = self.args.seed + STRIDE * (1 + self.args.process_index)
        return RolloutAhead(causal_model(self.model), seed, self.engine.batch_size, self.accelerator.autocast)

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """Train as `BufferedTrainer.train` documents it."""
        if self.ahead is not None:
            self.ahead.forget()
        return super().train(*args, **kwargs)

    # A roll-out

    def _make_rollout(self, model: nn.Module, rows: list[Mapping[str, Any]]) -> list[Any]:
        """A fresh roll-out, or the one that was sampled ahead, while the next one starts."""
        if self.ahead is None:
            return super()._make_rollout(model, rows)
        step, served = self.state.global_step, self.args.steps_per_rollout
        index = step // served
        if self.ahead.index != index:  # the first one
            self._start_ahead(self.ahead, index)
        samples = as_samples(self._encoded_rows(index), self.ahead.result(), self.sampling)
        self.metrics.add("rollout_staleness", step - self.ahead.version)
        if (index + 1) * served < self.state.max_steps:
            self._start_ahead(self.ahead, index + 1)
        return self._score_and_prepare(samples)

    def _start_ahead(self, ahead: RolloutAhead, index: int) -> None:
        prompts = [ids for _, ids in self._encoded_rows(index)]
        ahead.submit(causal_model(self.model), index, self.state.global_step, prompts, self.sampling)

    def _encoded_rows(self, index: int) -> list[tuple[Mapping[str, Any], list[int]]]:
        """The rows of this process's roll-out `index`, each as often as it has completions, and their tokens."""
        sampler: Any = self._get_train_sampler()
        size, rank = self._rows_per_batch, self.args.process_index
        rows = [self.train_dataset[row] for row in sampler.block_at(index)[rank * size : (rank + 1) * size]]
        causal, count = causal_model(self.model), self.args.num_generations
        return encode_rows(rows, causal, self.processing_class, count, self.sampling, self._template_arguments)

    def _collate(self, samples: Sequence[Sample]) -> RolloutBatch:
        """The padded tensors of one micro-batch; completions without a reward do not count."""
        batch = super()._collate(samples)
        owners = range(len(samples)) if batch.owners is None else batch.owners.tolist()
        scores = [samples[owner].scores for owner in owners]
        unscored = [bool(said) and all(map(math.isnan, said)) for said in scores]
        batch.loss_mask = batch.loss_mask & ~torch.tensor(unscored, device=batch.loss_mask.device).unsqueeze(1)
        return batch

    @property
    def _needs_old_policy(self) -> bool:
        return super()._needs_old_policy or self.args.kl_in == "reward"

    @torch.no_grad()
    def _adjust_rewards(self, rewards: Tensor, micro_batches: Sequence[RolloutBatch]) -> Tensor:
        """Takes the divergence of the policy at sampling off the rewards `(P, G)`, where `kl_in` is "reward"."""
        if self.args.kl_in == "loss":
            return rewards
        penalties = []
        with evaluation_mode(self.model):
            for batch in micro_batches:
                mask = batch.sampled_mask
                kl = self._reference_kl(self.model, batch, batch.old_per_token_logps, mask)
                penalty = rewards_with_kl(kl.new_zeros(len(kl)), kl, mask, self.args.beta).sum(1)  # (B,)
                if batch.owners is not None:
                    whole = penalty.new_zeros(self.args.per_device_train_batch_size)
                    penalty = whole.index_add(0, batch.owners, penalty)
                penalties.append(penalty)
        return rewards + torch.cat(penalties).view_as(rewards)

    def _compute_advantages(self, rewards: Tensor) -> Tensor:
        """A = (r − baseline) / (std + 1e-4), `(P, G)`; the standard deviation of the batch is that of all processes.

        A completion that is not scored is in no mean and has advantage 0.
        """
        together = self.accelerator.gather(rewards)
        advantages = group_relative_advantage(
            together,
            baseline=self.args.advantage_baseline,
            scale=SCALES[self.args.scale_rewards],
            std_eps=1e-4,
            correction=1,
            mask=~together.isnan(),
        )
        return advantages.chunk(self.args.world_size)[self.args.process_index]

    # The update

    def _compute_loss_and_metrics(self, model: nn.Module, inputs: RolloutBatch) -> Tensor:
        """This micro-batch's share of the step's loss, to be added up over micro-batches and processes."""
        mask, advantages = inputs.loss_mask, inputs.advantages
        if advantages is None or inputs.sequences is None or inputs.tokens is None:
            raise ValueError("the batch has no advantages or counts; make it with _generate_and_score_completions")
        logps, entropies = self._get_per_token_logps_and_entropies(model, inputs)  # (B, T) each
        old_logps = logps.detach() if inputs.old_per_token_logps is None else inputs.old_per_token_logps
        surrogate = grpo_surrogate(self.args, logps, old_logps, mask, advantages)
        objective = surrogate.objective  # (B, T)
        if inputs.sampling_per_token_logps is not None:
            record_mismatch(self.metrics, old_logps, inputs.sampling_per_token_logps, inputs.sampled_mask)
        if self.args.corrects_importance:
            objective = objective * self._importance_weight(old_logps, inputs)
        if self.args.uses_reference and self.args.kl_in == "loss":
            objective = objective - self.args.beta * self._reference_kl(model, inputs, logps, mask)
        loss = -aggregate_loss(
            objective,
            mask,
            self.args.loss_type,
            LossCounts(inputs.sequences, inputs.tokens),
            max_length=self._longest_sample if self.args.loss_type == "dr_grpo" else None,
        )
        if self.entropy_bonus.acts:
            loss = loss - self._bonus(entropies, inputs)
        if self.experts is not None:
            loss = self._with_experts(self.experts, model, loss)
        record_monitors(
            self.metrics,
            policy=PolicyTensors(logps, old_logps, surrogate, mask, inputs.sampled_mask, entropies),
        )
        return loss

    def _importance_weight(self, old_logps: Tensor, inputs: RolloutBatch) -> Tensor:
        engine_logps, mask = inputs.sampling_per_token_logps, inputs.loss_mask
        if engine_logps is None:
            raise ValueError(
                "importance_correction_cap needs the engine's log-probabilities, but the engine returned none; use an "
                "engine that does, or leave importance_correction_cap and importance_correction_floor out"
            )
        low = self.args.importance_correction_floor or 0.0
        high = math.inf if self.args.importance_correction_cap is None else self.args.importance_correction_cap
        level, mode = self.args.importance_correction_level, self.args.importance_correction_mode
        weight = importance_weight(old_logps, engine_logps, mask, level=level, mode=mode, low=low, high=high)
        beyond = (weight <= low) | (weight >= high) if mode == "truncate" else weight == 0
        self.metrics.add_ratio("importance_weight_mean", masked_sum(weight, mask), mask.sum())
        self.metrics.add_ratio("importance_weight_capped_frac", masked_sum(beyond.float(), mask), mask.sum())
        return weight

    def _bonus(self, entropies: Tensor, inputs: RolloutBatch) -> Tensor:
        """This micro-batch's share of α · H, the mean entropy of the step's tokens that count."""
        assert inputs.tokens is not None
        total = masked_sum(entropies, inputs.loss_mask)
        self.entropy_bonus.add(total.item(), int(inputs.loss_mask.sum()))
        self.metrics.add("entropy_coef", self.entropy_bonus.acting_weight)
        share = self.entropy_bonus.acting_weight * total / inputs.tokens.clamp(min=1)
        if self.accelerator.sync_gradients:
            window = torch.tensor(self.entropy_bonus.window(), dtype=torch.float64, device=total.device)
            both = self.accelerator.reduce(window, reduction="sum")
            self.entropy_bonus.update(float(both[0]), int(both[1]))
        return share

    def _with_experts(self, experts: ExpertAnswers, model: nn.Module, loss: Tensor) -> Tensor:
        """(1 − μ) · loss + μ · the loss on expert answers (CHORD), this micro-batch's share."""
        size, accumulated = self.args.chord_batch_size, self.args.gradient_accumulation_steps
        of_step = size * accumulated * self.args.world_size
        first = self.state.global_step * of_step
        taken = experts.take(first, of_step)  # of all micro-batches and processes
        part = self._step % accumulated + accumulated * self.args.process_index
        batch = experts.batch(taken[part * size : (part + 1) * size], self.args.device)
        logps = self._get_per_token_logps_and_entropies(model, batch).logprobs
        tokens = torch.tensor(sum(len(sample.completion_ids) for sample in taken), device=logps.device)
        expert = expert_loss(logps, batch.completion_mask, tokens, phi=self.args.chord_phi)
        mu = self.args.chord_mu(self.state.global_step)
        self.metrics.add("chord_mu", mu)
        self.metrics.add_ratio(
            "chord_nll", -masked_sum(logps.detach(), batch.completion_mask), batch.completion_mask.sum()
        )
        return (1 - mu) * loss + mu * expert

    # Checkpoints

    def identity(self) -> dict[str, Any]:
        """Adds a checksum of the expert answers."""
        known = super().identity()
        if self.experts is not None:
            known["chord_dataset"] = fingerprint(self.experts.samples)
        return known

    def progress(self) -> dict[str, Any]:
        """Adds the weight of the entropy bonus, and the roll-out ahead."""
        ahead = None if self.ahead is None else self.ahead.state_dict()
        return {**super().progress(), "entropy_bonus": self.entropy_bonus.state_dict(), "ahead": ahead}

    def load_progress(self, progress: dict[str, Any]) -> None:
        """Continue from what `progress` returned; errors as in `BufferedTrainer.load_progress`."""
        super().load_progress(progress)
        self.entropy_bonus.load_state_dict(progress["entropy_bonus"])
        if self.ahead is not None:
            self.ahead.load_state_dict(progress["ahead"])
