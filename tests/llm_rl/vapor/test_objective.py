import dataclasses
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_rl import vapor
from llm_rl.vapor import PreferencePair, VaporBatch, VaporConfig, vapor_loss, vapor_terms
from tests.helpers.refusals import refused
from tests.llm_rl.helpers.vapor_batches import random_batch
from tests.llm_rl.helpers.vapor_reference import Group, Member, slow_objective

NAN = math.nan


def pair(chosen: list[float], rejected: list[float], found: bool = True) -> PreferencePair:
    """One prompt's pair against a reference of 0, each a token longer than its span."""
    tensors = [torch.tensor([[[*values, 9.0]]], dtype=torch.float64) for values in (chosen, rejected)]
    spans = [torch.arange(tensor.shape[-1])[None, None] < tensor.shape[-1] - 1 for tensor in tensors]
    chosen_span = spans[0] if found else torch.zeros_like(spans[0])
    references = [torch.zeros_like(tensor) for tensor in tensors]
    return PreferencePair(tensors[0], references[0], chosen_span, tensors[1], references[1], spans[1])


def hand_batch(found: bool = True) -> VaporBatch:
    """One prompt, two completions of three tokens; s_i has two tokens in the first, the second has none."""
    logprobs = torch.tensor([[[0.1, 0.3, 0.7], [0.5, 0.5, 0.5]]], dtype=torch.float64)
    spans = torch.tensor([[[True, True, False], [False, False, False]]])
    rewards = torch.tensor([[1.0, NAN]], dtype=torch.float64)
    mask = torch.tensor([[[True, True, True], [True, False, False]]])
    old = torch.full_like(logprobs, 0.1)
    return VaporBatch(logprobs, torch.zeros_like(logprobs), old, mask, spans, rewards, pair([0.5, 0.5], [0.2], found))


# A = +½ for the first completion, −½ for the failed one, whose reward is 0. β·margin = 0.5 · (1.0 − 0.2) = 0.4.
E = math.exp
CASES = [
    # the sum 0.4 and the preference 0.4: e^0.8 is clipped to 1.2; the failure has ratio 1 · e^0.4, and A < 0
    ({}, [0.5 * 1.2, -0.5 * E(0.4)]),
    ({"beta": 0.0}, [0.5 * 1.2, -0.5]),
    ({"clip_low": 1.0, "clip_high": 9.0}, [0.5 * E(0.8), -0.5 * E(0.4)]),
    ({"ratio_level": "mean", "clip_high": 9.0}, [0.5 * E(0.6), -0.5 * E(0.4)]),
    ({"ratio_level": "token", "clip_high": 0.6}, [0.5 * 1.6, -0.5 * E(0.4)]),  # both tokens are clipped
    ({"ratio_level": "token", "clip_high": 0.7}, [0.5 * (E(0.5) + 1.7) / 2, -0.5 * E(0.4)]),
    ({"ratio_base": "old", "clip_high": 9.0}, [0.5 * E(0.2 + 0.4), -0.5 * E(0.4)]),
    ({"clip_on": "verifiable"}, [0.5 * 1.2 * E(0.4), -0.5 * E(0.4)]),
    ({"clip_on": "verifiable", "ratio_level": "mean", "clip_high": 9.0}, [0.5 * E(0.6), -0.5 * E(0.4)]),
    ({"advantage_scale": "std"}, [1.2, -E(0.4)]),
]


@pytest.mark.parametrize(("changes", "expected"), CASES)
def test_every_branch_by_hand(changes: dict, expected: list[float]) -> None:
    terms = vapor_terms(hand_batch(), VaporConfig(**{"beta": 0.5, **changes}))
    assert terms.surrogate[0].tolist() == pytest.approx(expected)
    assert terms.found.tolist() == [[True, False]]


