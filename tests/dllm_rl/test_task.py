"""The seam between tasks and the trainer: rewards as the environment pays them, batches of any kind of problem."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dllm_rl.decoding import Decoding, evaluate
from dllm_rl.decoding.rollouts import Rollout, rollout
from dllm_rl.policy import PolicyConfig
from dllm_rl.sft import SftDataset
from dllm_rl.sudoku import PuzzleBatch
from dllm_rl.task import unmask_rewards
from dllm_rl.training.trainer import UnmaskTrainer
from sudoku_env.prompts.tokens import PreFilled
from tests.dllm_rl.helpers.policy_reference import environment
from tests.dllm_rl.helpers.tiny_sums import LENGTH, MASK, SumBatch, SumTask, sum_model
from tests.dllm_rl.helpers.tiny_training import arguments
from tests.helpers.drawn import first_with

RULES = ("naked_single", "singles", "locked", "pairs", "backbone")
TAILS = ("free", "prefill", "scored")
VOCABULARY, END = 105, 50
PAIRS = [(a, b) for a in range(10) for b in range(10)]
FEW = [(1, 2), (3, 4), (6, 9), (8, 8)]


def random_batch(puzzles: list[PreFilled], random: np.random.Generator) -> PuzzleBatch:
    """All puzzles under a random rule, with a random kind of tail."""
    tail, rule = str(random.choice(TAILS)), str(random.choice(RULES))
    return PuzzleBatch.collate(puzzles, pad_id=77, tail_id=END, tail=tail, rule=rule)


def random_lam(random: np.random.Generator) -> float:
    return float(random.choice([0.0, 0.5, 1.0, random.random()]))


def test_rewards_are_those_of_the_environment_for_any_state_and_action(puzzles) -> None:
    """States are filled at random, right and wrong; actions are right digits, wrong digits and any other token."""
    count, seen = 40, {"paid": 0, "wrong": 0, "indefinite": 0, "tail": 0, "unpaid tail": 0, "complete": 0}
    for seed in range(120):
        random = np.random.default_rng(seed)
        batch, lam = random_batch(puzzles, random), random_lam(random)
        of = torch.from_numpy(random.integers(len(batch), size=count))
        start, answers = batch.responses[of], batch.answers[of]
        drawn = torch.from_numpy(random.integers(3, VOCABULARY, size=start.shape))
        filled = torch.from_numpy(random.random(start.shape) < random.random((count, 1)) * 1.2)
        good = torch.from_numpy(random.random(start.shape) < 0.85)
        positions = torch.from_numpy(np.where(start == batch.mask_id, random.random(start.shape), -1.0).argmax(1))
        filled[torch.arange(count), positions] = False
        states = torch.where((start == batch.mask_id) & filled, torch.where(good, answers, drawn), start)
        digits = torch.from_numpy(random.choice(batch.layout.digit_ids, size=count))
        any_token = torch.where(torch.from_numpy(random.random(count) < 0.5), digits, drawn[:, 0])
        right = answers[torch.arange(count), positions]
        tokens = torch.where(torch.from_numpy(random.random(count) < 0.5), right, any_token)

        outcome, expected = environment(batch, of, states, positions, tokens, lam)
        judged, definite = batch.judged[of, positions], batch.definite(states, of)[torch.arange(count), positions]
        inputs = (judged, definite, batch.scored[of, positions], right == tokens, lam)
        assert unmask_rewards(*inputs).tolist() == expected.astype(np.float32).tolist()
        assert (judged & (right != tokens)).tolist() == outcome.errors.tolist()
        seen["paid"] += int((judged & torch.from_numpy(expected == 1)).sum())
        seen["wrong"] += int(outcome.errors.sum())
        seen["indefinite"] += int((judged & (right == tokens) & ~definite).sum())
        seen["tail"] += int((~judged & torch.from_numpy(expected > 0)).sum())
        seen["unpaid tail"] += int((~judged & torch.from_numpy(expected == 0)).sum())
        seen["complete"] += int(outcome.complete.sum())
    assert min(seen.values()) > 10, seen


def test_selecting_and_moving_keep_every_field_of_a_subclass() -> None:
    whole = replace(SumTask("a name").batch(PAIRS[:4]), weight=torch.tensor([0.1, 0.2, 0.3, 0.4]))
    for batch in (whole, replace(whole, prompt_mask=torch.ones(4, 2, dtype=torch.bool))):
        part, moved = batch.select(torch.tensor([2, 0])), batch.to("meta")
        assert type(part) is type(moved) is SumBatch and len(part) == 2 and len(moved) == 4
        for item in fields(SumBatch):
            kept = getattr(batch, item.name)
            if isinstance(kept, Tensor):
                assert torch.equal(getattr(part, item.name), kept[[2, 0]]), item.name
                assert getattr(moved, item.name).is_meta and getattr(moved, item.name).shape == kept.shape, item.name
            else:
                assert getattr(part, item.name) is getattr(moved, item.name) is kept, item.name


# Problems that are no puzzles.


def by_definition(record: Rollout, row: int, lam: float) -> tuple[list[float], bool]:
    """Rewards of one trajectory of sums, and whether it ended with an error, from its two digits."""
    a, b = PAIRS[row // record.num_generations]
    state, rewards, error = [MASK] * LENGTH, [], False
    for ell, token in zip(record.positions[row, :, 0].tolist(), record.tokens[row, :, 0].tolist(), strict=True):
        if ell < 0:
            break
        assert not error and state[ell] == MASK
        right = token == (a + b + ell) % 10
        if ell < LENGTH - 1:
            rewards.append(float(right and (ell == 0 or state[ell - 1] != MASK)))
            error = not right
        else:
            rewards.append(lam if right or (a + b) % 2 else 0.0)
        state[ell] = token
    assert error or MASK not in state
    return rewards, error


def test_sums_are_rolled_out_by_their_definition() -> None:
    batch = SumTask().batch(PAIRS)

    def draw(seed: int) -> Rollout:
        generator = torch.Generator().manual_seed(seed)
        how = Decoding("policy", policy=PolicyConfig(1.0, 1.0), on_error="end")
        return rollout(sum_model(), batch, how, num_generations=30, lam=0.3, generator=generator)

    record = first_with(lambda record: bool(record.solved.any()), draw, seed=0)
    rewards = []
    for row in range(len(record.positions)):
        expected, error = by_definition(record, row, 0.3)
        assert record.rewards[row, record.live[row]].tolist() == pytest.approx(expected)
        assert bool(record.errors[row]) == error
        rewards += expected
    assert {round(reward, 3) for reward in rewards} == {0.0, 0.3, 1.0}
    difference = (record.rewards - record.visited_rewards).double().sum(1)
    assert abs(float(difference.mean())) < 4 * float(difference.std()) / len(difference) ** 0.5


def test_problems_that_differ_in_a_column_of_their_own_are_not_merged() -> None:
    batch = SumTask().batch([(3, 4), (3, 4), (3, 4)])
    for weight, first in (([0.2, 0.2, 0.2], [0, 0, 0]), ([0.2, 0.7, 0.2], [0, 1, 0])):
        record = rollout(sum_model(), replace(batch, weight=torch.tensor(weight)))
        assert record.problem_of[record.state_of[:, 0]].tolist() == first


def sum_trainer(folder: Path, model: nn.Module, callbacks: Any = None, **changes: object) -> UnmaskTrainer:
    chosen = {"per_device_train_batch_size": 4, "ce_weight": 1.0, "reduction": "mean", "learning_rate": 1e-2}
    return UnmaskTrainer(model, arguments(folder, **{**chosen, **changes}), FEW, SumTask(), callbacks=callbacks)


def test_a_few_sums_are_learned(tmp_path) -> None:
    run = sum_trainer(tmp_path, sum_model(), max_steps=40)
    before = evaluate(run.model, FEW, SumTask())
    run.train()
    after = evaluate(run.model, FEW, SumTask())
    assert after.solved.sum() >= before.solved.sum() + 2  # three or four of the four, with eight seeds
    assert after.greedy_definite > before.greedy_definite


def test_sums_are_training_sequences_as_well() -> None:
    row = SftDataset(SumTask().batch(PAIRS))[PAIRS.index((7, 8))]
    assert row["input_ids"].tolist() == [7, 8, 5, 6, 7, 8]
    assert row["maskable"].tolist() == [False, False, True, True, True, True] and bool(row["attention_mask"].all())
