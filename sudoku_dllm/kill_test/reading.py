"""Files of a training folder as nested dictionaries and lists, without unpickling what is not plain data."""

import json
import pickle  # nosec B403 # for the name of the error that torch.load raises
from collections.abc import Callable
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
    """Read a file, whose ending says what it is: dictionaries, lists, tensors, numbers, texts and None in one another.

    Texts that begin with the path of the run's folder begin with `{folder}` afterwards.

    Raises:
        UnsupportedError: The ending is none of safetensors, pt, pth, bin, json, jsonl, parquet, or it needs pickle.
        UnreadableError: The file is damaged.
    """

    def relative(value: Any) -> Any:
        inside = isinstance(value, str) and value.startswith(str(folder))
        return FOLDER + value.removeprefix(str(folder)) if inside else value

    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        if path.suffix in (".pt", ".pth", ".bin"):
            with torch.serialization.safe_globals(_NUMPY_STATES):
                return _mapped(torch.load(path, map_location="cpu", weights_only=True), _tensor)
        if path.suffix == ".json":
            return _mapped(json.loads(path.read_text(encoding="utf-8")), relative)
        if path.suffix == ".jsonl":
            return [_mapped(json.loads(line), relative) for line in path.read_text(encoding="utf-8").splitlines()]
        if path.suffix == ".parquet":
            return _rows(path)
    except pickle.UnpicklingError as error:
        raise UnsupportedError(f"{path.name} needs pickle") from error
    except (SafetensorError, RuntimeError, EOFError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UnreadableError(f"{path.name}: {error}") from error
    raise UnsupportedError(path.name)


def _tensor(value: Any) -> Any:
    return torch.from_numpy(np.array(value)) if isinstance(value, np.ndarray) else value


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """A value with another one in the place of each leaf of its dictionaries and lists."""
    if isinstance(value, dict):
        return {key: _mapped(item, change) for key, item in value.items()}
    return [_mapped(item, change) for item in value] if isinstance(value, (list, tuple)) else change(value)


def _rows(path: Path) -> list[dict[str, Any]]:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise UnsupportedError(f"{path.name} needs pyarrow") from error
    return parquet.read_table(path).to_pylist()