def test_failures_are_neutral() -> None:
    terms = vapor_terms(hand_batch(found=False), VaporConfig(beta=0.5))
    assert terms.pair_found.tolist() == [[False]]
    assert terms.preference.tolist() == [[0.0]]  # the term is 1
    assert terms.surrogate[0].tolist() == pytest.approx([0.5 * 1.2, -0.5])
    assert terms.preference_loss.tolist() == [[0.0]]
    loss = vapor_loss(terms, hand_batch(found=False), VaporConfig(pref_loss_weight=1.0))
    assert loss.preference.item() == 0


def test_loss_by_hand() -> None:
    config = VaporConfig(beta=0.5, kl_weight=0.1, kl_estimator="k1", pref_loss_weight=2.0)
    batch = hand_batch()
    loss = vapor_loss(vapor_terms(batch, config), batch, config)
    surrogate = (0.6 - 0.5 * E(0.4)) / 2
    kl = ((0.1 + 0.3 + 0.7) / 3 + 0.5) / 2
    preference = math.log(1 + E(-0.4))
    assert loss.surrogate.item() == pytest.approx(surrogate)
    assert loss.kl.item() == pytest.approx(kl)
    assert loss.preference.item() == pytest.approx(preference)
    assert loss.loss.item() == pytest.approx(-surrogate + 0.1 * kl + 2 * preference)


def test_span_mask() -> None:
    mask = vapor.span_mask([(1, 3), None, (0, 4)], 4)
    assert mask.tolist() == [[False, True, True, False], [False] * 4, [True] * 4]
    assert vapor.span_mask([], 4).shape == (0, 4)
    for span in ((2, 2), (-1, 2), (1, 5)):
        with pytest.raises(ValueError, match="does not fit"):
            vapor.span_mask([span], 4)


def slow_loss(batch: VaporBatch, config: VaporConfig) -> torch.Tensor:
    """The loop over completions on the tokens that a batch's masks leave."""
    groups: list[Group] = []
    for prompt, masks in enumerate(batch.completion_mask):
        members, margins = [], list[torch.Tensor | None]()
        for number, mask in enumerate(masks):
            new, ref, old = (each[prompt, number][mask] for each in batch[:3])  # type: ignore[index]
            part = batch.spans[prompt, number][mask].nonzero().flatten().tolist()
            members.append(Member(new, ref, old, part, batch.rewards[prompt, number].item()))
        for column in range(batch.pair.chosen.shape[1]):
            chosen, ref, kept, rejected, other_ref, other_kept = (each[prompt, column] for each in batch.pair)
            margin = (chosen - ref)[kept].sum() - (rejected - other_ref)[other_kept].sum()
            margins.append(margin if kept.any() and other_kept.any() else None)
        groups.append((members, margins))
    return slow_objective(groups, config)


CONFIGS = st.builds(
    VaporConfig,
    beta=st.floats(0, 2),
    clip_low=st.floats(0, 1),
    clip_high=st.floats(0, 2),
    kl_weight=st.floats(0, 1),
    ratio_base=st.sampled_from(["ref", "old"]),
    ratio_level=st.sampled_from(["sum", "mean", "token"]),
    clip_on=st.sampled_from(["product", "verifiable"]),
    pref_loss_weight=st.floats(0, 1),
    advantage_scale=st.sampled_from(["none", "std"]),
)


def leaf(batch: VaporBatch) -> tuple[VaporBatch, list[torch.Tensor]]:
    """The batch with gradients at the three sets of log-probabilities of the policy."""
    leaves = [t.clone().requires_grad_() for t in (batch.logprobs, batch.pair.chosen, batch.pair.rejected)]
    tracked = batch.pair._replace(chosen=leaves[1], rejected=leaves[2])
    return batch._replace(logprobs=leaves[0], pair=tracked), leaves


def test_beta_zero_is_the_verifiable_reward_alone() -> None:
    batch, leaves = leaf(random_batch(0, 1))
    config = VaporConfig(beta=0.0)
    terms = vapor_terms(batch, config)
    ratio = vapor.verifiable_log_ratio(batch.logprobs, batch.ref_logprobs, batch.spans)[..., 0].exp()
    advantage = vapor.vapor_advantage(batch.rewards, terms.found)
    assert torch.allclose(terms.surrogate, torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage))
    vapor_loss(terms, batch, config).loss.backward()
    assert leaves[0].grad.abs().sum() > 0
    assert all((t.grad == 0).all() for t in leaves[1:])


