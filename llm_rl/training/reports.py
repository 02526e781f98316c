"""What tables, pictures and TensorBoard files need beyond training itself: the extra `reports`.

Nothing else imports these libraries, and nothing imports them before a table or a picture is made.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

LIBRARIES = ("pandas", "matplotlib")
REMEDY = "install it with pip install 'sudoku-dllm[reports]'"


def missing_library() -> str | None:
    """A sentence that names a library of tables and pictures that is not installed; None where all are."""
    missing = [name for name in LIBRARIES if find_spec(name) is None]
    return f"tables and pictures need {missing[0]}; {REMEDY}" if missing else None


def load_pandas() -> Any:
    """The module pandas.

    Raises:
        ModuleNotFoundError: It is not installed.
    """
    return _load("pandas", "tables")


def load_pyplot() -> Any:
    """The module `matplotlib.pyplot`, set to write files without a screen.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    _load("matplotlib", "pictures").use("Agg")
    return import_module("matplotlib.pyplot")


def check_tensorboard() -> None:
    """Raises `ModuleNotFoundError` unless tensorboard or tensorboardX is there to write TensorBoard files."""
    if find_spec("tensorboard") is None and find_spec("tensorboardX") is None:
        raise ModuleNotFoundError(f"report_to='tensorboard' needs tensorboard; {REMEDY}, or choose report_to='none'")


def _load(name: str, what: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{what} need {name}; {REMEDY}") from error
