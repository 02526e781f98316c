"""GRPO's loss as a loop over completions and tokens on sequences without padding, in plain arithmetic."""

import math
import statistics
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from llm_rl.grpo.arguments import GRPOArguments
from llm_rl.rollout.data import Sample


def logps(model: Any, before: Sequence[int], ids: Sequence[int], temperature: float) -> list[Tensor]:
    logits = model(torch.tensor([[*before, *ids]])).logits[0] / temperature
    return [logits[len(before) - 1 + i].log_softmax(-1)[token] for i, token in enumerate(ids)]


def token_logps(model: Any, sample: Sample, temperature: float) -> list[Tensor]:
    return logps(model, sample.prompt_ids, sample.completion_ids, temperature)


def known_logps(model: Any, samples: Sequence[Sample], temperature: float) -> list[list[float]]:
    """Those of a model that is not trained."""
    with torch.no_grad():
        return [[float(value) for value in token_logps(model, sample, temperature)] for sample in samples]


def share_of(loss_type: str, rows: int, length: int, tokens: int, longest: int) -> float:
    """What a token of a completion weighs, of so many rows and of so many tokens in all."""
    of_all = 1 / max(1, tokens)
    shares = {"grpo": 1 / (rows * length), "bnpo": of_all, "dapo": of_all, "dr_grpo": 1 / (rows * longest)}
    return shares[loss_type]


def slow_advantages(rewards: Sequence[float], args: GRPOArguments) -> list[float]:
    size, result = args.num_generations, []
    for start in range(0, len(rewards), size):
        group = rewards[start : start + size]
        for index, reward in enumerate(group):
            others = [other for position, other in enumerate(group) if position != index]
            baseline = statistics.mean(others if args.advantage_baseline == "leave_one_out" else group)
            spread = {"group": group, "batch": rewards, "none": None}[args.scale_rewards]
            scale = 1.0 if spread is None else statistics.stdev(spread) + 1e-4
            result.append((reward - baseline) / scale)
    return result


def slow_loss(
    model: Any,
    samples: Sequence[Sample],
    rewards: Sequence[float],
    old: Sequence[Sequence[float]],
    ref: Sequence[Sequence[float]],
    args: GRPOArguments,
    cap: float | None = None,
) -> Tensor:
    """The loss; with a cap each token weighs π_old / π_engine, at most so much."""
    advantages = slow_advantages(rewards, args)
    total_tokens = sum(len(sample.completion_ids) for sample in samples)
    loss = torch.zeros((), dtype=torch.float64)
    for i, sample in enumerate(samples):
        logps = token_logps(model, sample, args.temperature)
        count = len(logps)
        for t, new in enumerate(logps):
            ratio = (new - old[i][t]).exp()
            clipped = min(max(ratio, torch.tensor(1 - args.clip_low)), torch.tensor(1 + args.clip_high))
            value = min(ratio * advantages[i], clipped * advantages[i])
            if cap is not None:
                engine = sample.engine_logprobs
                assert engine is not None
                value = value * min(math.exp(old[i][t] - engine[t]), cap)
            if args.kl_weight:
                gap = ref[i][t] - new
                value = value - args.kl_weight * (gap.exp() - gap - 1)
            weight = share_of(args.loss_type, len(samples), count, total_tokens, args.max_completion_length)
            loss = loss - weight * value
    return loss
