"""`report.html` of a run: what was run, tables, curves and replays of decodes in one file that fetches nothing.

Replays (`sudoku_dllm.run_page.replays`) decode with a model and are imported by themselves: the rest needs no torch.
"""

from sudoku_dllm.run_page.curves import loss_curve
from sudoku_dllm.run_page.page import PAGE, Curve, Page, Replay, Table

__all__ = ["PAGE", "Curve", "Page", "Replay", "Table", "loss_curve"]
