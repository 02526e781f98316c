"""`report.html` of a run: what was run, tables, curves and replays of decodes in one file that fetches nothing."""

from sudoku_dllm.run_page.curves import loss_curve
from sudoku_dllm.run_page.page import PAGE, Curve, Page, Replay, Table, Text, replays_of_json
from sudoku_dllm.run_page.replays import chosen, replay_in

__all__ = [
    "PAGE",
    "Curve",
    "Page",
    "Replay",
    "Table",
    "Text",
    "chosen",
    "loss_curve",
    "replay_in",
    "replays_of_json",
]
