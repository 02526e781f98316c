"""PPO on the tiny model of `tiny_grpo`, and its loss as a loop over completions without padding."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from llm_rl.ppo.arguments import PPOArguments
from llm_rl.ppo.trainer import PPOTrainer
from llm_rl.rollout.data import Sample
from tests.llm_rl.helpers.grpo_reference import token_logps
from tests.llm_rl.helpers.tiny_grpo import settings, trainer_of


def arguments(folder: Path, **changes: Any) -> PPOArguments:
    return PPOArguments(**settings(folder, **changes))


def trainer(folder: Path, model: Any = None, **changes: Any) -> PPOTrainer:
    return trainer_of(PPOTrainer, arguments, folder, model, **changes)


def slow_values(model: Any, head: Any, sample: Sample) -> Tensor:
    """V of the states before each token and behind the last, `(T + 1,)`."""
    hidden = model.model(torch.tensor([sample.prompt_ids + sample.completion_ids])).last_hidden_state[0]
    return head(hidden[len(sample.prompt_ids) - 1 :]).squeeze(-1)


def slow_advantages(rewards: Sequence[float], values: Sequence[float], args: PPOArguments) -> list[float]:
    """The double sum over one-step errors; `values` has one entry more than `rewards`."""
    errors = [r + args.gamma * values[t + 1] - values[t] for t, r in enumerate(rewards)]
    decay = args.gamma * args.lam
    return [sum(decay ** (j - t) * errors[j] for j in range(t, len(errors))) for t in range(len(errors))]


def slow_roll_out(
    args: PPOArguments,
    samples: Sequence[Sample],
    rewards: Sequence[float],
    old: Sequence[Tensor],
    values: Sequence[Tensor],
    ref: Sequence[Tensor] | None,
) -> tuple[list[Tensor], list[Tensor]]:
    """Advantages and returns of each token, from what was known at sampling."""
    advantages, returns = [], []
    for i, sample in enumerate(samples):
        pays = torch.zeros_like(old[i])
        if ref is not None and args.kl_in == "reward":
            gaps = ref[i] - old[i]
            pays = -args.kl_weight * (gaps.exp() - gaps - 1)
        pays[-1] += rewards[i]
        last = values[i][-1].item() if args.bootstrap_cut_off and sample.truncated else 0.0
        advantages.append(slow_advantages(pays.tolist(), [*values[i][:-1].tolist(), last], args))
        returns.append(torch.tensor(advantages[-1], dtype=torch.float64) + values[i][:-1])
    return [torch.tensor(own, dtype=torch.float64) for own in whitened(advantages)], returns


def whitened(advantages: Sequence[Sequence[float]]) -> list[list[float]]:
    """With mean 0 and variance 1 over all tokens."""
    every = torch.tensor([a for own in advantages for a in own], dtype=torch.float64)
    mean, std = float(every.mean()), float(every.var(correction=0).sqrt())
    return [[(a - mean) / (std + 1e-8) for a in own] for own in advantages]


def slow_loss(
    model: Any,
    head: Any,
    args: PPOArguments,
    samples: Sequence[Sample],
    old: Sequence[Tensor],
    values: Sequence[Tensor],
    ref: Sequence[Tensor] | None,
    advantages: Sequence[Tensor],
    returns: Sequence[Tensor],
) -> Tensor:
    """max(−A R, −A clip(R)) + vf_coef · value loss, the mean over all tokens."""
    losses = []
    for i, (sample, a) in enumerate(zip(samples, advantages, strict=True)):
        new, now, then = token_logps(model, sample, args.temperature), slow_values(model, head, sample), values[i]
        ratio = (new - old[i]).exp()
        loss = torch.maximum(-a * ratio, -a * ratio.clamp(1 - args.clip_low, 1 + args.clip_high))
        errors = (now[:-1] - returns[i]) ** 2
        if args.cliprange_value is not None:
            near = then + (now - then).clamp(-args.cliprange_value, args.cliprange_value)
            errors = torch.maximum(errors, (near[:-1] - returns[i]) ** 2)
        loss = loss + args.vf_coef * errors / 2
        if ref is not None and args.kl_in == "loss":
            gap = ref[i] - new
            loss = loss + args.kl_weight * (gap.exp() - gap - 1)
        losses.append(loss)
    return torch.cat(losses).mean()
