"""The head of a model card, in the form that hubs read: licence, library, tags, and figures with their data sets."""

from collections.abc import Sequence
from typing import NamedTuple

from huggingface_hub import EvalResult, ModelCardData

TASK = "fill-mask"


class Figure(NamedTuple):
    """A figure of a model.

    Attributes:
        data: The name of the data set.
        metric: What was measured, e.g. "solved by margin, 1 token a step".
        value: Per cent.
    """

    data: str
    metric: str
    value: float


def card_head(name: str, figures: Sequence[Figure], library: str = "transformers") -> str:
    """YAML between two lines of dashes, with which a model's README.md begins.

    Args:
        name: Name of the model.
        figures: What is known of it.
        library: What loads it.
    """
    results = [
        EvalResult(
            task_type=TASK,
            dataset_type="sudoku",
            dataset_config=figure.data,
            dataset_name=figure.data,
            metric_type="accuracy",
            metric_name=figure.metric,
            metric_value=round(figure.value, 1),
        )
        for figure in figures
    ]
    data = ModelCardData(
        license="apache-2.0",
        library_name=library,
        pipeline_tag=TASK,
        tags=["masked-diffusion", "llada", "sudoku"],
        model_name=name,
        eval_results=results,
    )
    return f"---\n{data.to_yaml()}\n---\n\n"
