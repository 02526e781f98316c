"""The environment does what a roll-out does: every decision of real roll-outs, replayed in it."""

from dataclasses import replace
from itertools import cycle

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from dllm_rl.decoding.rollouts import Rollout, rollout
from dllm_rl.sudoku import PuzzleBatch
from sudoku_env.envs.sources import PromptPool
from sudoku_env.envs.unmask_env import UnmaskEnv
from sudoku_env.envs.unmask_vector_env import SudokuUnmaskVectorEnv
from sudoku_env.prompts.text import build_prompt
from tests.dllm_rl.helpers.tiny_llada import make_model
from tests.dllm_rl.helpers.update_checks import DRAWN, uneven, uneven_rollout

LENGTH, LAM, GROUP = 19, 0.25, 6


def actions_of(record: Rollout, step: int) -> NDArray[np.int64]:
    """The decisions of all trajectories in a step as actions, int64 `(T, k, 2)`; those of ended ones mean nothing."""
    return np.stack([record.positions[:, step].numpy(), record.tokens[:, step].clamp_min(0).numpy()], axis=-1)


def wrong_at(record: Rollout, row: int, step: int) -> list[int]:
    """The judged positions at which a decision has a wrong token."""
    problems, problem = record.problems, row // record.num_generations
    pairs = zip(record.positions[row, step].tolist(), record.tokens[row, step].tolist(), strict=True)
    answers, judged = problems.answers[problem].tolist(), problems.judged[problem].tolist()
    return sorted(ell for ell, token in pairs if ell >= 0 and judged[ell] and answers[ell] != token)


def assert_replays_alone(env: UnmaskEnv, record: Rollout) -> None:
    """One trajectory after the other in the single environment."""
    for row in range(len(record.state_of)):
        obs, info = env.reset(options={"index": row // GROUP})
        terminated = False
        for step in range(int(record.live[row].sum())):
            state = record.state_of[row, step]
            assert not terminated
            assert obs[-LENGTH:].tolist() == record.responses[state].tolist()
            assert info["definite"].tolist() == record.definite[state].tolist()
            action = actions_of(record, step)[row].reshape(env.action_space.shape)
            obs, reward, terminated, _, info = env.step(action)
            assert reward == float(record.rewards[row, step]) and not info["illegal"]
            assert info["error"] == bool(record.wrong[row, step])
            assert np.flatnonzero(info["wrong"]).tolist() == wrong_at(record, row, step)
        assert terminated


def assert_replays_together(envs: SudokuUnmaskVectorEnv, record: Rollout) -> None:
    """All trajectories at once in the vector environment; those that have ended play anything in new episodes."""
    problems = np.arange(len(record.state_of)) // GROUP
    for problem in range(len(record.problems)):
        obs, infos = envs.reset(options={"index": problem, "reset_mask": problems == problem})
    for step in range(record.state_of.shape[1]):
        live, states = record.live[:, step].numpy(), record.state_of[:, step]
        assert obs[live, -LENGTH:].tolist() == record.responses[states[live]].tolist()
        actions = np.where(live[:, None, None], actions_of(record, step), -1)
        masked = obs[:, -LENGTH:] == envs.mask_id
        actions[~live, 0] = np.stack([masked.argmax(1), np.full(len(live), 9)], axis=1)[~live]
        actions[~live, 1:] = -1, 0
        obs, rewards, terminated, _, infos = envs.step(actions.reshape(envs.action_space.shape))
        ends = live & ~record.live[:, step + 1].numpy() if step + 1 < record.live.shape[1] else live
        assert rewards[live].tolist() == record.rewards[live, step].tolist()
        assert terminated[live].tolist() == ends[live].tolist()
        for row in np.flatnonzero(live).tolist():
            info = infos["final_info"] if terminated[row] else infos
            assert bool(info["error"][row]) == bool(record.wrong[row, step])
            assert np.flatnonzero(info["wrong"][row]).tolist() == wrong_at(record, row, step)


@pytest.mark.parametrize("on_error", ["end", "correct"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_roll_outs_replay_in_the_environments(fitted, tokenizer, puzzles, count, on_error) -> None:
    """With a random model and one that has half learned the puzzles: the same states, rewards, errors and ends."""
    boards = [puzzle.layout.puzzle for puzzle in puzzles]
    prompts = [*map(build_prompt, boards, cycle(("compact", "short")))]
    options = {
        "source": PromptPool(prompts), "tokenizer": tokenizer, "max_gen_length": LENGTH, "lam": LAM,
        "tokens_per_step": count, "on_error": on_error,
    }  # fmt: skip
    env = gymnasium.make("sudoku_env:SudokuUnmask-v0", disable_env_checker=True, **options).unwrapped
    assert isinstance(env, UnmaskEnv)
    envs = SudokuUnmaskVectorEnv(len(prompts) * GROUP, autoreset_mode=AutoresetMode.SAME_STEP, **options)
    starts = [env.responses.start(number) for number in range(len(prompts))]
    batch = PuzzleBatch.collate(starts, pad_id=env.responses.pad_id)
    blind = make_model(vocab_size=len(tokenizer), mask_token_id=tokenizer.mask_token_id)

    def of_every_kind(record: Rollout) -> bool:
        """Errors, solved puzzles, rewards, and decisions on fewer positions than others where there are several."""
        fewer = bool((record.live & (record.positions < 0).any(2)).any())
        return uneven(record) and bool((record.rewards >= 1).any()) and fewer == (count > 1)

    how, options = replace(DRAWN, tokens_per_step=count, on_error=on_error), {"num_generations": GROUP, "lam": LAM}
    record = uneven_rollout(fitted, batch, how, seed=count, has=of_every_kind, **options)
    of_chance = rollout(blind, batch, how, generator=torch.Generator().manual_seed(count), **options)
    for played in (record, of_chance):
        assert_replays_alone(env, played)
        assert_replays_together(envs, played)
