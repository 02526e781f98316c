"""`GRPOTrainer`: group-relative policy optimization (arXiv:2402.03300) on `RolloutTrainer`; see docs/grpo.md."""

from collections.abc import Sequence

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
    leveled_log_ratio,
    masked_sum,
    record_monitors,
)
from llm_rl.core.mismatch import record_mismatch, truncated_importance_weight
from llm_rl.grpo.arguments import GroupRelativeArguments, GRPOArguments, ScaleRewards
from llm_rl.grpo.loss_masks import highest_entropy, kl_penalty, without_truncated
from llm_rl.rollout.data import RolloutBatch, Sample
from llm_rl.rollout.trainer import RolloutTrainer
from llm_rl.training.modes import evaluation_mode

SCALES: dict[ScaleRewards, RewardScale] = {"group": "std", "batch": "batch_std", "none": "none"}


def grpo_surrogate(
    args: GroupRelativeArguments, logps: Tensor, old_logps: Tensor, mask: Tensor, advantages: Tensor
) -> SurrogateOutput:
    """The clipped surrogate that the arguments ask for; see `core.clipped_surrogate`.

    Args:
        args: Level of the ratio and clip range.
        logps: `(B, T)`, under the policy that is trained.
        old_logps: `(B, T)`, under the policy at sampling.
        mask: bool `(B, T)`, the tokens that count.
        advantages: `(B,)`.
    """
    log_ratio = leveled_log_ratio(logps, old_logps, mask, level=args.importance_sampling_level)
    return clipped_surrogate(
        log_ratio,
        torch.zeros_like(log_ratio),
        advantages.unsqueeze(1),
        args.epsilon,
        args.clip_high,
        delta=args.delta,
    )


class GRPOTrainer(RolloutTrainer):
    """Trains a causal language model on rewards that are compared within groups of completions of one prompt.

    Where this departs from usual code, such as TRL's: the loss is normalized over the whole optimizer step of all
    processes for every `loss_type`; completions without a token that counts are left out of its means; a group without
    spread has advantage 0 exactly. Arguments as in `RolloutTrainer`, with `GRPOArguments`.
    """

    args: GRPOArguments

    # A roll-out

    def _collate(self, samples: Sequence[Sample]) -> RolloutBatch:
        """The padded tensors of one micro-batch; truncated completions may not count."""
        batch = super()._collate(samples)
        if self.args.mask_truncated_completions:
            batch.loss_mask = without_truncated(batch.loss_mask, batch.truncated)
        return batch

    @property
    def _needs_old_policy(self) -> bool:
        return super()._needs_old_policy or self.args.top_entropy_quantile < 1 or self.args.kl_in == "reward"

    def _score_old_policy(self, micro_batches: Sequence[RolloutBatch]) -> list[Tensor]:
        """Adds the log-probabilities at sampling, and which tokens are among those of highest entropy."""
        entropies = super()._score_old_policy(micro_batches)
        if self.args.top_entropy_quantile < 1:
            masks = [batch.loss_mask for batch in micro_batches]
            kept = highest_entropy(entropies, masks, self.args.top_entropy_quantile, self.accelerator)
            for batch, mask in zip(micro_batches, kept, strict=True):
                if self.args.top_entropy_in == "loss":
                    batch.loss_mask = mask
                else:
                    batch.policy_mask = mask
        return entropies

    @torch.no_grad()
    def _adjust_rewards(self, rewards: Tensor, micro_batches: Sequence[RolloutBatch]) -> Tensor:
        """Takes the divergence of the policy at sampling off the rewards `(P, G)`, where `kl_in` is "reward"."""
        if self.args.kl_in == "loss":
            return rewards
        penalties = []
        with evaluation_mode(self.model):
            for batch in micro_batches:
                mask = batch.completion_mask
                kl = self._reference_kl(self.model, batch, batch.old_per_token_logps, mask)
                penalties.append(kl_penalty(kl, mask, self.args.beta))
        return rewards + torch.cat(penalties).view_as(rewards)

    def _compute_advantages(self, rewards: Tensor) -> Tensor:
        """A = (r − baseline) / (std + 1e-4), `(P, G)`; the standard deviation of the batch is that of all processes."""
        together = self.accelerator.gather(rewards)
        advantages = group_relative_advantage(
            together,
            baseline=self.args.advantage_baseline,
            scale=SCALES[self.args.scale_rewards],
            std_eps=1e-4,
            correction=1,
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
        acting = mask if inputs.policy_mask is None else inputs.policy_mask
        objective = objective.masked_fill(~acting, 0.0)
        if inputs.sampling_per_token_logps is not None:
            record_mismatch(self.metrics, old_logps, inputs.sampling_per_token_logps, inputs.completion_mask)
        if self.args.importance_correction_cap is not None:
            objective = objective * self._importance_weight(old_logps, inputs)
        if self.args.uses_reference and self.args.kl_in == "loss":
            objective = objective - self.args.beta * self._reference_kl(model, inputs, logps, mask)
        loss = -aggregate_loss(
            objective,
            mask,
            self.args.loss_type,
            LossCounts(inputs.sequences, inputs.tokens),
            max_length=self.args.max_completion_length if self.args.loss_type == "dr_grpo" else None,
        )
        record_monitors(
            self.metrics,
            policy=PolicyTensors(logps, old_logps, surrogate, acting, inputs.completion_mask, entropies),
        )
        return loss

    def _importance_weight(self, old_logps: Tensor, inputs: RolloutBatch) -> Tensor:
        if inputs.sampling_per_token_logps is None or self.args.importance_correction_cap is None:
            raise ValueError(
                "importance_correction_cap needs the engine's log-probabilities, but the engine returned none; use an "
                "engine that does, or importance_correction_cap=None"
            )
        cap, mask = self.args.importance_correction_cap, inputs.loss_mask
        weight = truncated_importance_weight(old_logps, inputs.sampling_per_token_logps, mask, cap)
        self.metrics.add_ratio("importance_weight_mean", masked_sum(weight, mask), mask.sum())
        self.metrics.add_ratio("importance_weight_capped_frac", masked_sum((weight >= cap).float(), mask), mask.sum())
        return weight
