"""What the conformance checks compare: nests of dicts, tuples, arrays and numbers, as environments return them."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

GARBAGE = 77


class Returned:
    """Arrays that an environment returned: each is overwritten at once, and must stay as it was overwritten."""

    def __init__(self) -> None:
        self._kept: list[tuple[str, NDArray[Any], NDArray[Any]]] = []

    def take(self, result: Any, when: str) -> None:
        """Overwrite all writable arrays in a result, none of which may share memory with one of an earlier result."""
        new = [(f"{name} of {when}", array) for name, array in arrays_in(result, "result") if array.flags.writeable]
        for name, array in new:
            for earlier, other, _ in self._kept:
                assert not np.shares_memory(array, other), f"shared buffer: {name} is {earlier} again"
        for _, array in new:
            array[...] = ~array if array.dtype.kind == "b" else GARBAGE
        self._kept += [(name, array, array.copy()) for name, array in new]

    def check(self) -> None:
        """Look at all arrays once more: none may have changed."""
        for name, array, kept in self._kept:
            assert np.array_equal(array, kept), f"shared buffer: {name} changed after it was returned"


def info_of(infos: dict[str, Any], row: int) -> dict[str, Any]:
    """One environment's info, without the keys that say which environments have one."""
    return {
        key: row_of(column, row)
        for key, column in infos.items()
        if not key.startswith("_") and (f"_{key}" not in infos or infos[f"_{key}"][row])
    }


def row_of(column: Any, row: int) -> Any:
    """One environment's part of what a vector environment returns as an array or a dict of arrays."""
    return {key: row_of(inner, row) for key, inner in column.items()} if isinstance(column, dict) else column[row]


def arrays_in(value: Any, name: str) -> Iterator[tuple[str, NDArray[Any]]]:
    """All numeric arrays in a nest of dicts, lists and tuples."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        yield name, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from arrays_in(inner, f"{name}[{key!r}]")
    elif isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.dtype == object):
        for index, inner in enumerate(value):
            yield from arrays_in(inner, f"{name}[{index}]")


def assert_same(expected: Any, got: Any, message: str, *, subset: bool = False) -> None:
    """Raise `AssertionError` with the message and the place if the two differ (`difference`)."""
    found = difference(expected, got, "result", subset=subset)
    assert found is None, f"{message} ({found})"


def difference(expected: Any, got: Any, where: str, *, subset: bool = False) -> str | None:
    """Where two nests of dicts, tuples, arrays and numbers differ, or None; `subset` allows more keys in the second."""
    if isinstance(expected, dict) and isinstance(got, dict):
        if missing := expected.keys() - got.keys() if subset else expected.keys() ^ got.keys():
            return f"{where} lacks {sorted(missing)}" if subset else f"{where} has {sorted(missing)} only once"
        pairs = [(expected[key], got[key], f"{where}[{key!r}]") for key in expected]
    elif isinstance(expected, list | tuple) and isinstance(got, list | tuple | np.ndarray):
        if len(expected) != len(got):
            return f"{where} has {len(expected)} and {len(got)} entries"
        pairs = [(one, two, f"{where}[{n}]") for n, (one, two) in enumerate(zip(expected, got, strict=True))]
    else:
        return None if np.array_equal(expected, got) else f"{where}: {expected!r} and {got!r}"
    return next((first for pair in pairs if (first := difference(*pair, subset=subset))), None)