@settings(max_examples=80)
@given(st.integers(0, 2**31), st.sampled_from([1, 4]), CONFIGS)
def test_loss_and_gradient_against_a_loop_over_samples(seed: int, columns: int, config: VaporConfig) -> None:
    batch, leaves = leaf(random_batch(seed, columns))
    expected = slow_loss(batch, config)
    loss = vapor_loss(vapor_terms(batch, config), batch, config).loss
    assert loss.item() == pytest.approx(expected.item(), abs=1e-9)
    gradients = (torch.autograd.grad(value, leaves, materialize_grads=True) for value in (loss, expected))
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=1e-9)


def test_the_preference_gradient_at_the_start_is_zero_unless_asked_for() -> None:
    batch = random_batch(1, 1)
    start = batch._replace(ref_logprobs=batch.logprobs)
    start = start._replace(pair=batch.pair._replace(chosen_ref=batch.pair.chosen, rejected_ref=batch.pair.rejected))
    for weight in (0.0, 1.0):
        config = VaporConfig(beta=0.5, pref_loss_weight=weight)
        tracked, leaves = leaf(start)
        vapor_loss(vapor_terms(tracked, config), tracked, config).loss.backward()
        found = (batch.pair.found.unsqueeze(-1) & batch.pair.chosen_span).double()
        assert batch.pair.found.any()
        expected = -weight * 0.5 * 0.5 * found / batch.pair.found.sum()  # −σ(0)·β, over the pairs that were found
        assert torch.allclose(leaves[1].grad, expected, atol=1e-12)  # type: ignore[arg-type]


def assert_finite(batch: VaporBatch, leaves: list[torch.Tensor], config: VaporConfig) -> None:
    """The loss and its parts, and the gradient."""
    loss = vapor_loss(vapor_terms(batch, config), batch, config)
    loss.loss.backward()
    assert all(torch.isfinite(value) for value in loss)
    assert all(torch.isfinite(t.grad).all() for t in leaves)


@pytest.mark.parametrize("level", ["sum", "mean", "token"])
@pytest.mark.parametrize("clip_on", ["product", "verifiable"])
@pytest.mark.parametrize("scale", [1e3, 1e30])
def test_finite_for_any_finite_log_probability(level: str, clip_on: str, scale: float) -> None:
    for seed in range(3):
        wide = random_batch(seed, 1, scale)
        narrow = [None if t is None else t.float() if t.dtype == torch.float64 else t for t in wide[:-1]]
        parts = PreferencePair(*(t.float() if t.dtype == torch.float64 else t for t in wide.pair))
        batch, leaves = leaf(VaporBatch(*narrow, parts)._replace(rewards=torch.rand(3, 4)))  # type: ignore[arg-type]
        config = VaporConfig(beta=100.0, kl_weight=0.1, pref_loss_weight=1.0, ratio_level=level, clip_on=clip_on)  # type: ignore[arg-type]
        assert_finite(batch, leaves, config)


FINITE = st.floats(width=32, allow_nan=False, allow_infinity=False)


@settings(max_examples=60)
@given(
    st.lists(FINITE, min_size=1, max_size=20),
    st.lists(st.floats(-1e15, 1e15), min_size=1, max_size=12),
    st.integers(0, 2**31),
    CONFIGS,
    st.floats(0, 1e4),
)
def test_no_finite_input_overflows(
    values: list[float], rewards: list[float], seed: int, config: VaporConfig, beta: float
) -> None:
    """Log-probabilities of any magnitude, up to the largest of float32, and of either sign."""
    generator = torch.Generator().manual_seed(seed)

    def drawn(tensor: torch.Tensor, pool: list[float]) -> torch.Tensor:
        return torch.tensor(pool)[torch.randint(len(pool), tensor.shape, generator=generator)]

    shape = random_batch(seed, 1)
    parts = [t if t.dtype == torch.bool else drawn(t, values) for t in shape.pair]
    logprobs = [drawn(t, values) for t in shape[:3]]  # type: ignore[arg-type]
    masks = shape.completion_mask, shape.spans
    batch, leaves = leaf(VaporBatch(*logprobs, *masks, drawn(shape.rewards, rewards), PreferencePair(*parts)))
    config = dataclasses.replace(config, beta=beta)
    assert_finite(batch, leaves, config)


