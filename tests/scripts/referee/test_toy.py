"""The exact gradient against sums by hand, and what is unbiased by construction."""

import math
from typing import get_args

import pytest
import torch

from scripts.referee.objectives.cj_grpo import CjGrpo
from scripts.referee.objectives.copies import Objective
from scripts.referee.objectives.diffu_grpo import DiffuGrpo
from scripts.referee.objectives.just_grpo import JustGrpo
from scripts.referee.objectives.trace_rl import TraceRl
from scripts.referee.objectives.wd1 import Wd1
from scripts.referee.tiny import TinyModel
from scripts.referee.toy import BASE, KINDS, LENGTH, Rule, Toy, expected_gradients

RULES: tuple[Rule, ...] = get_args(Rule)
TOYS = {rule: Toy(rule, TinyModel(LENGTH, BASE, KINDS, 3.0)) for rule in RULES}


def random() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def angle(objective: Objective, rule: Rule) -> float:
    """Degrees between what a method that draws no masks expects and the exact gradient."""
    expected = expected_gradients(objective, TOYS[rule], 2, random())[0]
    cosine = torch.cosine_similarity(expected, TOYS[rule].gradient(), dim=0)
    return math.degrees(math.acos(cosine.clamp(-1, 1)))


@pytest.mark.parametrize("rule", RULES)
def test_the_gradient_is_that_of_the_score_function_over_all_trajectories(rule) -> None:
    """Σ_τ p(τ) r(τ) ∇ log p(τ), with log p(τ) a sum over the tokens in the states where they were written."""
    toy = TOYS[rule]
    taken, chance = toy.trajectories()
    assert float(chance.sum()) == pytest.approx(1)
    assert len(chance) == (162 if rule == "random" else 27)
    reward, value = toy.reward(taken.tokens), float(toy.value().detach())
    assert float((chance * reward).sum()) == pytest.approx(value)
    merged, chance_of_all = toy.trajectories(merged=True)
    assert len(chance_of_all) == 27
    assert float((chance_of_all * toy.reward(merged.tokens)).sum()) == pytest.approx(value)

    copies = CjGrpo().copies(taken, random())
    scores = toy.jacobian[toy.at(taken, copies)] * copies.scored.unsqueeze(-1)
    by_hand = ((chance * reward).reshape(-1, 1) * scores.sum((1, 2))).sum(0)
    torch.testing.assert_close(toy.gradient(), by_hand)


@pytest.mark.parametrize("rule", RULES)
def test_methods_that_follow_the_sampler_have_the_exact_direction(rule) -> None:
    """Rewards less the mean of four lose a quarter, and the mean over three tokens two thirds."""
    for objective in (CjGrpo(), TraceRl(), *([JustGrpo()] if rule == "left" else [])):
        assert angle(objective, rule) < 1e-4
    expected = expected_gradients(CjGrpo(), TOYS[rule], 2, random())[0]
    assert float(expected.norm() / TOYS[rule].gradient().norm()) == pytest.approx(3 / 4 / 3)


def test_weights_that_add_up_to_zero_have_one_direction_where_rewards_are_0_or_1() -> None:
    one, other = (expected_gradients(each, TOYS["random"], 3, random()).mean(0) for each in (DiffuGrpo(), Wd1()))
    assert float(torch.cosine_similarity(one, other, dim=0)) == pytest.approx(1)


def test_from_left_to_right_is_biased_where_the_sampler_does_not_write_so() -> None:
    assert angle(JustGrpo(), "random") > 5
