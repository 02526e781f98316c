"""The table that closes the main job."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dllm_rl.evaluate import Evaluation
from llm_rl.training.reports import load_pandas

if TYPE_CHECKING:
    import pandas as pd


def closing_table(evaluations: Mapping[str, Mapping[str, Evaluation]], floor: float) -> "pd.DataFrame":
    """One row a model: solve rate by each strategy, and the order metrics of margin decoding.

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
