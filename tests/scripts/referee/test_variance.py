"""The exact gradient against sums by hand, and what is unbiased by construction."""

from typing import get_args

import pytest
import torch

from scripts.referee.objectives.cj_grpo import CjGrpo
from scripts.referee.objectives.diffu_grpo import DiffuGrpo
from scripts.referee.objectives.just_grpo import JustGrpo
from scripts.referee.objectives.trace_rl import TraceRl
from scripts.referee.objectives.wd1 import Wd1
from scripts.referee.tiny import TinyModel
from scripts.referee.toy import BASE, KINDS, LENGTH, PROMPT, Rule, Toy, trained
from scripts.referee.variance import METHODS, PICTURED, expected_gradients, judge, judge_all, plot, table

RULES: tuple[Rule, ...] = get_args(Rule)
MODEL = TinyModel(LENGTH, BASE, KINDS, 3.0)
TOYS = {rule: Toy(rule, MODEL) for rule in RULES}


def random() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize("rule", RULES)
def test_the_gradient_is_that_of_the_score_function_over_all_trajectories(rule) -> None:
    """Σ_τ p(τ) r(τ) ∇ log p(τ), with log p(τ) a sum over the tokens in the states where they were written."""
    toy = TOYS[rule]
    taken, chance = toy.trajectories()
    assert float(chance.sum()) == pytest.approx(1)
    assert len(chance) == (162 if rule == "random" else 27)
    reward = toy.reward(taken.tokens)
    assert float((chance * reward).sum()) == pytest.approx(float(toy.value().detach()))

    copies = CjGrpo().copies(taken, random())
    scores = toy.jacobian[toy.at(taken, copies)] * copies.scored.unsqueeze(-1)
    by_hand = ((chance * reward).reshape(-1, 1) * scores.sum((1, 2))).sum(0)
    torch.testing.assert_close(toy.gradient(), by_hand)


@pytest.mark.parametrize("rule", RULES)
def test_the_sampler_writes_what_the_trajectories_say(rule) -> None:
    toy = TOYS[rule]
    drawn = toy.sample(4000, random())
    rewards = toy.reward(drawn.tokens)
    assert abs(float(rewards.mean() - toy.value().detach())) < 4 * float(rewards.std()) / 4000**0.5
    assert torch.equal(drawn.steps[:, PROMPT:].sort(1).values, torch.arange(3).expand(4000, -1))
    merged, chance = toy.trajectories(merged=True)
    value = float((chance * toy.reward(merged.tokens)).sum())
    assert len(chance) == 27 and value == pytest.approx(float(toy.value().detach()))


@pytest.mark.parametrize(
    ("objective", "rule"),
    [*((CjGrpo(), rule) for rule in RULES), *((TraceRl(), rule) for rule in RULES), (JustGrpo(), "left")],
)
def test_methods_that_follow_the_sampler_have_the_exact_direction(objective, rule) -> None:
    """Rewards less the mean of four lose a quarter, and the mean over three tokens two thirds."""
    judged = judge(objective, TOYS[rule], draws=2, groups=2)
    assert judged.angle < 1e-4 and judged.error == 0
    if isinstance(objective, CjGrpo):
        assert judged.length == pytest.approx(3 / 4 / 3)


def test_weights_that_add_up_to_zero_have_one_direction_where_rewards_are_0_or_1() -> None:
    one, other = (expected_gradients(each, TOYS["random"], 3, random()).mean(0) for each in (DiffuGrpo(), Wd1()))
    assert float(torch.cosine_similarity(one, other, dim=0)) == pytest.approx(1)


def test_from_left_to_right_is_biased_where_the_sampler_does_not_write_so() -> None:
    assert judge(JustGrpo(), TOYS["random"], draws=2, groups=2).angle > 5


def test_a_table_has_a_row_for_each_method_and_a_picture_a_mark_for_most(tmp_path) -> None:
    found = judge_all([TOYS["left"]], draws=2, groups=2)
    lines = table(found, ["left"]).splitlines()
    assert [line.split("|")[1].strip() for line in lines[2:]] == list(METHODS)
    assert set(PICTURED) < set(METHODS)
    plot({"data": found, "reward": found}, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 10_000


@pytest.mark.parametrize("by", ["reward", "data"])
def test_training_ends_where_it_is_right_often_enough(by) -> None:
    before = float(TOYS["random"].value().detach())
    assert before < 0.2 <= float(Toy("random", trained(0.2, by)).value().detach()) < 0.25
