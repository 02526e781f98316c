"""A model card in the form that hubs read: license, library, tags, and figures with their data sets, then a page."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from huggingface_hub import EvalResult, ModelCardData

from llm_rl.training.storage import write_text_whole
from sudoku_dllm.trials.page import fill

TASK = "fill-mask"


class Figure(NamedTuple):
    """A figure of a model: the name of the data set, what was measured on it, and per cent."""

    data: str
    metric: str  # e.g. "solved by margin, 1 token a step"
    value: float


def save_card(
    folder: Path, page: Path, figures: Sequence[Figure], about: Mapping[str, object], library: str = "transformers"
) -> None:
    """Write a model's README.md: YAML between two lines of dashes, and a page.

    Args:
        folder: The model's folder.
        page: The page with markers.
        figures: What is known of the model.
        about: What stands at the markers; "name" is the model's.
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
        model_name=str(about["name"]),
        eval_results=results,
    )
    write_text_whole(folder / "README.md", f"---\n{data.to_yaml()}\n---\n\n{fill(page, about)}")
