"""A table of several trainings and seeds from the rewards of their completions."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llm_rl.rollout.rewards import RewardFunction
from scripts.smollm2.recipe import CONTROL, VERIFIERS
from scripts.study.tables import markdown_table
from sudoku_dllm.trials import estimate

START = "start"
SEED = re.compile(r"(.+)_seed(\d+)")


class Recorded:
    """A reward function that keeps what it gave.

    Args:
        reward: The function.
    """

    def __init__(self, reward: RewardFunction) -> None:
        self.reward, self.given = reward, list[float]()
        self.__name__ = reward.__name__

    def __call__(self, *texts: Sequence[Any], **columns: Any) -> list[float]:
        """The rewards."""
        rewards = [float(reward) for reward in self.reward(*texts, **columns)]
        self.given += rewards
        return rewards


def named(folder: str) -> tuple[str, str | None]:
    """The arm and the seed of a model by its folders' names; the start has no seed."""
    path = Path(folder)
    if found := SEED.fullmatch(path.parent.name):
        return (CONTROL if path.name == "control_model" else found[1]), found[2]
    return path.name, None


def table(rewards: Mapping[tuple[str, str], NDArray[np.float64]]) -> str:
    """A line for each arm, with its lead over the start and over the control.

    Args:
        rewards: Arm and seed → the rewards of each puzzle, `(3, N)`.
    """
    arms = list(dict.fromkeys(arm for arm, _ in rewards))
    shares = {arm: np.stack([rewards[key] for key in sorted(rewards) if key[0] == arm]) for arm in arms}  # (S, 3, N)
    totals = {arm: each.sum(1) for arm, each in shares.items()}
    others = [arm for arm in (START, CONTROL) if arm in arms]
    lines = []
    for arm in arms:
        each_seed = ", ".join(f"{total:.2f}" for total in totals[arm].mean(1))
        line = [arm, f"{totals[arm].mean():.2f} ({each_seed})"]
        for other in others:
            found = estimate(totals[arm] - totals[other])
            ends = [f"[{each[0]:+.2f}, {each[1]:+.2f}]" for each in (found.puzzles, found.seeds) if each is not None]
            line.append("" if arm == other else f"{found.mean:+.2f} {' '.join(ends)}")
        lines.append([*line, *(f"{100 * share:.1f}" for share in shares[arm].mean((0, 2)))])
    leads = [f"minus {other} (over puzzles, over seeds)" for other in others]
    titles = [f"{title} %" for title in VERIFIERS.values()]
    return markdown_table(["", "reward of 3 (each seed)", *leads, *titles], lines)
