"""What a run logged, read back."""

import json
from pathlib import Path

import pandas as pd


def read_json_lines(path: str | Path) -> pd.DataFrame:
    """A JSON-lines file as a frame, one row a line."""
    return pd.DataFrame([json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()])
