"""VAPOR's objective written out for a trainer: a loop over prompts, completions and tokens, without padding."""

import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from llm_rl.rollout.data import Sample
from llm_rl.vapor import VAPORArguments
from tests.llm_rl.helpers.grpo_reference import logps, token_logps


def slow_span(ids: Sequence[int], tokenizer: Any, tags: Sequence[str]) -> tuple[list[int], str]:
    """Tokens of the tagged part, for ASCII text, and its text; no tokens where it is not found."""
    ends = [len(tokenizer.decode(ids[: i + 1])) for i in range(len(ids))]
    match = re.search(re.escape(tags[0]) + ".*?" + re.escape(tags[1]), tokenizer.decode(ids), re.DOTALL)
    if match is None:
        return [], ""
    starts = [0, *ends[:-1]]
    inside = [i for i, (left, right) in enumerate(zip(starts, ends, strict=True)) if left < match.end()]
    return [i for i in inside if ends[i] > match.start()], match.group()


def slow_margin(
    model: Any, reference: Any, row: Mapping[str, Any], sample: Sample, kept: list[int], tokenizer: Any, args: Any
) -> Tensor | None:
    """log π/π_ref(y_w) − log π/π_ref(y_l); None where it is neutral."""
    if args.preference_context == "generated" and not kept:
        return None
    sums = []
    for name in ("chosen", "rejected"):
        ids = tokenizer(row[name])["input_ids"]
        inside = slow_span(ids, tokenizer, args.preference_term_split)[0]
        if not inside:
            return None
        before = list(sample.prompt_ids)
        if args.preference_context == "generated":
            before += sample.completion_ids[: kept[-1] + 1]
            ids, inside = [ids[i] for i in inside], list(range(len(inside)))
        new = logps(model, before, ids, args.temperature)
        with torch.no_grad():
            ref = logps(reference, before, ids, args.temperature)
        sums.append(sum((new[i] - ref[i] for i in inside), torch.zeros((), dtype=torch.float64)))
    return sums[0] - sums[1]


def slow_loss(
    model: Any, old: Any, reference: Any, samples: Sequence[Sample], reward: Any, tokenizer: Any, args: VAPORArguments
) -> Tensor:
    size = args.num_generations
    surrogates: list[Any] = []
    kls: list[Any] = []
    losses: list[Any] = []
    for start in range(0, len(samples), size):
        group = samples[start : start + size]
        parts = [slow_span(s.completion_ids, tokenizer, args.verifiable_term_split) for s in group]
        rewards = [reward([text])[0] if kept else 0.0 for kept, text in parts]
        for position, (sample, (kept, _)) in enumerate(zip(group, parts, strict=True)):
            advantage = rewards[position] - statistics.mean(rewards)
            if args.advantage_scale == "std":
                spread = statistics.pstdev(rewards)
                advantage = advantage / spread if spread > 1e-6 else 0.0
            new = token_logps(model, sample, args.temperature)
            with torch.no_grad():
                past, ref = (token_logps(each, sample, args.temperature) for each in (old, reference))
            base = ref if args.ratio_base == "ref" else past
            gaps = [new[i] - base[i] for i in kept]
            if not gaps:
                ratios = [torch.ones((), dtype=torch.float64)]
            elif args.ratio_level == "token":
                ratios = [gap.exp() for gap in gaps]
            else:
                total = torch.stack(gaps).sum()
                ratios = [(total / len(gaps) if args.ratio_level == "mean" else total).exp()]
            margin = slow_margin(model, reference, sample.row, sample, kept, tokenizer, args)
            factor = torch.ones((), dtype=torch.float64) if margin is None else (args.beta * margin).exp()
            if margin is not None and (args.preference_context == "generated" or position == 0):
                losses.append((1 + (-args.beta * margin).exp()).log())
            values = []
            for ratio in ratios:
                inner, outer = (ratio * factor, 1.0) if args.clip_on == "product" else (ratio, factor)
                clipped = inner.clamp(1 - args.clip_low, 1 + args.clip_high)
                values.append(outer * torch.minimum(inner * advantage, clipped * advantage))
            surrogates.append(torch.stack(values).mean())
            k3 = [(r - n).exp() - (r - n) - 1 for n, r in zip(new, ref, strict=True)]
            kls.append(torch.stack(k3).mean())
    loss = -torch.stack(surrogates).mean() + args.kl_weight * torch.stack(kls).mean()
    return loss + args.pref_loss_weight * torch.stack(losses).mean()
