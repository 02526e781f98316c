"""PPO on the tiny model of `tiny_grpo`, and its loss as a loop over completions and tokens in plain arithmetic."""

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


def slow_values(model: Any, head: Any, sample: Sample) -> list[Tensor]:
    """V of the states before each token and behind the last."""
    hidden = model.model(torch.tensor([sample.prompt_ids + sample.completion_ids])).last_hidden_state[0]
    start = len(sample.prompt_ids) - 1
    return [head(hidden[start + t]).squeeze() for t in range(len(sample.completion_ids) + 1)]


def slow_advantages(rewards: Sequence[float], values: Sequence[float], args: PPOArguments) -> list[float]:
    """The double sum over one-step errors; `values` has one entry more than `rewards`."""
    errors = [r + args.gamma * values[t + 1] - values[t] for t, r in enumerate(rewards)]
    decay = args.gamma * args.lam
    return [sum(decay ** (j - t) * errors[j] for j in range(t, len(errors))) for t in range(len(errors))]


def slow_roll_out(
    args: PPOArguments,
    samples: Sequence[Sample],
    rewards: Sequence[float],
    old: Sequence[Sequence[float]],
    values: Sequence[Sequence[float]],
    ref: Sequence[Sequence[float]] | None,
) -> tuple[list[list[float]], list[list[float]]]:
    """Advantages and returns of each token, from what was known at sampling."""
    advantages, returns = [], []
    for i, sample in enumerate(samples):
        pays = [0.0] * len(sample.completion_ids)
        if ref is not None and args.kl_in == "reward":
            gaps = [now - then for then, now in zip(old[i], ref[i], strict=True)]
            pays = [-args.kl_weight * (float(torch.tensor(gap).exp()) - gap - 1) for gap in gaps]
        pays[-1] += rewards[i]
        last = values[i][-1] if args.bootstrap_cut_off and sample.truncated else 0.0
        own = slow_advantages(pays, [*values[i][:-1], last], args)
        advantages.append(own)
        returns.append([a + v for a, v in zip(own, values[i], strict=False)])
    return whitened(advantages), returns


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
    old: Sequence[Sequence[float]],
    values: Sequence[Sequence[float]],
    ref: Sequence[Sequence[float]] | None,
    advantages: Sequence[Sequence[float]],
    returns: Sequence[Sequence[float]],
) -> Tensor:
    """max(−A R, −A clip(R)) + vf_coef · value loss, the mean over all tokens."""
    total, count = torch.zeros((), dtype=torch.float64), 0
    for i, sample in enumerate(samples):
        now = slow_values(model, head, sample)
        for t, new in enumerate(token_logps(model, sample, args.temperature)):
            ratio, a = (new - old[i][t]).exp(), advantages[i][t]
            clipped = min(max(ratio, torch.tensor(1 - args.clip_low)), torch.tensor(1 + args.clip_high))
            total = total + max(-a * ratio, -a * clipped)
            error = (now[t] - returns[i][t]) ** 2
            if args.cliprange_value is not None:
                shift = now[t] - values[i][t]
                bound = torch.tensor(args.cliprange_value, dtype=shift.dtype)
                near = values[i][t] + min(max(shift, -bound), bound)
                error = max(error, (near - returns[i][t]) ** 2)
            total, count = total + args.vf_coef * error / 2, count + 1
            if ref is not None and args.kl_in == "loss":
                gap = ref[i][t] - new
                total = total + args.kl_weight * (gap.exp() - gap - 1)
    return total / count
