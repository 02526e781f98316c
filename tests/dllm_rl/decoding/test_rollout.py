from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from dllm_rl.decoding import Decoding, decode
from dllm_rl.decoding.noise import puzzle_noise
from dllm_rl.decoding.rollouts import Rollout, rollout
from dllm_rl.decoding.trajectories import micro_batches
from dllm_rl.policy import PolicyConfig
from dllm_rl.sudoku import PuzzleBatch
from dllm_rl.terms.objective import ObjectiveConfig
from scripts.shared.small_tokenizer import build_small_tokenizer
from sudoku_env.generator import generate
from sudoku_env.prompts.text import build_prompt
from sudoku_env.prompts.tokens import PreFilled, detect_definite, judge_error, pre_fill
from tests.dllm_rl.helpers.policy_reference import actions_at, after, f_of, is_over, policy_at
from tests.dllm_rl.helpers.tiny_llada import make_model
from tests.dllm_rl.helpers.update_checks import DRAWN, POLICY, run, uneven, uneven_rollout
from tests.helpers.drawn import first_with


def assert_replays(model, record: Rollout, puzzles: list[PreFilled], lam: float, corrected: bool = False) -> None:
    """Play every trajectory again from its puzzle, one state at a time, and compare all that was recorded."""
    count = record.positions.shape[2]
    for row in range(len(record.state_of)):
        puzzle = puzzles[row // record.num_generations]
        layout, state = puzzle.layout, list(puzzle.token_ids)
        right = dict(zip(layout.cell_positions.tolist(), layout.solution_ids.tolist(), strict=True))
        assert int(record.decisions[row]) == -(-state.count(layout.mask_id) // count)
        errors = []
        for k in range(record.state_of.shape[1]):
            visited, actions = int(record.state_of[row, k]), actions_at(record, row, k)
            if is_over(state, puzzle):
                assert visited == -1 and not actions and not bool(record.wrong[row, k])
                assert float(record.old_logprobs[row, k]) == float(record.rewards[row, k]) == 0.0
                continue
            assert record.responses[visited].tolist() == state[layout.prompt_length :]
            assert int(record.problem_of[visited]) == row // record.num_generations
            definite = detect_definite(state, layout)
            assert record.definite[visited].nonzero()[:, 0].tolist() == definite
            with torch.no_grad():
                policy = policy_at(model, state, puzzle, POLICY)
            assert len(actions) == min(count, state.count(layout.mask_id))
            log_prob, f = float(policy.log_prob(*actions)), float(f_of(policy, state, puzzle, lam))
            assert float(record.old_logprobs[row, k]) == pytest.approx(log_prob, abs=1e-9)
            assert float(record.expected_reward[visited]) == pytest.approx(f, abs=1e-12)
            probability = torch.stack(list(policy.position.values())).exp()
            assert float(record.top_prob[visited]) == pytest.approx(float(probability.max()), abs=1e-12)
            entropy = -float((probability * probability.log()).sum())
            assert float(record.entropy[visited]) == pytest.approx(entropy, abs=1e-9)
            margin = {position: float(value) for position, value in policy.margin.items()}
            assert margin[int(record.greedy[visited])] == pytest.approx(max(margin.values()), abs=1e-9)
            rewards = [lam if ell not in right else float(ell in definite and right[ell] == v) for ell, v in actions]
            assert float(record.rewards[row, k]) == pytest.approx(sum(rewards))
            wrong = [ell for ell, token in actions if right.get(ell, token) != token]
            assert bool(record.wrong[row, k]) == bool(wrong)
            errors += [k] if wrong else []
            for ell, token in actions:
                state = after(state, (ell, right.get(ell, token) if corrected else token), puzzle)
        assert is_over(state, puzzle)
        assert bool(record.errors[row]) == bool(errors) == (not record.solved[row])
        assert judge_error(state, layout) == (bool(errors) and not corrected)
        steps = int(record.live[row].sum())
        assert int(record.steps_before_error[row]) == (errors[0] if errors else steps)
        assert corrected or not errors or errors == [steps - 1]


def test_every_trajectory_replays_one_state_at_a_time(model, batch, puzzles) -> None:
    assert_replays(model, uneven_rollout(model, batch, seed=0, num_generations=5, lam=0.3), puzzles, 0.3)


def test_trajectories_on_6x6_replay() -> None:
    tokenizer = build_small_tokenizer()
    boards = generate(2, size=6, clues=(29, 31), rule="singles", seed=5).boards
    puzzles = [pre_fill(build_prompt(board, "compact"), tokenizer, 39) for board in boards]
    model = make_model(vocab_size=len(tokenizer), mask_token_id=tokenizer.mask_token_id).double()
    batch = PuzzleBatch.collate(puzzles, pad_id=tokenizer.pad_token_id)
    torch.manual_seed(0)
    assert_replays(model, rollout(model, batch, DRAWN, num_generations=3), puzzles, 0.5)


@pytest.mark.parametrize("on_error", ["end", "correct"])
@pytest.mark.parametrize("count", [2, 3, 50])
def test_decisions_on_several_positions_by_definition(model, batch, puzzles, count, on_error) -> None:

    def some_wrong_and_some_to_the_end(record: Rollout) -> bool:
        return bool(record.errors.any()) and int(record.live.sum(1).max()) == int(record.decisions.max())

    how = replace(DRAWN, tokens_per_step=count, on_error=on_error)
    options = {"num_generations": 8, "lam": 0.3, "max_tokens": 200}
    record = uneven_rollout(model, batch, how, seed=count, has=some_wrong_and_some_to_the_end, **options)
    assert_replays(model, record, puzzles, 0.3, corrected=on_error == "correct")


def states_of(record: Rollout) -> set[tuple[int, ...]]:
    """The problem and the response of each state."""
    return {(int(puzzle), *row) for puzzle, row in zip(record.problem_of, record.responses.tolist(), strict=True)}


def test_distinct_states_are_distinct_shared_and_ordered_by_step(model, batch) -> None:
    record = rollout(model, batch, DRAWN, num_generations=16)  # all share their first states
    assert len(states_of(record)) == len(record.responses) < int(record.live.sum())
    assert record.state_of[:, 0].reshape(3, 16).unique(dim=1).shape == (3, 1)
    visited = record.state_of[record.live]
    assert torch.equal(visited.unique(), torch.arange(len(record.responses)))
    step_of = torch.zeros(len(record.responses), dtype=torch.int64)
    step_of[visited] = record.live.nonzero()[:, 1]
    assert bool((step_of.diff() >= 0).all())


def test_a_puzzle_that_occurs_twice_shares_its_states(model, puzzles, tokenizer) -> None:
    twice = [puzzles[1], puzzles[0], puzzles[1]]
    record = rollout(model, PuzzleBatch.collate(twice, pad_id=tokenizer.pad_token_id), DRAWN, num_generations=3)
    assert record.state_of[:, 0].tolist() == [0, 0, 0, 1, 1, 1, 0, 0, 0]
    assert set(record.problem_of.tolist()) == {0, 1}
    assert len(states_of(record)) == len(record.responses)


def test_puzzles_of_the_same_state_and_another_prompt_are_not_merged(model, puzzles, tokenizer) -> None:
    twins = PuzzleBatch.collate([puzzles[0], puzzles[0]], pad_id=tokenizer.pad_token_id)
    twins.prompt_ids[1, 0] += 1
    record = rollout(model, twins, DRAWN)
    assert record.state_of[:, 0].tolist() == [0, 1] and record.problem_of[:2].tolist() == [0, 1]


def test_micro_batches_hold_as_many_states_as_both_budgets_allow() -> None:
    masked = torch.tensor([3, 3, 2, 2, 2, 1, 1, 1])
    assert list(micro_batches(masked, 10, 39, None)) == [(0, 3), (3, 6), (6, 8)]
    assert list(micro_batches(masked, 10, 1000, 6)) == [(0, 2), (2, 5), (5, 8)]
    assert list(micro_batches(masked, 10, 20, 3)) == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 6), (6, 8)]
    assert list(micro_batches(masked[:0], 10, 20, 3)) == []


