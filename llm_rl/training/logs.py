"""What a run logged, read back."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from llm_rl.training.reports import load_pandas

if TYPE_CHECKING:
    import pandas as pd


def read_json_lines(path: str | Path) -> "pd.DataFrame":
    """A JSON-lines file as a frame, one row a line.

    Raises:
        ModuleNotFoundError: pandas is not installed.
    """
    return load_pandas().DataFrame([json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()])