def test_nothing_outside_the_masks_matters() -> None:
    config = VaporConfig(beta=0.4, kl_weight=0.3, pref_loss_weight=0.2, ratio_level="token")
    batch = random_batch(7, 1)
    spoiled_pair = batch.pair._replace(
        chosen=batch.pair.chosen.masked_fill(~batch.pair.chosen_span, NAN),
        rejected_ref=batch.pair.rejected_ref.masked_fill(~batch.pair.rejected_span, NAN),
    )
    spoiled, leaves = leaf(
        batch._replace(
            logprobs=batch.logprobs.masked_fill(~batch.completion_mask, NAN),
            rewards=batch.rewards.masked_fill(~batch.spans.any(-1), NAN),
            pair=spoiled_pair,
        )
    )
    loss = vapor_loss(vapor_terms(spoiled, config), spoiled, config).loss
    assert loss.item() == pytest.approx(vapor_loss(vapor_terms(batch, config), batch, config).loss.item())
    loss.backward()
    assert all(torch.isfinite(t.grad).all() for t in leaves)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"beta": -0.1}, "beta=-0.1 must be a finite"),
        ({"kl_weight": NAN}, "kl_weight=nan"),
        ({"kl_weight": math.inf}, "kl_weight=inf"),
        ({"pref_loss_weight": -1.0}, "pref_loss_weight"),
        ({"ratio_base": "new"}, "ratio_base is 'new'"),
        ({"ratio_level": "word"}, "ratio_level is 'word'"),
        ({"clip_on": "both"}, "clip_on is 'both'"),
        ({"kl_estimator": "k4"}, "kl_estimator is 'k4'"),
        ({"advantage_scale": "batch"}, "advantage_scale is 'batch'"),
    ],
)
def test_bad_config(changes: dict, message: str) -> None:
    refused(message, lambda: VaporConfig(**changes))


def test_bad_batches() -> None:
    batch = hand_batch()
    with pytest.raises(ValueError, match="old_logprobs is None"):
        vapor_terms(batch._replace(old_logprobs=None), VaporConfig(ratio_base="old"))
    with pytest.raises(ValueError, match="ref_logprobs carries a gradient"):
        vapor_terms(batch._replace(ref_logprobs=batch.ref_logprobs.clone().requires_grad_()), VaporConfig())
    refused("clip_low", lambda: vapor_terms(batch, VaporConfig(clip_low=2.0)))
    ranges = {"clip_low": 0.2, "clip_high": 0.2}
    ratios, advantages = torch.zeros(2, 3, 1), torch.zeros(2, 3)
    refused("preference has 2 columns", lambda: vapor.vapor_surrogate(ratios, torch.zeros(2, 2), advantages, **ranges))
    refused(r"ask for \(2, C\)", lambda: vapor.vapor_surrogate(ratios, torch.zeros(3, 1), advantages, **ranges))
    with pytest.raises(ValueError, match="clip_on is 'x'"):
        vapor.vapor_surrogate(ratios, torch.zeros(2, 1), advantages, clip_on="x", **ranges)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="level is 'x'"):
        vapor.verifiable_log_ratio(batch.logprobs, batch.ref_logprobs, batch.spans, "x")  # type: ignore[arg-type]
    mixed = batch.pair._replace(rejected=torch.zeros(2, 1, 2, dtype=torch.float64))
    refused("rejected", lambda: vapor.preference_log_term(mixed, 0.1))