def test_recorded_rewards_average_to_f(model, batch) -> None:
    """reward − f is a martingale difference, so its mean is 0 within five standard errors, at each step and overall."""
    record = uneven_rollout(model, batch, seed=2, num_generations=400)
    f = torch.where(record.live, record.expected_reward[record.state_of.clamp_min(0)], 0.0)
    difference = (record.rewards - f).double()
    for values in (difference[:, 0], difference[:, 3], difference.sum(1)):
        error = float(values.std()) / np.sqrt(len(values))
        assert abs(float(values.mean())) <= 5 * error
    # A reward lies between 0 and 1, so its deviation is at most 1/2.
    first = record.rewards[:, 0].reshape(3, 400).mean(1).double()
    torch.testing.assert_close(first, record.expected_reward[:3], atol=5 * 0.5 / 20, rtol=0)


def test_actions_are_drawn_from_the_policy(model, puzzles, tokenizer) -> None:
    batch = PuzzleBatch.collate(puzzles[:1], pad_id=tokenizer.pad_token_id)
    torch.manual_seed(3)
    record = rollout(model, batch, DRAWN, num_generations=2000)
    with torch.no_grad():
        policy = policy_at(model, puzzles[0].token_ids, puzzles[0], POLICY)
    for ell, log_prob in policy.position.items():
        probability = float(log_prob.exp())
        share = float((record.positions[:, 0] == ell).float().mean())
        assert abs(share - probability) < 5 * np.sqrt(probability * (1 - probability) / 2000) + 1e-3


