"""Solve rate and decoding order of a model on held-out puzzles, by decoding strategy."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from dllm_rl.decoding import STRATEGIES, Strategy
from dllm_rl.policy import PolicyConfig
from dllm_rl.rollout import Rollout, rollout
from dllm_rl.statistics import ratio_contributions
from dllm_rl.task import UnmaskTask
from llm_rl.training.reports import load_pandas

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_STRATEGIES = ("margin", "probability", "policy")


class Solved(Protocol):
    """What was solved, whichever way it was decoded."""

    @property
    def solved(self) -> NDArray[np.bool_]:
        """Whether each puzzle was solved, bool `(N,)`."""


def rate_ci95(successes: NDArray[np.bool_]) -> float:
    """Half-width of the normal 95 % interval of a rate, from bool `(N,)`."""
    rate = float(successes.mean())
    return 1.96 * float(np.sqrt(rate * (1 - rate) / len(successes)))


@dataclass(frozen=True, eq=False)
class Evaluation:
    """One decode of each of N puzzles.

    Attributes:
        strategy: Name of the decoding strategy.
        solved: bool `(N,)`, complete without an error.
        steps_before_error: int64 `(N,)`, right decisions before the error, or all of them.
        forced: int64 `(N,)`, decided states whose greedy position is in S1.
        in_map: int64 `(N,)`, decided states whose greedy position (largest margin) lies inside the map.
    """

    strategy: str
    solved: NDArray[np.bool_]
    steps_before_error: NDArray[np.int64]
    forced: NDArray[np.int64]
    in_map: NDArray[np.int64]

    @property
    def greedy_forced(self) -> float:
        """Share of greedy positions inside the map that are definite, over all live states; NaN without any."""
        return float(self.forced.sum() / self.in_map.sum()) if self.in_map.sum() else float("nan")

    def summary(self) -> dict[str, float]:
        """The metrics of the table; `solved_ci95` is the half-width of a normal 95 % interval over puzzles."""
        return {
            "solved": float(self.solved.mean()),
            "solved_ci95": rate_ci95(self.solved),
            "greedy_forced": self.greedy_forced,
            "steps_before_error": float(self.steps_before_error.mean()),
        }


def greedy_in_forced(record: Rollout) -> tuple[torch.Tensor, torch.Tensor]:
    """Where the greedy position is in S1, and where it lies inside the map: bool `(T, K)` each, false where ended."""
    states = torch.arange(len(record.greedy), device=record.greedy.device)
    forced = record.definite[states, record.greedy]
    in_map = record.problems.judged[record.problem_of, record.greedy]
    visited = record.state_of.clamp_min(0)
    return forced[visited] & record.live, in_map[visited] & record.live


def evaluate(
    model: nn.Module,
    problems: Sequence[Any],
    task: UnmaskTask,
    *,
    strategy: Strategy = STRATEGIES["margin"],
    policy: PolicyConfig | None = None,
    seed: int = 0,
    batch_size: int = 512,
    device: torch.device | str = "cpu",
) -> Evaluation:
    """Decode each problem once.

    Args:
        model: A model as `dllm_rl.policy.score_states` takes it.
        problems: The N problems to decode.
        task: What kind of problems they are.
        strategy: How positions and tokens are chosen.
        policy: Temperatures, for the strategies that draw.
        seed: Random seed of the strategies that draw.
        batch_size: Problems decoded together.
        device: Where the model is.

    Raises:
        ValueError: There is no problem.
    """
    if not problems:
        raise ValueError("cannot evaluate on no problems")
    generator = torch.Generator(device=device).manual_seed(seed)
    parts = []
    for first in range(0, len(problems), batch_size):
        batch = task.batch(problems[first : first + batch_size]).to(device)
        record = rollout(model, batch, policy=policy, strategy=strategy, generator=generator)
        forced, in_map = greedy_in_forced(record)
        columns = (record.solved, record.steps_before_error, forced.sum(1), in_map.sum(1))
        parts.append([column.cpu().numpy() for column in columns])
    return Evaluation(strategy.name, *(np.concatenate(column) for column in zip(*parts, strict=True)))


def compare(evaluations: dict[str, dict[str, Evaluation]], floor: float) -> "pd.DataFrame":
    """The closing table: one row a model, solve rate by each strategy and the order metrics of margin decoding.

    Args:
        evaluations: Model name → strategy name → evaluation; "margin" must be there.
        floor: `greedy_forced` of filling cells correctly in random order.

    Returns:
        A frame indexed by model name, rates in percent.

    Raises:
        ModuleNotFoundError: pandas is not installed.
    """
    rows = {}
    for model, by_strategy in evaluations.items():
        row = {f"solved {name} %": 100 * result.solved.mean() for name, result in by_strategy.items()}
        margin = by_strategy["margin"]
        row["greedy_forced %"] = 100 * margin.greedy_forced
        row["(random floor)"] = 100 * floor
        row["steps before error"] = margin.steps_before_error.mean()
        rows[model] = row
    return load_pandas().DataFrame.from_dict(rows, orient="index")


def paired_difference(first: Solved, second: Solved) -> tuple[float, float]:
    """Difference of solve rates, first - second, and the half-width of its 95 % interval, paired over puzzles.

    The interval covers the choice of puzzles, not the training seed.

    Raises:
        ValueError: The evaluations cover different numbers of puzzles.
    """
    return _paired(first.solved.astype(float), second.solved.astype(float))


def paired_order_difference(first: Evaluation, second: Evaluation) -> tuple[float, float]:
    """Difference of `greedy_forced`, first - second, and its interval by the delta method (`ratio_contributions`).

    Raises:
        ValueError: The evaluations cover different numbers of puzzles.
    """
    return _paired(ratio_contributions(first.forced, first.in_map), ratio_contributions(second.forced, second.in_map))


def _paired(first: NDArray[np.float64], second: NDArray[np.float64]) -> tuple[float, float]:
    if len(first) != len(second):
        raise ValueError(f"evaluations of {len(first)} and {len(second)} puzzles cannot be paired")
    difference = first - second
    return float(difference.mean()), 1.96 * float(difference.std() / np.sqrt(len(difference)))
