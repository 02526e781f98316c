"""Curves from the logs of trainings."""

import json
from collections.abc import Mapping
from pathlib import Path

from sudoku_dllm.run_page.page import Curve


def loss_curve(logs: Mapping[str, Path]) -> Curve:
    """The loss of several trainings over the share of their updates; losses may be of different kinds.

    Args:
        logs: Name → a file of JSON lines with "step" and "loss"; files that are not there are left out.
    """
    lines: dict[str, list[tuple[float, float]]] = {}
    for name, path in logs.items():
        if not path.is_file():
            continue
        logged = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        losses = [(line["step"], line["loss"]) for line in logged if isinstance(line.get("loss"), float)]
        last = max((step for step, _ in losses), default=1)
        lines[name] = [(100 * step / last, loss) for step, loss in losses]
    return Curve("Loss", "per cent of an arm's updates; the losses of different arms are of different kinds", lines)
