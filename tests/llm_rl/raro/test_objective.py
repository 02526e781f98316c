from dataclasses import replace

import pytest
import torch

from llm_rl.core import LossCounts
from llm_rl.raro import RaroConfig, RoleCounts, joint_loss, role_advantages
from llm_rl.raro.batches import RoleBatch, RoleSample, role_batches, token_budget_batches

SURROGATE = torch.tensor([[1.0, 2.0, torch.nan], [3.0, torch.nan, torch.nan], [4.0, 5.0, 6.0]], dtype=torch.float64)
KL = torch.tensor([[0.1, 0.3, torch.nan], [0.5, torch.nan, torch.nan], [0.2, 0.2, 0.8]], dtype=torch.float64)
MASK = torch.tensor([[True, True, False], [True, False, False], [True, True, True]])
IS_CRITIC = torch.tensor([False, True, True])
CONFIG = RaroConfig(lambda_pol=0.25, lambda_crit=0.75, beta=2.0)


@pytest.mark.parametrize(
    ("config", "policy", "critic", "kl"),
    [
        (CONFIG, 1.5, (3 + 5) / 2, (0.2 + 0.5 + 0.4) / 3),
        (replace(CONFIG, loss_type="dapo"), 1.5, 18 / 4, 2.1 / 6),
        (replace(CONFIG, loss_type="dr_grpo", max_lengths=(10, 20)), 0.3, 18 / 40, 2.1 / 60),
    ],
    ids=lambda value: value.loss_type if isinstance(value, RaroConfig) else "",
)
def test_each_role_has_its_own_denominators(config: RaroConfig, policy: float, critic: float, kl: float) -> None:
    found = joint_loss(SURROGATE, KL, MASK, IS_CRITIC, config)
    assert found.policy.item() == pytest.approx(-policy) and found.critic.item() == pytest.approx(-critic)
    assert found.kl.item() == pytest.approx(kl)
    assert found.loss.item() == pytest.approx(-0.25 * policy - 0.75 * critic + 2 * kl)
    counts = RoleCounts(LossCounts(torch.tensor(1), torch.tensor(2)), LossCounts(torch.tensor(2), torch.tensor(4)))
    parts = [joint_loss(SURROGATE[i], KL[i], MASK[i], IS_CRITIC[i], config, counts) for i in ([1, 0], [2])]
    for whole, *shares in zip(found, *parts, strict=True):
        assert sum(shares) == pytest.approx(whole.item())


def test_without_a_reference_or_a_role() -> None:
    found = joint_loss(SURROGATE[:1], None, MASK[:1], IS_CRITIC[:1], CONFIG)
    assert found.kl == 0 and found.critic == 0 and found.loss.item() == pytest.approx(-0.25 * 1.5)
    nothing = joint_loss(SURROGATE, KL, torch.zeros_like(MASK), IS_CRITIC, CONFIG)
    assert nothing.loss == 0
    with pytest.raises(ValueError, match="kl has shape"):
        joint_loss(SURROGATE, KL[:, :2], MASK, IS_CRITIC, CONFIG)
    with pytest.raises(ValueError, match=r"surrogate\[:, 0\]"):
        joint_loss(SURROGATE, KL, MASK, IS_CRITIC[:2], CONFIG)


def test_advantages_are_over_the_members_that_count() -> None:
    rewards = torch.tensor([[1.0, 0.0, torch.nan, 0.55], [1.0, 7.0, 7.0, 7.0], [0.6, 0.6, 0.6, 9.0]])
    valid = torch.tensor([[True, True, False, True], [True, False, False, False], [True, True, True, False]])
    found = role_advantages(rewards, valid)
    mean, std = 1.55 / 3, torch.tensor([1.0, 0.0, 0.55]).std().item() + 1e-4
    assert found[0].tolist() == pytest.approx([(1 - mean) / std, -mean / std, 0, (0.55 - mean) / std], rel=1e-5)
    assert not found[1:].any()  # one member alone, and no spread
    assert role_advantages(rewards, valid, scale="none")[0].tolist() == pytest.approx([1 - mean, -mean, 0, 0.55 - mean])


def test_batches_hold_every_sequence_once_and_at_most_the_budget() -> None:
    generator = torch.Generator().manual_seed(0)
    lengths = [tuple(pair) for pair in torch.randint(1, 30, (60, 2), generator=generator).tolist()]
    for budget in (58, 100, 333, 10_000):
        batches = token_budget_batches(lengths, budget)  # type: ignore[arg-type]
        assert sorted(index for batch in batches for index in batch) == list(range(60))
        for batch in batches:
            prompts, completions = zip(*(lengths[index] for index in batch), strict=True)
            assert len(batch) * (max(prompts) + max(completions)) <= budget
    assert len(token_budget_batches(lengths, 10_000)) == 1 and token_budget_batches([], 5) == []  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"one sequence has 20 \+ 30 tokens.*max_tokens_per_batch is 49"):
        token_budget_batches([(20, 30), (1, 1)], 49)


def test_a_batch_is_of_one_role() -> None:
    samples = [RoleSample({}, [1] * n, [2] * (n + 1), n == 3, None, n % 2 == 0, n / 10) for n in range(1, 7)]
    batches = role_batches(samples, 26, pad_id=0)
    assert [batch.of_critic for batch in batches] == sorted(batch.of_critic for batch in batches)
    for batch in batches:
        assert batch.is_critic is not None and batch.advantages is not None
        lengths = batch.prompt_mask.sum(1)
        assert torch.equal(batch.is_critic, lengths % 2 == 0)
        assert torch.allclose(batch.advantages, lengths / 10)
        assert torch.equal(batch.loss_mask, batch.completion_mask)
    with pytest.raises(ValueError, match="no counts"):
        _ = RoleBatch.of(samples[:1], 0).role_counts
