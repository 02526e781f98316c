import math

import pytest
import torch

from dllm_rl.policy import PolicyConfig, StateScores
from dllm_rl.terms.cross_entropy import answer_loglikelihood
from dllm_rl.terms.divergence import kl_to_reference

POLICY = PolicyConfig(token_temperature=0.5)


def scores(position: list[float], tokens: list[list[float]]) -> StateScores:
    """Two states of three response positions; the first has its first two masked, the second its last."""
    table = torch.tensor([[*position, 0.0], [0.0, 0.0, 1.0]]).log()
    return StateScores(
        logits=torch.tensor(tokens).log(),
        row_of=torch.tensor([[0, 1, -1], [-1, -1, 2]]),
        margins=torch.zeros(2, 3),
        position_logprobs=table,
    )


OURS = scores([0.75, 0.25], [[0.5, 0.5, 0.0], [0.8, 0.2, 0.0], [0.5, 0.5, 0.0]])
BASE = scores([0.5, 0.5], [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.2, 0.8, 0.0]])
KL_1 = 0.8 * math.log(1.6) + 0.2 * math.log(0.4)  # (0.8, 0.2) from (0.5, 0.5)
KL_2 = 0.5 * math.log(0.5 / 0.2) + 0.5 * math.log(0.5 / 0.8)


def test_divergence_of_tokens_by_hand() -> None:
    got = kl_to_reference(OURS, BASE, "tokens", POLICY)
    torch.testing.assert_close(got, torch.tensor([KL_1 / 2, KL_2]))


def test_divergence_of_actions_by_hand() -> None:
    """Probabilities are squared at temperature 1/2: 16 : 1, and 1 : 16 for the reference of the last."""
    positions = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
    sharp = 16 / 17 * math.log(32 / 17) + 1 / 17 * math.log(2 / 17)
    last = 0.5 * math.log(17 / 2) + 0.5 * math.log(17 / 32)
    got = kl_to_reference(OURS, BASE, "actions", POLICY)
    torch.testing.assert_close(got, torch.tensor([positions + 0.25 * sharp, last]))


@pytest.mark.parametrize("target", ["tokens", "actions"])
def test_divergence_from_itself_is_0_without_gradient(target: str) -> None:
    logits = OURS.logits.clone().requires_grad_()
    got = kl_to_reference(OURS._replace(logits=logits), OURS, target, POLICY)  # type: ignore[arg-type]
    torch.testing.assert_close(got.detach(), torch.zeros(2))
    got.sum().backward()
    torch.testing.assert_close(logits.grad, torch.zeros(3, 3))


def test_answer_loglikelihood_by_hand() -> None:
    """The log-likelihood is at temperature 1 whatever the policy's; a state in which nothing counts has 0."""
    answer = torch.tensor([[0, 1, 9], [9, 9, 0]])
    counted = torch.tensor([[True, True, False], [False, False, True]])
    got = answer_loglikelihood(OURS, answer, counted)
    torch.testing.assert_close(got, torch.tensor([(math.log(0.5) + math.log(0.2)) / 2, math.log(0.5)]))
    got = answer_loglikelihood(OURS, answer, counted & (answer == 1))
    torch.testing.assert_close(got, torch.tensor([math.log(0.2), 0.0]))
