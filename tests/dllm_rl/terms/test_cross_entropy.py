import math

import torch

from dllm_rl.policy import StateScores
from dllm_rl.terms.cross_entropy import answer_loglikelihood


def scores(position: list[float], tokens: list[list[float]]) -> StateScores:
    """Two states of three response positions; the first has its first two masked, the second its last."""
    table = torch.tensor([[*position, 0.0], [0.0, 0.0, 1.0]]).log()
    return StateScores(
        logits=torch.tensor(tokens).log(),
        row_of=torch.tensor([[0, 1, -1], [-1, -1, 2]]),
        margins=torch.zeros(2, 3),
        position_logprobs=table,
        best_logprobs=torch.zeros(3),
    )


OURS = scores([0.75, 0.25], [[0.5, 0.5, 0.0], [0.8, 0.2, 0.0], [0.5, 0.5, 0.0]])


def test_answer_loglikelihood_by_hand() -> None:
    """The log-likelihood is at temperature 1 whatever the policy's; a state in which nothing counts has 0."""
    answer = torch.tensor([[0, 1, 9], [9, 9, 0]])
    counted = torch.tensor([[True, True, False], [False, False, True]])
    got = answer_loglikelihood(OURS, answer, counted)
    torch.testing.assert_close(got, torch.tensor([(math.log(0.5) + math.log(0.2)) / 2, math.log(0.5)]))
    got = answer_loglikelihood(OURS, answer, counted & (answer == 1))
    torch.testing.assert_close(got, torch.tensor([math.log(0.2), 0.0]))
