"""Files of a training folder as nested dictionaries and lists, without unpickling what is not plain data."""

import json
import pickle  # nosec B403 # for the name of the error that torch.load raises
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from sudoku_dllm.kill_test.processes import FOLDER

_NUMPY_STATES = [np._core.multiarray._reconstruct, np.ndarray, np.dtype, type(np.dtype(np.uint32))]  # type: ignore[attr-defined]


class UnsupportedError(ValueError):
    """The file's format is none that can be compared."""


class UnreadableError(ValueError):
    """The file is damaged."""


def read(path: Path, folder: Path) -> Any:
    """Read a file.

    Args:
        path: The file, whose ending says what it is.
        folder: The run's; texts that begin with its path begin with `{folder}` afterwards.

    Returns:
        Dictionaries, lists, tensors, numbers, texts and None in one another.

    Raises:
        UnsupportedError: The ending is none of safetensors, pt, pth, bin, json, jsonl, parquet, or it needs pickle.
        UnreadableError: The file is damaged.
    """
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        if path.suffix in (".pt", ".pth", ".bin"):
            with torch.serialization.safe_globals(_NUMPY_STATES):
                return _plain(torch.load(path, map_location="cpu", weights_only=True))
        if path.suffix == ".json":
            return _relative(json.loads(path.read_text(encoding="utf-8")), str(folder))
        if path.suffix == ".jsonl":
            lines = path.read_text(encoding="utf-8").splitlines()
            return [_relative(json.loads(line), str(folder)) for line in lines]
        if path.suffix == ".parquet":
            return _rows(path)
    except pickle.UnpicklingError as error:
        raise UnsupportedError(f"{path.name} needs pickle") from error
    except (SafetensorError, RuntimeError, EOFError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UnreadableError(f"{path.name}: {error}") from error
    raise UnsupportedError(path.name)


def _plain(value: Any) -> Any:
    """Arrays as tensors, within dictionaries and lists."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return torch.from_numpy(np.array(value)) if isinstance(value, np.ndarray) else value


def _relative(value: Any, folder: str) -> Any:
    if isinstance(value, dict):
        return {key: _relative(item, folder) for key, item in value.items()}
    if isinstance(value, list):
        return [_relative(item, folder) for item in value]
    return FOLDER + value.removeprefix(folder) if isinstance(value, str) and value.startswith(folder) else value


def _rows(path: Path) -> list[dict[str, Any]]:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise UnsupportedError(f"{path.name} needs pyarrow") from error
    return parquet.read_table(path).to_pylist()
