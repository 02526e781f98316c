"""`report.html` of a run: what was run, tables, curves and replays of decodes in one file that fetches nothing.

The names here are loaded when they are first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sudoku_dllm.run_page.curves import loss_curve as loss_curve
    from sudoku_dllm.run_page.page import PAGE as PAGE
    from sudoku_dllm.run_page.page import Curve as Curve
    from sudoku_dllm.run_page.page import Page as Page
    from sudoku_dllm.run_page.page import Replay as Replay
    from sudoku_dllm.run_page.page import Table as Table
    from sudoku_dllm.run_page.page import Text as Text
    from sudoku_dllm.run_page.page import replays_of_json as replays_of_json
    from sudoku_dllm.run_page.replays import chosen as chosen
    from sudoku_dllm.run_page.replays import replay_in as replay_in

_HOMES = {
    "Curve": "sudoku_dllm.run_page.page",
    "PAGE": "sudoku_dllm.run_page.page",
    "Page": "sudoku_dllm.run_page.page",
    "Replay": "sudoku_dllm.run_page.page",
    "Table": "sudoku_dllm.run_page.page",
    "Text": "sudoku_dllm.run_page.page",
    "chosen": "sudoku_dllm.run_page.replays",
    "loss_curve": "sudoku_dllm.run_page.curves",
    "replay_in": "sudoku_dllm.run_page.replays",
    "replays_of_json": "sudoku_dllm.run_page.page",
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    """The public name, from the module that it lives in."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = getattr(import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    """What the package offers."""
    return sorted({*globals(), *_HOMES})
