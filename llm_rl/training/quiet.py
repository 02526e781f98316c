"""Libraries that say nothing between the lines of a script."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from transformers.utils import logging as transformers_logging


@contextmanager
def without_bars() -> Iterator[None]:
    """A section without the bars of loading and saving."""
    shown = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            transformers_logging.enable_progress_bar()


def quiet_libraries() -> None:
    """No progress bars of loading, no hints of transformers and accelerate, no warning of one library of another."""
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    logging.getLogger("accelerate").setLevel(logging.ERROR)
    # PEFT asks a model by transformers' old name whether it recomputes activations.
    warnings.filterwarnings("ignore", message="`is_gradient_checkpointing` is deprecated", category=FutureWarning)
