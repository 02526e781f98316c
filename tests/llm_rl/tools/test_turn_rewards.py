import pytest
import torch

from llm_rl.tools.turn_rewards import at_turn_ends, rewards_of_turns, turn_numbers


def test_turns_earn_what_the_score_rose_by_and_the_last_one_all_else() -> None:
    assert rewards_of_turns([0.0, 0.25, 0.25, 1.0], 1.0) == [0.25, 0.0, 0.75]
    assert rewards_of_turns([0.5, 0.25, 0.75], 2.0, weight=2.0) == [-0.5, 1.5]  # 1 + (2 − 1.5)
    with pytest.raises(ValueError, match="scores has 1 entries"):
        rewards_of_turns([0.0], 1.0)


def test_turns_are_runs_of_sampled_tokens() -> None:
    sampled = torch.tensor([[1, 1, 0, 0, 1, 0, 1, 1, 0], [1, 0, 0, 0, 0, 0, 0, 0, 0]]).bool()
    assert turn_numbers(sampled).tolist() == [[0, 0, 0, 0, 1, 1, 2, 2, 2], [0] * 9]
    rewards = torch.tensor([[1.0, 2.0, 3.0], [4.0, torch.nan, torch.nan]])
    assert at_turn_ends(rewards, sampled).tolist() == [[0, 1, 0, 0, 2, 0, 0, 3, 0], [4, 0, 0, 0, 0, 0, 0, 0, 0]]
