"""`PPOTrainer`: proximal policy optimization with a value function (arXiv:1707.06347); see docs/ppo.md."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from llm_rl.core import (
    LossCounts,
    PolicyTensors,
    TokenStatistics,
    aggregate_loss,
    clipped_surrogate,
    explained_variance,
    generalized_advantage,
    masked_moments,
    masked_sum,
    record_monitors,
    rewards_with_kl,
    token_log_ratio,
    value_loss,
    whiten,
)
from llm_rl.ppo.arguments import PPOArguments
from llm_rl.ppo.value_function import PolicyWithValue, ValueFunction, load_value_function, save_value_function, trunk_of
from llm_rl.rollout.data import RolloutBatch, Sample
from llm_rl.rollout.scoring import positions_of
from llm_rl.rollout.symptoms import CUT_OFF, NO_SPREAD
from llm_rl.tools.trainer import EpisodeTrainer
from llm_rl.training.checkpoint import named_damage
from llm_rl.training.modes import evaluation_mode
from llm_rl.training.symptoms import Symptom


@dataclass(kw_only=True)
class PPOBatch(RolloutBatch):
    """A micro-batch of completions with an advantage for each token.

    Attributes:
        old_values: float32 `(B, T)`, V of the state before each token, at sampling.
        returns: float32 `(B, T)`, what the value function is fitted to.
        token_advantages: float32 `(B, T)`.
        last_values: float32 `(B,)`, V at sampling behind completions that were cut off, 0 behind others; None: all 0.
        explained_variance: Scalar of the whole roll-out; NaN where its returns do not vary.
    """

    old_values: Tensor | None = None
    returns: Tensor | None = None
    token_advantages: Tensor | None = None
    last_values: Tensor | None = None
    explained_variance: Tensor | None = None


class PPOTrainer(EpisodeTrainer):
    """Trains a causal language model on rewards, with an advantage for each token from a value function.

    Where this departs from usual code: the loss is the mean over the tokens of the whole optimizer step, of all
    micro-batches and processes; advantages are whitened over the roll-out of all processes; the value head starts at 0.
    A reward stands at the last token of its completion.

    Args:
        *args: As in `EpisodeTrainer`, with `PPOArguments`.
        value_model: A causal language model whose body gives the hidden states of the value function, with
            `value_function="model"`. None: a copy of the policy as it is.
        optimizers: Optimizer and scheduler; the optimizer must be None, as the value function is made here.
        **kwargs: As in `EpisodeTrainer`.

    Attributes:
        value_function: V, of the states before completion tokens.

    Raises:
        ValueError: `value_model` is given without `value_function="model"`, an optimizer is given, the policy's output
            head is more than a matrix, or one of the reasons of `EpisodeTrainer`.
    """

    args: PPOArguments
    shards = True
    record_classes = (RolloutBatch, PPOBatch)

    def __init__(
        self,
        *args: Any,
        value_model: nn.Module | None = None,
        optimizers: tuple[Any, Any] = (None, None),
        **kwargs: Any,
    ) -> None:
        if optimizers[0] is not None:
            raise ValueError("an optimizer of your own lacks the value function's weights; choose one by args.optim")
        super().__init__(*args, optimizers=optimizers, **kwargs)
        own = self.args.value_function == "model"
        if value_model is not None and not own:
            raise ValueError("value_model is given but value_function is 'head'; set value_function='model'")
        if not self.scorer.plain_head:
            raise ValueError(
                f"{type(self.model).__name__} does more than multiply its last hidden state by its output head (a soft "
                "cap, a scale), which PPOTrainer does not support; use GRPOTrainer"
            )
        trunk = trunk_of(self.model if value_model is None else value_model) if own else None
        self.value_function = ValueFunction(self.model, trunk)
        self.value_function.to(self.args.device)
        self.model = self.model_wrapped = PolicyWithValue(self.model, self.value_function)

    # A roll-out

    def _symptoms(self) -> tuple[Symptom, ...]:
        says = "all completions of each roll-out earned the same, so that their rewards said nothing of what to write"
        return (CUT_OFF, NO_SPREAD._replace(says=says)) if self.args.completions_per_rollout > 1 else (CUT_OFF,)

    def _record_rollout(self, rewards: Tensor) -> None:
        record_monitors(self.metrics, rewards=rewards.unsqueeze(0))
        explained = self._buffered_inputs[0].explained_variance
        self.metrics.add("explained_variance", explained, weight=explained.isfinite())

    @torch.no_grad()
    def _set_advantages(self, rewards: Tensor, micro_batches: Sequence[Any]) -> None:
        """Gives each micro-batch the rewards of its completions and the advantages of their tokens."""
        size = self.args.per_device_train_batch_size
        for batch, reward in zip(micro_batches, rewards.flatten().split(size), strict=True):
            batch.rewards = reward
        self._estimate_advantages(micro_batches)

    def _collate(self, samples: Sequence[Sample]) -> PPOBatch:
        return PPOBatch(**vars(super()._collate(samples)))

    @property
    def _by_turns(self) -> bool:
        """False: advantages run through a whole conversation."""
        return False

    @property
    def _needs_old_policy(self) -> bool:
        """True: the values at sampling come with it."""
        return True

    def _score_old_policy(self, micro_batches: Sequence[Any]) -> None:
        """Adds log-probabilities and values at sampling."""
        with evaluation_mode(self.model):
            for batch in micro_batches:
                statistics, batch.old_values = self._policy_and_values(self.model, batch)
                batch.old_per_token_logps = statistics.logprobs

    def _prepare_batch_inputs(self, samples: Sequence[Sample]) -> list[RolloutBatch]:
        """Adds the values behind what was cut off, where these are asked for."""
        micro_batches: list[Any] = super()._prepare_batch_inputs(samples)
        if self.args.bootstrap_cut_off:
            size = self.args.per_device_train_batch_size
            for number, batch in enumerate(micro_batches):
                batch.last_values = self._last_values(samples[number * size : (number + 1) * size])
        return micro_batches

    @torch.no_grad()
    def _last_values(self, samples: Sequence[Sample]) -> Tensor:
        """V of the state behind each sample that was cut off, what answers its last turn included; else 0, `(B,)`."""
        values = torch.zeros(len(samples), dtype=self.value_function.head.weight.dtype, device=self.args.device)
        cut = [index for index, sample in enumerate(samples) if sample.cut_off]
        if cut:
            room = positions_of(self.model)
            # The state behind the end is a prompt that nothing has been written after.
            states = [Sample({}, samples[index].state_behind[:room], [], truncated=True) for index in cut]
            batch = self._collate(states)
            with evaluation_mode(self.model):
                values[cut] = self._policy_and_values(self.model, batch)[1][:, 0]
        return values

    def _policy_and_values(self, model: Any, inputs: PPOBatch) -> tuple[TokenStatistics, Tensor]:
        """Log-probabilities and entropies of the completion tokens, and V of the states before them, `(B, T)` each."""
        with self.accelerator.autocast():
            return self.scorer.in_pass(model, lambda: self._in_one_pass(model, inputs))

    def _in_one_pass(self, model: Any, inputs: PPOBatch) -> tuple[TokenStatistics, Tensor]:
        hidden, head = self.scorer.features(model, inputs)  # (B, T, D)
        return self.scorer.statistics(hidden, head, inputs), model.value_function(inputs, hidden)

    def _estimate_advantages(self, micro_batches: Sequence[Any]) -> None:
        """Rewards a token, advantages and returns of each micro-batch, and what the values at sampling explain."""
        for batch in micro_batches:
            estimate = generalized_advantage(
                self._token_rewards(batch),
                batch.old_values,
                gamma=self.args.gamma,
                lam=self.args.lam,
                mask=batch.sampled_mask,
                last_values=batch.last_values,
            )
            batch.token_advantages, batch.returns = estimate

        # Whitened by the roll-out of all processes: what an advantage means does not hang on who sampled it.
        self.settle()
        masks, several = [batch.sampled_mask for batch in micro_batches], self.args.world_size > 1
        errors = masked_moments([batch.returns - batch.old_values for batch in micro_batches], masks, reduce=several)
        returns = masked_moments([batch.returns for batch in micro_batches], masks, reduce=several)
        moments = masked_moments([batch.token_advantages for batch in micro_batches], masks, reduce=several)
        for batch, mask in zip(micro_batches, masks, strict=True):
            batch.explained_variance = explained_variance(errors, returns)
            batch.token_advantages = whiten(batch.token_advantages, mask, moments)

    def _token_rewards(self, batch: PPOBatch) -> Tensor:
        """The rewards of tokens, `(B, T)`.

        A completion's stands at its last token; each token has its divergence taken off, where that is in the reward.
        """
        mask, rewards = batch.sampled_mask, batch.rewards
        assert rewards is not None
        if not self.args.uses_reference or self.args.kl_in == "loss":
            return rewards_with_kl(rewards, torch.zeros_like(mask, dtype=rewards.dtype), mask, 0.0)
        with evaluation_mode(self.model):
            kl = self._reference_kl(self.model, batch, batch.old_per_token_logps, mask)
        return rewards_with_kl(rewards, kl, mask, self.args.kl_weight)

    # The update

    def _compute_loss_and_metrics(self, model: nn.Module, inputs: Any) -> Tensor:
        mask, old_logps = inputs.loss_mask, inputs.old_per_token_logps
        (logps, entropies), values = self._policy_and_values(model, inputs)  # (B, T) each

        # max(−A R, −A clip(R)), which is −min(A R, A clip(R))
        log_ratio = token_log_ratio(logps, old_logps, mask)
        surrogate = clipped_surrogate(
            log_ratio, torch.zeros_like(log_ratio), inputs.token_advantages, self.args.clip_low, self.args.clip_high
        )
        value = value_loss(values, inputs.returns, inputs.old_values, clip_range=self.args.cliprange_value)
        losses = -surrogate.objective + self.args.vf_coef * value.loss
        if self.args.uses_reference and self.args.kl_in == "loss":
            losses = losses + self.args.kl_weight * self._reference_kl(model, inputs, logps, mask)

        # What a step's log line tells
        tokens = mask.sum()
        self.metrics.add_ratio("policy_loss", masked_sum(-surrogate.objective.detach(), mask), tokens)
        self.metrics.add_ratio("value_loss", masked_sum(value.loss.detach(), mask), tokens)
        self.metrics.add_ratio("value_clip_frac", masked_sum(value.clipped, mask), tokens)
        self.metrics.add_ratio("value_mean", masked_sum(values.detach(), mask), tokens)
        self._record_mismatch(inputs, old_logps, inputs.sampled_mask)
        policy = PolicyTensors(logps, old_logps, surrogate, mask, inputs.sampled_mask, entropies)
        record_monitors(self.metrics, policy=policy)
        return aggregate_loss(losses, mask, "dapo", LossCounts(inputs.sequences, inputs.tokens))

    # Checkpoints

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        super()._save(output_dir, state_dict)
        if self.args.should_save:
            save_value_function(self.value_function, Path(self.args.output_dir if output_dir is None else output_dir))

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        super()._load_from_checkpoint(resume_from_checkpoint, model)
        with named_damage(resume_from_checkpoint):
            load_value_function(self.value_function, Path(resume_from_checkpoint))

    def _load_best_model(self) -> None:
        super()._load_best_model()
        load_value_function(self.value_function, Path(str(self.state.best_model_checkpoint)))
