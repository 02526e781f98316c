"""Prompt sets: files with a `prompt` column, each prompt a puzzle in words (the training format of seed 001)."""

import csv
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sudoku_env.errors import PromptSetError

PROMPT_COLUMN = "prompt"


def read_prompts(path: str | Path) -> list[str]:
    """Read the prompts of a set, in order; other columns are ignored.

    Args:
        path: A file whose name ends in `.jsonl` or `.ndjson` (one JSON object a line, empty lines skipped), `.csv`
            (with a header) or `.parquet` (needs `pyarrow`, extra `parquet`). Text is UTF-8.

    Returns:
        At least one prompt.

    Raises:
        FileNotFoundError: There is no such file.
        PromptSetError: Unknown ending, no prompt at all, or a line that is malformed or lacks a prompt. The message
            names the file and the line, for parquet the row, both counted from 1.
    """
    path = Path(path)
    if path.suffix not in _READERS:
        raise PromptSetError(f"{path}: unknown format {path.suffix!r}; use one of {', '.join(_READERS)}")
    if not path.exists():
        raise FileNotFoundError(f"no prompt set at {path}")
    prompts = []
    for where, prompt in _READERS[path.suffix](path):
        if not isinstance(prompt, str) or not prompt.strip():
            raise PromptSetError(f"{path}, {where}: {PROMPT_COLUMN!r} must be a text that is not empty, got {prompt!r}")
        prompts.append(prompt)
    if not prompts:
        raise PromptSetError(f"{path}: no prompts; expected one a line with a {PROMPT_COLUMN!r} column")
    return prompts


def _read_json_lines(path: Path) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise PromptSetError(
                f"{path}, line {number}: not JSON ({error.msg} at character {error.pos + 1})"
            ) from None
        if not isinstance(record, dict) or PROMPT_COLUMN not in record:
            found = f"keys {list(record)}" if isinstance(record, dict) else type(record).__name__
            raise PromptSetError(
                f"{path}, line {number}: expected an object with the key {PROMPT_COLUMN!r}, found {found}"
            )
        yield f"line {number}", record[PROMPT_COLUMN]


def _read_csv(path: Path) -> Iterator[tuple[str, Any]]:
    reader = csv.DictReader(io.StringIO(_text(path), newline=""), strict=True)
    begin = 1
    try:
        if PROMPT_COLUMN not in (reader.fieldnames or []):
            raise PromptSetError(f"{path}, line 1: no column {PROMPT_COLUMN!r} among {reader.fieldnames}")
        begin = reader.line_num + 1
        for record in reader:
            yield f"line {begin}", record[PROMPT_COLUMN]
            begin = reader.line_num + 1
    except csv.Error as error:
        raise PromptSetError(f"{path}, line {begin}: not CSV ({error})") from None


def _read_parquet(path: Path) -> Iterator[tuple[str, Any]]:
    import pandas

    try:
        table = pandas.read_parquet(path)
    except ImportError:
        hint = "parquet needs pyarrow; install it with `pip install 'sudoku-dllm[parquet]'`"
        raise PromptSetError(f"{path}: {hint}") from None
    except ValueError as error:
        raise PromptSetError(f"{path}: not parquet ({error})") from None
    if PROMPT_COLUMN not in table.columns:
        raise PromptSetError(f"{path}: no column {PROMPT_COLUMN!r} among {list(table.columns)}")
    for number, prompt in enumerate(table[PROMPT_COLUMN].tolist(), start=1):
        yield f"row {number}", prompt


def _text(path: Path) -> str:
    data = path.read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise PromptSetError(f"{path}, line {line}: not UTF-8 ({error.reason})") from None


_READERS: dict[str, Callable[[Path], Iterator[tuple[str, Any]]]] = {
    ".jsonl": _read_json_lines,
    ".ndjson": _read_json_lines,
    ".csv": _read_csv,
    ".parquet": _read_parquet,
}
