"""Records on disk without pickle, and folders that are there whole or not at all."""

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PARTIAL = "partial"


def save_record(record: Any, stem: Path) -> None:
    """Write a record to `<stem>.safetensors` (tensors and arrays, bit for bit) and `<stem>.json` (all else).

    Args:
        record: Data classes, dictionaries with string keys, lists, tuples, tensors, arrays, numbers, strings and None,
            in one another; pictures, which become arrays.
        stem: Path without the ending; its folder exists.

    Raises:
        TypeError: The record holds something else.
        OSError: A file cannot be written.
    """
    tensors: dict[str, Tensor] = {}
    tree = _pack(record, "record", tensors)
    save_file(tensors, stem.with_name(stem.name + ".safetensors"))
    stem.with_name(stem.name + ".json").write_text(json.dumps(tree), encoding="utf-8")


def load_record(stem: Path, classes: Sequence[type] = (), device: torch.device | str = "cpu") -> Any:
    """Read what `save_record` wrote.

    Args:
        stem: Path without the ending.
        classes: The data classes that may occur.
        device: Where tensors go.

    Raises:
        FileNotFoundError: A file is missing.
        TypeError: The record names a data class that is not among `classes`.
    """
    tree = json.loads(stem.with_name(stem.name + ".json").read_text(encoding="utf-8"))
    tensors = load_file(stem.with_name(stem.name + ".safetensors"))
    return _unpack(tree, tensors, {kind.__name__: kind for kind in classes}, torch.device(device))


def _pack(value: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (Tensor, np.ndarray)):
        # A clone: safetensors refuses tensors that share memory.
        tensors[name] = torch.as_tensor(np.array(value) if isinstance(value, np.ndarray) else value).cpu().clone()
        tensors[name] = tensors[name].contiguous()
        return {"kind": "tensor" if isinstance(value, Tensor) else "array", "name": name}
    if isinstance(value, (list, tuple)):
        items = [_pack(item, f"{name}.{index}", tensors) for index, item in enumerate(value)]
        return {"kind": "list" if isinstance(value, list) else "tuple", "items": items}
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {"kind": "dict", "items": {key: _pack(item, f"{name}.{key}", tensors) for key, item in value.items()}}
    if is_dataclass(value) and not isinstance(value, type):
        named = {item.name: _pack(getattr(value, item.name), f"{name}.{item.name}", tensors) for item in fields(value)}
        return {"kind": "dataclass", "class": type(value).__name__, "items": named}
    if hasattr(value, "__array_interface__"):  # a PIL.Image
        return _pack(np.asarray(value), name, tensors)
    raise TypeError(f"{name} is a {type(value).__name__}, which a record cannot hold; convert it to tensors or numbers")


def _unpack(tree: Any, tensors: Mapping[str, Tensor], classes: Mapping[str, type], device: torch.device) -> Any:
    if not isinstance(tree, dict):
        return tree
    kind = tree["kind"]
    if kind == "tensor":
        return tensors[tree["name"]].to(device)
    if kind == "array":
        return tensors[tree["name"]].numpy()
    if kind in ("list", "tuple"):
        items = [_unpack(item, tensors, classes, device) for item in tree["items"]]
        return items if kind == "list" else tuple(items)
    named = {key: _unpack(item, tensors, classes, device) for key, item in tree["items"].items()}
    if kind == "dict":
        return named
    if tree["class"] not in classes:
        raise TypeError(f"the record holds a {tree['class']}; add it to classes, now {sorted(classes)}")
    return classes[tree["class"]](**named)


def write_text_whole(path: Path, text: str) -> None:
    """Write a file beside, then rename it, so that a reader finds the old text or the new one."""
    beside = path.with_name(f"{PARTIAL}-{path.name}")
    with beside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """A new folder to write to, which takes its name only when the block has ended without an error.

    Args:
        target: The folder's final name; one that exists is replaced.

    Yields:
        `partial-<name>` beside it. After an error it is removed.
    """
    partial = target.with_name(f"{PARTIAL}-{target.name}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        yield partial
        put_in_place(partial, target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def put_in_place(folder: Path, target: Path) -> None:
    """Give a folder that is complete its final name, once all of it is on the disk."""
    for path in [*folder.rglob("*"), folder]:
        _sync(path)
    if target.exists():
        replaced = folder.with_name(f"{PARTIAL}-replaced-{target.name}")
        shutil.rmtree(replaced, ignore_errors=True)
        target.rename(replaced)
        folder.rename(target)
        shutil.rmtree(replaced, ignore_errors=True)
    else:
        folder.rename(target)
    _sync(target.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def save_figure(figure: "Figure", path: Path) -> None:
    """Write a figure as PNG; an existing file is replaced whole or not at all."""
    partial = path.with_name(path.stem + ".partial.png")
    figure.savefig(partial, dpi=110)
    os.replace(partial, path)


def save_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write named arrays as a compressed .npz; an existing file is replaced whole or not at all."""
    partial = path.with_name(path.stem + ".partial.npz")
    np.savez_compressed(partial, **arrays)  # type: ignore[arg-type]  # names are no options of its
    os.replace(partial, path)
