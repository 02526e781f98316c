"""VAPOR's objective written out: a loop over prompts and completions, without padding."""

import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from llm_rl.rollout.data import Sample
from llm_rl.vapor import VAPORArguments, VaporConfig
from tests.llm_rl.helpers.grpo_reference import logps, token_logps


class Member(NamedTuple):
    """A completion of T tokens: its log-probabilities `(T,)`, the places of its part in them, and the part's reward."""

    new: Tensor
    ref: Tensor
    old: Tensor
    part: list[int]
    reward: float


Group = tuple[list[Member], list[Tensor | None]]
"""The completions of a prompt, and the margin of its pair: one of them all, or one each; None where it is neutral."""


def slow_objective(groups: Sequence[Group], config: VaporConfig | VAPORArguments) -> Tensor:
    """The loss of docs/vapor.md."""
    surrogates, kls, losses = [], [], []
    for members, margins in groups:
        rewards = [member.reward if member.part else 0.0 for member in members]
        spread = statistics.pstdev(rewards) if config.advantage_scale == "std" else 1.0
        for place, (member, reward) in enumerate(zip(members, rewards, strict=True)):
            advantage = (reward - statistics.mean(rewards)) / spread if spread > 1e-6 else 0.0
            gaps = (member.new - (member.ref if config.ratio_base == "ref" else member.old))[member.part]
            if config.ratio_level != "token" or not member.part:
                gaps = (gaps.sum() / (max(1, len(gaps)) if config.ratio_level == "mean" else 1)).unsqueeze(0)
            margin = margins[place if len(margins) > 1 else 0]
            factor = torch.ones(()) if margin is None else (config.beta * margin).exp()
            inner, outer = (gaps.exp() * factor, 1.0) if config.clip_on == "product" else (gaps.exp(), factor)
            clipped = inner.clamp(1 - config.clip_low, 1 + config.clip_high)
            surrogates.append((outer * torch.minimum(inner * advantage, clipped * advantage)).mean())
            if len(member.new):
                gaps = member.ref - member.new
                kls.append((gaps.exp() - 1 - gaps).mean())
        losses += [(1 + (-config.beta * margin).exp()).log() for margin in margins if margin is not None]
    means = [torch.stack(values).mean() if values else torch.zeros(()) for values in (surrogates, kls, losses)]
    return -means[0] + config.kl_weight * means[1] + config.pref_loss_weight * means[2]


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
        new, ref = (logps(each, before, ids, args.temperature) for each in (model, reference))
        sums.append((new - ref.detach())[inside].sum())
    return sums[0] - sums[1]


def slow_loss(
    model: Any, old: Any, reference: Any, samples: Sequence[Sample], reward: Any, tokenizer: Any, args: VAPORArguments
) -> Tensor:
    """The loss of a trainer on completions that were drawn."""
    groups: list[Group] = []
    for start in range(0, len(samples), args.num_generations):
        group, members = samples[start : start + args.num_generations], []
        for sample in group:
            part, text = slow_span(sample.completion_ids, tokenizer, args.verifiable_term_split)
            new, ref, past = (token_logps(each, sample, args.temperature) for each in (model, reference, old))
            members.append(Member(new, ref.detach(), past.detach(), part, reward([text])[0]))
        judged = range(len(group) if args.preference_context == "generated" else 1)
        margins = [
            slow_margin(model, reference, group[i].row, group[i], members[i].part, tokenizer, args) for i in judged
        ]
        groups.append((members, margins))
    return slow_objective(groups, args)
