"""Two training folders, compared bit for bit, times excluded. Nothing is unpickled."""

import filecmp
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sudoku_dllm.kill_test.moments import file_names
from sudoku_dllm.kill_test.reading import UnreadableError, UnsupportedError, read

TIMES = ("*time", "*time_*", "*seconds*", "*per_second*")
"""Fields that the clock decides."""
NEVER_COMPARED = ("training_args.bin", "*manifest*.json", "*.lock", "*.holder.json")
"""Files that hold the folder's name, other files' checksums, or the process that wrote them."""
_PARTS = {
    "completions": ("*completions*",),
    "log": ("*trainer_state.json", "*.jsonl", "*log*.json", "*metrics*.json"),
    "random state": ("*rng_state*",),
    "optimizer": ("*optimizer*",),
    "schedule": ("*scheduler*",),
    "weights": ("*model*.safetensors", "*model*.bin"),
    "other": ("*",),
}
_STEP = re.compile(r"checkpoint-(\d+)/|_(\d+)\.[a-z]+$")


@dataclass(frozen=True)
class Difference:
    """Something that two runs do not share.

    Attributes:
        part: What it belongs to: "completions", "log", "random state", "optimizer", "schedule", "weights" or "other".
        file: The file's path within the folders.
        step: The step of the log line or the checkpoint; None: at the end.
        name: The name of the field or tensor within the file.
        expected: What the first run has.
        found: What the second has.
        largest: The largest absolute difference; None: not of numbers of the same shape.
    """

    part: str
    file: str
    step: int | None
    name: str
    expected: str
    found: str
    largest: float | None

    def __str__(self) -> str:
        where = "at the end" if self.step is None else f"step {self.step}"
        return f"{where}, {self.file}: {self.name} {self.expected} | {self.found}"


@dataclass
class Part:
    """What was compared of one part of two runs: how many files, and how many of them differ."""

    files: int = 0
    different: int = 0
    first: Difference | None = None  # that of the lowest step
    largest: float | None = None  # absolute, of all


@dataclass
class Comparison:
    """Two training folders beside each other: what was compared, by name, and which files were not."""

    parts: dict[str, Part] = field(default_factory=dict)
    left_over: tuple[str, ...] = ()  # files and folders that only the second one has
    not_compared: tuple[str, ...] = ()

    @property
    def first(self) -> Difference | None:
        """The difference of the lowest step; None: both are the same bit for bit."""
        found = [part.first for part in self.parts.values() if part.first is not None]
        return min(found, key=_order, default=None)


def compare_runs(expected: Path, found: Path, ignore: Sequence[str] = ()) -> Comparison:
    """Compare all files of two training folders whose format is known: safetensors, torch, JSON, JSON lines, parquet.

    Fields that fit a pattern of `ignore` may differ, as those of `TIMES` may.
    """
    result, skipped = Comparison(), set[str]()
    ours = {name for name in file_names(expected)}
    for name in sorted(ours):
        part = next(part for part, patterns in _PARTS.items() if any(fnmatch(name, pattern) for pattern in patterns))
        try:
            differences = list(_compare_files(expected, found, name, part, (*TIMES, *ignore)))
        except UnsupportedError:
            skipped.add(Path(name).name)
            continue
        counted = result.parts.setdefault(part, Part())
        counted.files += 1
        counted.different += bool(differences)
        sizes = [one.largest for one in differences if one.largest is not None]
        counted.largest = max([*sizes, *([counted.largest] if counted.largest is not None else [])], default=None)
        counted.first = min([*differences, *([counted.first] if counted.first else [])], key=_order, default=None)
    tops = {path.name for path in expected.iterdir()} if expected.is_dir() else set()
    extra = {path.name for path in found.iterdir()} - tops if found.is_dir() else set()
    extra |= {name for name in file_names(found) - ours if Path(name).parts[0] in tops and not _is_skipped(name)}
    result.left_over, result.not_compared = tuple(sorted(extra)), tuple(sorted(skipped))
    return result


def _order(difference: Difference) -> tuple[float, int]:
    return float("inf") if difference.step is None else difference.step, list(_PARTS).index(difference.part)


def _is_skipped(name: str) -> bool:
    return any(fnmatch(Path(name).name, pattern) for pattern in NEVER_COMPARED)


def _compare_files(expected: Path, found: Path, name: str, part: str, ignore: Sequence[str]) -> Iterator[Difference]:
    if _is_skipped(name):
        raise UnsupportedError(name)
    first, second = expected / name, found / name
    if second.exists() and filecmp.cmp(first, second, shallow=False):
        return
    ours = read(first, expected)
    digits = _STEP.search(name)
    step = int(digits[1] or digits[2]) if digits else None
    if not second.exists():
        yield Difference(part, name, step, "the file", "is there", "is missing", None)
        return
    try:
        theirs = read(second, found)
    except UnreadableError as error:
        yield Difference(part, name, step, "the file", "can be read", f"cannot: {error}", None)
        return
    walk = _Walk(ignore, lines=part in ("completions", "log"))
    for at, label, one, other in walk.differences(ours, theirs, step, ""):
        yield Difference(part, name, at, label, _short(one), _short(other), _distance(one, other))


@dataclass(frozen=True)
class _Walk:
    """Finds the leaves that differ."""

    ignore: Sequence[str]  # patterns of fields
    lines: bool  # whether a field `step` says where a line belongs

    def differences(
        self, one: Any, other: Any, step: int | None, name: str
    ) -> Iterator[tuple[int | None, str, Any, Any]]:
        """Step, name and both values of each."""
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            step, absent = self._step(one, step), _Absent()
            for key in [*one, *(key for key in other if key not in one)]:
                if any(fnmatch(str(key), pattern) for pattern in self.ignore):
                    continue
                label = f"{name}.{key}" if name else str(key)
                yield from self.differences(one.get(key, absent), other.get(key, absent), step, label)
        elif isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
            for index, (left, right) in enumerate(zip(one, other, strict=False)):
                yield from self.differences(left, right, step, f"{name}[{index}]")
            if len(one) != len(other):
                more = max(one, other, key=len)[min(len(one), len(other))]
                yield self._step(more, step), f"number of entries of {name or 'the file'}", len(one), len(other)
        elif not _same(one, other):
            yield step, name, one, other

    def _step(self, line: Any, otherwise: int | None) -> int | None:
        found = line.get("step") if self.lines and isinstance(line, Mapping) else None
        return found if isinstance(found, int) else otherwise


class _Absent:
    def __repr__(self) -> str:
        return "absent"


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one.dtype == other.dtype and one.shape == other.shape and torch.equal(_bits(one), _bits(other))
    return type(one) is type(other) and repr(one) == repr(other)


def _bits(tensor: Tensor) -> Tensor:
    return tensor.contiguous().flatten().view(torch.uint8)


def _distance(one: Any, other: Any) -> float | None:
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return abs(float(one) - float(other))
    if isinstance(one, Tensor) and isinstance(other, Tensor) and one.shape == other.shape and one.numel():
        return float((one.double() - other.double()).abs().max())
    return None


def _short(value: Any) -> str:
    if isinstance(value, Tensor):
        first = ", ".join(f"{number:.6g}" for number in value.flatten()[:2].double().tolist())
        return f"[{first}{', …' if value.numel() > 2 else ''}]"
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:39]}…"
