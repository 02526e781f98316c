from dataclasses import replace

import pytest
import torch

from llm_rl.core import LossCounts
from llm_rl.raro import Label, RaroConfig, RewardMatrix, RoleCounts, joint_loss, parse_label, role_advantages
from tests.helpers.refusals import refused

SURROGATE = torch.tensor([[1.0, 2.0, torch.nan], [3.0, torch.nan, torch.nan], [4.0, 5.0, 6.0]], dtype=torch.float64)
KL = torch.tensor([[0.1, 0.3, torch.nan], [0.5, torch.nan, torch.nan], [0.2, 0.2, 0.8]], dtype=torch.float64)
MASK = torch.tensor([[True, True, False], [True, False, False], [True, True, True]])
IS_CRITIC = torch.tensor([False, True, True])
CONFIG = RaroConfig(lambda_pol=0.25, lambda_crit=0.75, kl_weight=2.0)


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
    refused("kl has shape", lambda: joint_loss(SURROGATE, KL[:, :2], MASK, IS_CRITIC, CONFIG))
    refused(r"surrogate\[:, 0\]", lambda: joint_loss(SURROGATE, KL, MASK, IS_CRITIC[:2], CONFIG))


def test_advantages_are_over_the_members_that_count() -> None:
    rewards = torch.tensor([[1.0, 0.0, torch.nan, 0.55], [1.0, 7.0, 7.0, 7.0], [0.6, 0.6, 0.6, 9.0]])
    valid = torch.tensor([[True, True, False, True], [True, False, False, False], [True, True, True, False]])
    found = role_advantages(rewards, valid)
    mean, std = 1.55 / 3, torch.tensor([1.0, 0.0, 0.55]).std().item() + 1e-4
    assert found[0].tolist() == pytest.approx([(1 - mean) / std, -mean / std, 0, (0.55 - mean) / std], rel=1e-5)
    assert not found[1:].any()  # one member alone, and no spread
    assert role_advantages(rewards, valid, scale="none")[0].tolist() == pytest.approx([1 - mean, -mean, 0, 0.55 - mean])


def test_every_cell_of_the_reward_matrix_in_both_orders() -> None:
    matrix = RewardMatrix()
    cells = {
        ("[Answer 1]", True): (Label.EXPERT, 1.0, 0.0),
        ("[Answer 1]", False): (Label.POLICY, 0.0, 1.0),
        ("[Answer 2]", True): (Label.POLICY, 0.0, 1.0),
        ("[Answer 2]", False): (Label.EXPERT, 1.0, 0.0),
        ("[Tie]", True): (Label.TIE, 0.55, 0.6),
        ("[Tie]", False): (Label.TIE, 0.55, 0.6),
    }
    for (text, expert_first), (label, critic, policy) in cells.items():
        assert parse_label(text, expert_first) is label
        assert (matrix.critic(label), matrix.policy(label)) == (critic, policy)
    assert parse_label("answer 1", True) is None
    assert {label for label, _, _ in cells.values()} == set(Label)


def test_rewards_of_several_labels() -> None:
    matrix = RewardMatrix(tau_pol=0.3, tau_crit=0.5)
    assert matrix.policy_mean([Label.TIE, None, Label.POLICY]) == pytest.approx(0.65)
    assert matrix.policy_mean([None, None]) is None and matrix.policy_mean([]) is None
    assert matrix.critic(Label.TIE) == 0.5
    refused(r"tau_crit is 1\.5; a tie is worth between", lambda: RewardMatrix(tau_crit=1.5))
