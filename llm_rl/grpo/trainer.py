"""`GRPOTrainer`: group-relative policy optimization (arXiv:2402.03300) on `EpisodeTrainer`; see docs/grpo.md."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
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
    leveled_log_ratio,
    record_monitors,
    rewards_with_kl,
)
from llm_rl.grpo.arguments import GroupRelativeArguments, GRPOArguments, ScaleRewards
from llm_rl.grpo.extensions.base import Extension
from llm_rl.rollout.data import RolloutBatch, Sample
from llm_rl.tools.trainer import EpisodeTrainer
from llm_rl.training.modes import evaluation_mode

SCALES: dict[ScaleRewards, RewardScale] = {"group": "std", "batch": "batch_std", "none": "none"}


def grpo_surrogate(
    args: GroupRelativeArguments, logps: Tensor, old_logps: Tensor, mask: Tensor, advantages: Tensor
) -> SurrogateOutput:
    """The clipped surrogate of each token, `core.clipped_surrogate`.

    Args:
        args: The clip range, and what shares a ratio.
        logps: `(B, T)`, under the policy that is trained.
        old_logps: `(B, T)`, under the policy at sampling.
        mask: bool `(B, T)`, the tokens that count.
        advantages: `(B,)`.
    """
    log_ratio = leveled_log_ratio(logps, old_logps, mask, args.importance_sampling_level)
    zeros = torch.zeros_like(log_ratio)
    return clipped_surrogate(log_ratio, zeros, advantages.unsqueeze(1), args.clip_low, args.clip_high)


class GRPOTrainer(EpisodeTrainer):
    """Trains a causal language model on rewards that are compared within groups of completions of one prompt.

    Where this departs from usual code, such as TRL's: the loss is normalized over the whole optimizer step of all
    processes for every `loss_type`; completions without a token that counts are left out of its means; a group without
    spread has advantage 0 exactly.

    Args:
        *args: As in `EpisodeTrainer`, with `GRPOArguments`.
        extensions: What is done beside the objective, see `llm_rl.grpo.extensions`; they act in this order.
        **kwargs: As in `EpisodeTrainer`.

    Raises:
        ValueError: An extension is there twice or does not fit, or one of the reasons of `EpisodeTrainer`.
    """

    args: GRPOArguments
    shards = True
    leaves_out_unscored = True
    takes_pictures = True

    def __init__(self, *args: Any, extensions: Sequence[Extension] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.extensions = [replace(extension) for extension in extensions]  # a state for this trainer alone
        names = [extension.name for extension in self.extensions]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"extensions has {twice[0]} twice; leave one of them out")
        if self.extensions and self.args.shard:
            raise ValueError(f"extensions are not supported with shard; leave out {names[0]}, or shard")
        for extension in self.extensions:
            extension.bind(self)

    # A roll-out

    def _roll_out(self, rows: list[Mapping[str, Any]]) -> Sequence[RolloutBatch]:
        """The micro-batches of a fresh roll-out, or of the one that an extension has."""
        for extension in self.extensions:
            if (samples := extension.sample(rows)) is not None:
                return self._prepare_rollout(samples)
        return super()._roll_out(rows)

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

    def _set_advantages(self, rewards: Tensor, micro_batches: Sequence[RolloutBatch]) -> Tensor | None:
        """Takes the divergence off the rewards first, where `kl_in` is "reward"."""
        if self.args.kl_in == "reward":
            rewards = rewards + self._divergence_penalties(micro_batches).view_as(rewards)
        return super()._set_advantages(rewards, micro_batches)

    @torch.no_grad()
    def _divergence_penalties(self, micro_batches: Sequence[RolloutBatch]) -> Tensor:
        """−β Σ KL of the policy at sampling over the tokens of each completion, `(N,)`."""
        penalties = []
        with evaluation_mode(self.model):
            for batch in micro_batches:
                mask = batch.sampled_mask
                kl = self._reference_kl(self.model, batch, batch.old_per_token_logps, mask)
                penalty = rewards_with_kl(kl.new_zeros(len(kl)), kl, mask, self.args.kl_weight).sum(1)  # (B,)
                # Rows may be turns, and a reward is the conversation's.
                if batch.owners is not None:
                    whole = penalty.new_zeros(self.args.per_device_train_batch_size)
                    penalty = whole.index_add(0, batch.owners, penalty)
                penalties.append(penalty)
        return torch.cat(penalties)

    def _compute_advantages(self, rewards: Tensor) -> Tensor:
        """A = (r − baseline) / (std + 1e-4), `(Q, G)`; the standard deviation of the batch is that of all processes.

        A completion that is not scored is in no mean and has advantage 0.
        """
        self.settle()
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
        mask, advantages = inputs.loss_mask, inputs.advantages
        if advantages is None or inputs.sequences is None or inputs.tokens is None:
            raise ValueError("the batch has no advantages or counts; make it with _roll_out")
        logps, entropies = self._get_per_token_logps_and_entropies(model, inputs)  # (B, T) each
        old_logps = logps.detach() if inputs.old_per_token_logps is None else inputs.old_per_token_logps
        surrogate = grpo_surrogate(self.args, logps, old_logps, mask, advantages)
        policy = PolicyTensors(logps, old_logps, surrogate, mask, inputs.sampled_mask, entropies)

        # What is maximized at each token, (B, T)
        objective = surrogate.objective
        for extension in self.extensions:
            objective = extension.objective(objective, policy, inputs)
        if self.args.uses_reference and self.args.kl_in == "loss":
            objective = objective - self.args.kl_weight * self._reference_kl(model, inputs, logps, mask)

        # This micro-batch's share of the loss
        loss = -aggregate_loss(
            objective,
            mask,
            self.args.loss_type,
            LossCounts(inputs.sequences, inputs.tokens),
            max_length=self._longest_sample if self.args.loss_type == "dr_grpo" else None,
        )
        for extension in self.extensions:
            loss = extension.loss(loss, model, policy, inputs)

        # What a step's log line tells
        self._record_mismatch(inputs, old_logps, inputs.sampled_mask)
        record_monitors(self.metrics, policy=policy)
        return loss

    # Checkpoints

    def identity(self) -> dict[str, Any]:
        """Adds the extensions, in their order, and the options of each."""
        known = {**super().identity(), "extensions": [extension.name for extension in self.extensions]}
        for extension in self.extensions:
            known |= {f"{extension.name}.{option}": value for option, value in extension.identity().items()}
        return known

    def progress(self) -> dict[str, Any]:
        """Adds what extensions keep."""
        kept = {extension.name: extension.state_dict() for extension in self.extensions}
        return {**super().progress(), "extensions": kept}

    def load_progress(self, progress: dict[str, Any]) -> None:
        """Continue from what `progress` returned; errors as in `BufferedTrainer.load_progress`."""
        super().load_progress(progress)
        for extension in self.extensions:
            if extension.name in progress["extensions"]:  # not one that was added with resume_with_changes
                extension.load_state_dict(progress["extensions"][extension.name])
