"""The numbers to watch in every run, and what explains a loss near zero.

docs/grpo.md, 'Reading the log', lists them. A loss near zero is no fault in itself: advantages have mean 0 by
construction. It teaches nothing where groups have no spread, tokens are masked or clipping acts, which is recorded too.
"""

from dataclasses import dataclass

from torch import Tensor

from llm_rl.core._checks import check_all, check_mask, check_same_shape
from llm_rl.core.advantages import group_statistics, groups_without_spread
from llm_rl.core.aggregate import masked_sum
from llm_rl.core.kl import approx_kl
from llm_rl.core.metrics import MetricAccumulator, Number
from llm_rl.core.surrogate import MAX_LOG_RATIO, SurrogateOutput


@dataclass(frozen=True)
class PolicyTensors:
    """What a micro-batch tells of the policy, `(…, T)` each, one entry a token.

    Attributes:
        logprobs: Under the policy being trained.
        old_logprobs: Under the policy that acted.
        surrogate: What `clipped_surrogate` gave for these tokens.
        mask: bool, the tokens that count in the loss.
        generated: bool, the tokens that were generated; `mask` lies within it.
        entropy: Entropy of the distribution that each token was drawn from. None: not known, and not recorded.
    """

    logprobs: Tensor
    old_logprobs: Tensor
    surrogate: SurrogateOutput
    mask: Tensor
    generated: Tensor
    entropy: Tensor | None = None


def record_monitors(
    metrics: MetricAccumulator,
    *,
    rewards: Tensor | None = None,
    flat_groups: Tensor | None = None,
    policy: PolicyTensors | None = None,
    grad_norm: Number | None = None,
) -> None:
    """Adds to `metrics` what the arguments tell; exact over any split into micro-batches and processes.

    - `rewards`: "reward_mean"; "reward_std", the mean of the groups' population standard deviations;
      "groups_without_spread", the share of the groups whose advantages are 0.
    - `policy`, means over the tokens that count: "approx_kl", ½ (log π − log π_old)²; "clip_frac", where clipping is
      what acted; "outside_frac", where the ratio left the range; "ratio_mean", 1 before the first update if sampling
      and training agree, and "ratio_spread", (R − 1)²; "clamped_frac", where the log-ratio is at its clamp of ±20, so
      that objective and loss say nothing but that; "entropy". And "masked_frac", the share of generated tokens that do
      not count.
    - `grad_norm`: "grad_norm", once an optimizer step.

    Args:
        metrics: The accumulator to add to.
        rewards: `(Q, G)`: Q groups of G completions; NaN where one is not scored, which is left out.
        flat_groups: bool, any shape: which groups have advantages 0, where advantages are made from something else (one
            a step). None: those whose rewards have no spread.
        policy: The tensors of one micro-batch.
        grad_norm: Before clipping.

    Raises:
        ValueError: Shapes do not fit, a mask is not bool, or a token counts that was not generated.
    """
    if rewards is not None:
        scored = ~rewards.isnan()
        statistics = group_statistics(rewards, scored)
        metrics.add_ratio("reward_mean", rewards.double().nansum(), scored.sum())
        metrics.add_ratio("reward_std", statistics.std.sum(), statistics.std.numel())
        empty = groups_without_spread(rewards, mask=scored) if flat_groups is None else flat_groups
        metrics.add_ratio("groups_without_spread", empty.sum(), empty.numel())
    if policy is not None:
        _record_policy(metrics, policy)
    if grad_norm is not None:
        metrics.add("grad_norm", grad_norm)


def _record_policy(metrics: MetricAccumulator, policy: PolicyTensors) -> None:
    mask, tokens = policy.mask, policy.mask.sum()
    check_mask(policy.generated, "mask", mask)
    check_all(policy.generated | ~mask, "mask is True at a token that generated says was not generated; intersect them")
    old, new = (values.detach().masked_fill(~mask, 0.0) for values in (policy.old_logprobs, policy.logprobs))
    means = {
        "approx_kl": approx_kl(old, new, estimator="k2"),
        "clip_frac": policy.surrogate.clipped,
        "outside_frac": policy.surrogate.outside,
        "ratio_mean": policy.surrogate.ratio,
        "ratio_spread": (policy.surrogate.ratio.detach() - 1).square(),
        "clamped_frac": policy.surrogate.ratio.detach().log().abs() >= MAX_LOG_RATIO - 1e-4,
        "entropy": policy.entropy,
    }
    for name, values in means.items():
        if values is not None:
            check_same_shape(name, values, "mask", mask)
            metrics.add_ratio(name, masked_sum(values.detach(), mask), tokens)
    metrics.add_ratio("masked_frac", policy.generated.sum() - tokens, policy.generated.sum())
