"""Judged decisions: their weights by hand, their gradient by enumeration, and what leaves a completion."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from dllm_rl import Decoding, rollout
from dllm_rl.decoding.decisions import draw_decisions
from dllm_rl.decoding.noise import fresh_uniforms
from dllm_rl.policy import NEG_INF, PolicyConfig, action_logprobs, scores_of
from dllm_rl.sudoku import PuzzleBatch
from dllm_rl.terms.expected_reward import log_f_of
from dllm_rl.terms.judged_decisions import decision_weights, definite_rewards
from dllm_rl.terms.states import ScoredStates
from sudoku_env import completable, generate, solve_batch
from tests.dllm_rl.helpers.tiny_training import puzzles, sudoku_task, tokenizer, warm_model

POLICY = PolicyConfig(position_temperature=0.7, token_temperature=1.3)


def test_weights_by_hand() -> None:
    """One right of four: r/Σr − 1/M is 3/4 and −1/4; linear (r − 1/4) / 3. All right, or none: nothing."""
    right = torch.tensor([[False, True, False, False], [True] * 4, [False] * 4])
    expected = torch.tensor([[-1 / 4, 3 / 4, -1 / 4, -1 / 4], [0.0] * 4, [0.0] * 4], dtype=torch.float64)
    torch.testing.assert_close(decision_weights(right, "log"), expected)
    linear = torch.where(right.any(1, True), expected / 0.75, 0) / 4
    torch.testing.assert_close(decision_weights(right, "linear"), linear)


def decisions_of_two(masked: Tensor, vocabulary: int) -> list[tuple[list[int], list[int]]]:
    """All ordered decisions of two positions of one state, bool `(R,)`."""
    places = masked.nonzero().squeeze(1).tolist()
    tokens = list(itertools.product(range(vocabulary), repeat=2))
    return [(list(pair), list(both)) for pair in itertools.permutations(places, 2) for both in tokens]


def test_the_linear_estimate_is_unbiased() -> None:
    """All pairs of decisions of two positions, weighted by their probability, give the gradient of F."""
    generator = torch.Generator().manual_seed(0)
    masked = torch.tensor([[True, False, True, True]])
    logits = torch.randn(3, 2, dtype=torch.float64, generator=generator).requires_grad_()
    every = decisions_of_two(masked[0], 2)
    positions, tokens = (torch.tensor(column) for column in zip(*every, strict=True))  # (E, 2) each
    right = torch.rand(len(every), generator=generator) < 0.4
    scores, first_state = scores_of(logits, masked, POLICY), torch.zeros(len(every), dtype=torch.long)
    logprobs = action_logprobs(scores, first_state, positions, tokens, POLICY)
    probability = logprobs.exp()
    assert float(probability.sum().detach()) == pytest.approx(1)
    (expected,) = torch.autograd.grad(probability[right].sum(), logits, retain_graph=True)

    number = torch.arange(len(every))
    first, second = (column.flatten() for column in torch.meshgrid(number, number, indexing="ij"))
    weights = decision_weights(torch.stack([right[first], right[second]], 1), "linear")
    drawn = weights[:, 0] * logprobs[first] + weights[:, 1] * logprobs[second]
    chance = (probability[first] * probability[second]).detach()
    (found,) = torch.autograd.grad((chance * drawn).sum(), logits)
    torch.testing.assert_close(found, expected)


def test_drawn_decisions_come_with_their_probability() -> None:
    generator = torch.Generator().manual_seed(1)
    masked = torch.tensor([[True, True, False, True]])
    scores = scores_of(torch.randn(3, 2, dtype=torch.float64, generator=generator), masked, POLICY)
    draws = 20_000
    uniforms = fresh_uniforms((1, draws, 2, 2), generator, masked.device)
    positions, tokens = draw_decisions(scores, torch.tensor([0]), uniforms, POLICY)
    every = decisions_of_two(masked[0], 2)
    all_positions, all_tokens = (torch.tensor(column) for column in zip(*every, strict=True))
    logprobs = action_logprobs(scores, torch.zeros(len(every), dtype=torch.long), all_positions, all_tokens, POLICY)
    for index, share in enumerate(logprobs.exp().tolist()):
        same = (positions[0] == all_positions[index]).all(1) & (tokens[0] == all_tokens[index]).all(1)
        assert abs(int(same.sum()) - draws * share) < 5 * math.sqrt(draws * share * (1 - share))


def several(count: int) -> PuzzleBatch:
    return sudoku_task().batch(puzzles(count, answers="any"))


def test_what_can_be_completed_is_what_a_grid_agrees_with() -> None:
    """Of the grids that there are of 4×4, those that agree with what is written."""
    problems = several(1)
    grids = np.unique(generate(3000, size=4, seed=5).solutions, axis=0)
    assert len(grids) == 288
    digit_ids = torch.tensor(np.broadcast_to(problems.layout.digit_ids, (16, 4)))
    digits = digit_ids[torch.arange(16), torch.from_numpy(grids).long() - 1]  # (288, 16)
    generator = torch.Generator().manual_seed(2)
    cells = torch.tensor(problems.layout.cell_positions)
    states = problems.responses.repeat(200, 1)
    picked = digits[torch.randint(288, (200,), generator=generator)]
    mixed = torch.where(torch.rand(200, 16, generator=generator) < 0.2, picked.roll(1, 0), picked)
    states[:, cells] = torch.where(torch.rand(200, 16, generator=generator) < 0.6, problems.mask_id, mixed)
    written = states[:, cells] != problems.mask_id
    agrees = ((states[:, None, cells] == digits) | ~written[:, None]).all(2).any(1)
    found = problems.completable(states, torch.zeros(200, dtype=torch.long))
    assert torch.equal(found, agrees) and 20 < int(found.sum()) < 180
    states[:, cells[0]] = problems.layout.digit_ids.max() + 1
    assert not bool(problems.completable(states, torch.zeros(200, dtype=torch.long)).any())


def test_where_one_answer_is_right_a_state_with_another_token_cannot_be_completed() -> None:
    problems = sudoku_task().batch(puzzles(2))
    of = torch.tensor([0, 1])
    assert problems.completable(problems.responses, of).tolist() == [True, True]
    wrong = problems.responses.clone()
    answers, judged = problems.answers[0], problems.judged[0]
    place = int((judged & (wrong[0] == problems.mask_id)).nonzero()[0])
    wrong[0, place] = answers[judged & (answers != answers[place])][0]
    assert problems.completable(wrong, of).tolist() == [False, True]


def test_a_wrong_decision_is_drawn_again() -> None:
    """Of sixteen draws few trajectories end, and what is written of those that live can be completed."""
    problems = several(4)
    how = Decoding("policy", tokens_per_step=3, policy=PolicyConfig(1.0, 1.0), on_error="redraw", draws=16)
    generator = torch.Generator().manual_seed(3)
    record = rollout(warm_model().double(), problems, how, num_generations=8, generator=generator)
    ending = replace(how, on_error="end", draws=Decoding.draws)
    once = rollout(warm_model().double(), problems, ending, num_generations=8, generator=generator)
    assert int(record.errors.sum()) < int(once.errors.sum())
    assert bool(problems.completable(record.responses, record.problem_of).all())
    assert bool((record.state_of[~record.errors] >= 0).sum(1).eq(record.decisions[~record.errors]).all())


def test_solved_boards_of_several_answers_are_grids() -> None:
    problems = several(3)
    how = Decoding("policy", policy=PolicyConfig(1.0, 1.0), on_error="redraw")
    record = rollout(warm_model(), problems, how, generator=torch.Generator().manual_seed(4))
    rows, last = torch.arange(len(problems)), record.live.sum(1) - 1
    states = record.responses[record.state_of[rows, last]]
    states[rows, record.positions[rows, last, 0]] = record.tokens[rows, last, 0]
    boards = problems.boards(states[record.solved])
    assert len(boards) and (solve_batch(boards)[1] == 1).all() and (boards > 0).all()


def scored(problems: PuzzleBatch, logits: Tensor | None = None) -> ScoredStates:
    """The problems as they are given, with a policy that errs often."""
    of, masked = torch.arange(len(problems.responses)), problems.responses == problems.mask_id
    if logits is None:
        generator = torch.Generator().manual_seed(6)
        logits = torch.randn(int(masked.sum()), len(tokenizer()), dtype=torch.float64, generator=generator)
        logits[:, problems.layout.digit_ids.tolist()] += 3.0
        logits[:, problems.mask_id] = NEG_INF
    scores = scores_of(logits, masked, POLICY)
    return ScoredStates(problems, problems.responses, of, problems.definite(problems.responses, of), scores, POLICY)


@pytest.mark.parametrize("answers", ["one", "any"])
def test_of_one_position_the_rewards_by_s1_add_up_to_f(answers) -> None:
    """All decisions of one position, each with its probability; the gradient too."""
    problems, lam = sudoku_task().batch(puzzles(3, answers=answers)), 0.25
    logits = scored(problems).scores.logits.requires_grad_()
    states = scored(problems, logits)
    (log_f,) = torch.autograd.grad(log_f_of(states, lam).exp().sum(), logits, retain_graph=True)
    expected, vocabulary = torch.zeros((), dtype=torch.float64), logits.shape[1]
    for row, masked in enumerate(states.masked):
        places = masked.nonzero().flatten()
        pairs = torch.cartesian_prod(places, torch.arange(vocabulary))  # (E, 2)
        positions = torch.full((len(states.masked), len(pairs), 1), -1)
        tokens = positions.clone()
        positions[row, :, 0], tokens[row, :, 0] = pairs.T
        earned = definite_rewards(states, positions, tokens, lam)
        assert not earned[torch.arange(len(earned)) != row].any()  # where nothing is decided nothing is earned
        logprobs = action_logprobs(states.scores, torch.full((len(pairs),), row), positions[row], tokens[row], POLICY)
        expected = expected + (logprobs.exp() * earned[row]).sum()
    assert float(expected.detach()) == pytest.approx(float(log_f_of(states, lam).exp().sum().detach()), rel=1e-9)
    torch.testing.assert_close(torch.autograd.grad(expected, logits)[0], log_f, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("answers", ["one", "any"])
def test_rewards_by_s1_end_at_the_first_error(answers) -> None:
    """Against a loop over positions: decisions of three, of which some go wrong at each place."""
    problems, lam = sudoku_task().batch(puzzles(3, answers=answers)), 0.25
    states = scored(problems)
    generator = torch.Generator().manual_seed(5)
    every = torch.arange(len(problems.responses))
    uniforms = fresh_uniforms((len(every), 200, 3, 2), generator, every.device)
    positions, tokens = draw_decisions(states.scores, every, uniforms, POLICY)
    cells = [int(place) for place in problems.layout.cell_positions]
    expected, ended = torch.zeros(positions.shape[:2]), set()
    for row, draw in itertools.product(every.tolist(), range(200)):
        written = states.responses[row : row + 1].clone()
        for rank, (place, token) in enumerate(zip(positions[row, draw], tokens[row, draw], strict=True)):
            written[0, place] = token
            if int(place) in cells:
                digit = np.flatnonzero(problems.layout.digit_ids == int(token))
                if not len(digit) or not completable(problems.boards(written))[0]:
                    ended.add(rank)
                    break
                expected[row, draw] += float(states.definite[row, place])
            else:
                expected[row, draw] += lam
    assert ended == {0, 1, 2}
    torch.testing.assert_close(definite_rewards(states, positions, tokens, lam), expected)


def test_weights_of_rewards_that_are_not_one_by_hand() -> None:
    """Earned 2, 0, 1 of three draws; mean 1, so (r − 1) / 2; r / 3 − 1/3."""
    rewards = torch.tensor([[2.0, 0.0, 1.0]])
    linear = torch.tensor([[0.5, -0.5, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(decision_weights(rewards, "linear"), linear)
    torch.testing.assert_close(decision_weights(rewards, "log"), linear * 2 / 3)
