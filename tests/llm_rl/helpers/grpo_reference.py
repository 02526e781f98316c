"""GRPO's loss as a loop over completions, each a sequence without padding."""

import statistics
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from llm_rl.grpo.arguments import GRPOArguments
from llm_rl.rollout.data import Sample


def logps(model: Any, before: Sequence[int], ids: Sequence[int], temperature: float) -> Tensor:
    """`(T,)`, of the ids after what stands before them."""
    logits = model(torch.tensor([[*before, *ids]])).logits[0, len(before) - 1 : -1] / temperature
    return logits.log_softmax(-1)[range(len(ids)), ids]


def token_logps(model: Any, sample: Sample, temperature: float) -> Tensor:
    return logps(model, sample.prompt_ids, sample.completion_ids, temperature)


def known_logps(model: Any, samples: Sequence[Sample], temperature: float) -> list[Tensor]:
    """Those of a model that is not trained."""
    return [token_logps(model, sample, temperature).detach() for sample in samples]


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
    old: Sequence[Tensor],
    ref: Sequence[Tensor],
    args: GRPOArguments,
    cap: float | None = None,
) -> Tensor:
    """The loss; with a cap each token weighs π_old / π_engine, at most so much."""
    total_tokens = sum(len(sample.completion_ids) for sample in samples)
    loss = torch.zeros((), dtype=torch.float64)
    for sample, advantage, past, its_ref in zip(samples, slow_advantages(rewards, args), old, ref, strict=True):
        new = token_logps(model, sample, args.temperature)
        ratio = (new - past).exp()
        clipped = ratio.clamp(1 - args.clip_low, 1 + args.clip_high)
        values = torch.minimum(ratio * advantage, clipped * advantage)
        if cap is not None:
            values = values * (past - torch.tensor(sample.engine_logprobs)).exp().clamp(max=cap)
        if args.kl_weight:
            gap = its_ref - new
            values = values - args.kl_weight * (gap.exp() - gap - 1)
        weight = share_of(args.loss_type, len(samples), len(new), total_tokens, args.max_completion_length)
        loss = loss - weight * values.sum()
    return loss
