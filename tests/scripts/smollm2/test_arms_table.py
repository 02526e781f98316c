"""The table of `scripts.smollm2.judge`, by hand."""

import numpy as np
import pytest

from scripts.smollm2.arms_table import Recorded, named, table


def test_leads_over_start_and_control_are_paired_by_seed_and_puzzle() -> None:
    start = np.array([[0.0, 0.5], [0.0, 0.0], [0.0, 0.0]])  # three rewards of two puzzles
    better = start + np.array([[0.5], [0.0], [0.0]])
    rewards = {
        ("start", "0"): start,
        ("start", "1"): start,
        ("grpo", "1"): better + np.array([[0.0], [0.0], [1.0]]),  # seeds in any order
        ("grpo", "0"): better,
        ("more SFT", "0"): better,
        ("more SFT", "1"): better,
    }
    head, _, first, grpo, control = table(rewards).splitlines()
    assert head.startswith("|  | reward of 3 (each seed) | minus start (over puzzles, over seeds) | minus more SFT ")
    assert head.endswith("| given digits kept % | blanks filled rightly % | grids solved % |")
    assert first.startswith("| start | 0.25 (0.25, 0.25) |  | -0.50 [-0.50, -0.50] [-0.50, -0.50] |")
    # Leads of 0.5 and 1.5: a mean of 1, a standard error of 0.5 and one degree of freedom.
    assert "| grpo | 1.25 (0.75, 1.75) | +1.00 [+1.00, +1.00] [-5.35, +7.35] | +0.50 [+0.50, +0.50] " in grpo
    assert grpo.endswith("| 75.0 | 0.0 | 50.0 |") and " | +0.50 [+0.50, +0.50] [+0.50, +0.50] |  | 75.0 " in control


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        ("runs/smollm2/start", ("start", None)),
        ("runs/smollm2/grpo_seed12/model", ("grpo", "12")),
        ("runs/smollm2/grpo_seed12/control_model", ("more SFT", "12")),
        ("runs/grpo/model", ("model", None)),
    ],
)
def test_names_of_models(folder: str, expected: tuple[str, str | None]) -> None:
    assert named(folder) == expected


def test_what_a_reward_function_gave_is_kept() -> None:
    def length(prompts: list[str], completions: list[str], **columns: object) -> list[int]:
        return [len(text) for text in completions]

    recorded = Recorded(length)
    assert recorded(["a", "b"], ["x", "xyz"], solution=["", ""]) == [1.0, 3.0] == recorded.given
    assert recorded(["a"], completions=["xy"]) == [2.0] and recorded.given == [1.0, 3.0, 2.0]
    assert recorded.__name__ == "length"