def test_passes_of_any_size_give_one_greedy_rollout(model, batch) -> None:
    greedy = replace(DRAWN, strategy="margin")
    whole = rollout(model, batch, greedy)
    for budgets in ({"max_tokens": batch.length}, {"max_tokens": 2 * batch.length}, {"max_masked": 15}):
        parts = rollout(model, batch, greedy, **budgets)
        for name in ("responses", "problem_of", "definite", "state_of", "positions", "tokens", "rewards", "errors"):
            assert torch.equal(getattr(parts, name), getattr(whole, name)), name
        torch.testing.assert_close(parts.old_logprobs, whole.old_logprobs, atol=1e-12, rtol=0)


def test_chunked_sampling_replays(model, batch, puzzles) -> None:
    torch.manual_seed(4)
    assert_replays(model, rollout(model, batch, DRAWN, num_generations=2, max_tokens=2 * batch.length), puzzles, 0.5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_roll_out_is_in_the_precision_of_its_model(model, batch, dtype) -> None:
    record = rollout(model.to(dtype), batch, DRAWN, num_generations=2)
    for name in ("old_logprobs", "expected_reward", "entropy", "top_prob"):
        assert getattr(record, name).dtype == dtype, name
    result, _ = run(model, record, ObjectiveConfig())
    assert result.logprobs.dtype == dtype
    # As many roundings of numbers up to 10 as a log-probability has steps, at most.
    assert float((result.logprobs - record.old_logprobs).abs().max()) < 100 * torch.finfo(dtype).eps * 10


def test_a_generator_decides_alone(model, batch) -> None:
    found = []
    for global_seed, seed in ((0, 5), (1, 5), (0, 6)):
        torch.manual_seed(global_seed)
        record = rollout(model, batch, DRAWN, num_generations=4, generator=torch.Generator().manual_seed(seed))
        found.append((record.positions.tolist(), record.tokens.tolist()))
    assert found[0] == found[1] and found[0][0] != found[2][0]


@pytest.mark.parametrize("training", [True, False])
def test_the_models_mode_and_the_puzzles_are_left_as_they_were(model, batch, training) -> None:
    model.train(training)
    before = batch.responses.clone()
    record = rollout(model, batch, DRAWN, num_generations=2)
    assert model.training is training and torch.equal(batch.responses, before)
    assert not record.old_logprobs.requires_grad and not record.expected_reward.requires_grad


def most_blanks(batch: PuzzleBatch) -> int:
    return int((batch.responses == batch.mask_id).sum(1).max())


def decisions_of(record: Rollout) -> list[Tensor]:
    return [record.positions, record.tokens, record.rewards, record.errors]


def test_noise_decides_whatever_the_passes(model, batch) -> None:

    def draw(seed: int) -> tuple[Tensor, Rollout]:
        noise = puzzle_noise(seed, 2, range(3), 6, most_blanks(batch))
        return noise, rollout(model, batch, DRAWN, num_generations=6, noise=noise)

    torch.manual_seed(0)
    noise, whole = first_with(lambda case: uneven(case[1]), draw, seed=1)
    torch.manual_seed(1)
    for budgets in ({}, {"max_tokens": batch.length}, {"max_tokens": 5 * batch.length}, {"max_masked": 17}):
        parts = rollout(model, batch, DRAWN, num_generations=6, noise=noise, **budgets)
        for ours, theirs in zip(decisions_of(parts), decisions_of(whole), strict=True):
            assert torch.equal(ours, theirs)
        for name in ("responses", "problem_of", "state_of", "definite"):
            assert torch.equal(getattr(parts, name), getattr(whole, name)), name


def test_puzzles_decode_alike_wherever_they_are_dealt(model, puzzles, tokenizer) -> None:
    def play(numbers: list[int]) -> Rollout:
        batch = PuzzleBatch.collate([puzzles[number] for number in numbers], pad_id=tokenizer.pad_token_id)
        noise = puzzle_noise(5, 0, numbers, 4, most_blanks(batch))
        return rollout(model, batch, DRAWN, num_generations=4, noise=noise)

    whole = play([0, 1, 2, 3, 4, 5])
    for numbers in ([0, 2, 4], [5, 3, 1], [2]):
        part = play(numbers)
        steps = part.positions.shape[1]
        for ours, theirs in zip(decisions_of(part), decisions_of(whole), strict=True):
            rows = theirs.reshape(6, 4, -1)[numbers].reshape(len(numbers) * 4, -1)
            assert torch.equal(ours.reshape(len(ours), -1), rows[:, :steps])


def test_trajectories_of_one_state_do_not_share_their_noise(model, batch) -> None:
    """At a high temperature each position is about as likely as another: that 32 draws agree is out of the question."""
    noise, policy = puzzle_noise(0, 0, range(3), 32, most_blanks(batch)), PolicyConfig(position_temperature=1e3)
    record = rollout(model, batch, Decoding("policy", policy=policy, on_error="end"), num_generations=32, noise=noise)
    assert all(len(group.unique()) > 1 for group in record.positions[:, 0].reshape(3, 32))


def test_noise_of_another_shape_or_beside_a_generator_is_refused(model, batch) -> None:
    most = most_blanks(batch)
    noise = puzzle_noise(0, 0, range(3), 2, most)
    with pytest.raises(ValueError, match=rf"torch\.float64 \(6, {most}, 2\); give float64 \(3, {most}, 2\)"):
        rollout(model, batch, num_generations=1, noise=noise)
    with pytest.raises(ValueError, match=rf"torch\.float32 \(6, {most}, 2\)"):
        rollout(model, batch, num_generations=2, noise=noise.float())
    with pytest.raises(ValueError, match="a generator or noise, not both"):
        rollout(model, batch, num_generations=2, noise=noise, generator=torch.Generator())


@pytest.mark.parametrize("run", [rollout, lambda model, batch: decode(model, batch, Decoding("margin"))])
def test_an_error_leaves_every_module_in_its_mode(model, batch, run) -> None:
    model.train()
    model.model.transformer.blocks[0].eval()
    modes = [module.training for module in model.modules()]
    model.model.transformer.wte.weight.data.fill_(torch.nan)
    with pytest.raises(FloatingPointError):
        run(model, batch)
    assert [module.training for module in model.modules()] == modes and set(modes) == {True, False}
