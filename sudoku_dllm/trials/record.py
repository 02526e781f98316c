"""What a study keeps of its jobs: a folder for each while it runs, or two files for all of them.

A job is a training with one seed, or a model that is only judged. It is named by its place in the study, the seed last:
`few_examples/sft/seed0` is arm `few_examples/sft` with seed 0. It has a result (what was set, what was spent, means)
and, where problems are judged one by one, outcomes (named arrays, each with an entry for every problem).

- While a study runs, a job is the folder of its name: `result.json` and `outcomes.npz`.
- `pack` keeps a study as `records.jsonl`, one line a job, and `outcomes.npz`: `few_examples/sft/test/margin/solved` is
  outcome `test/margin/solved` of that arm, with a row for each of its lines in `records.jsonl`, in their order.

`Records` reads both.
"""

import json
import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llm_rl.training.storage import save_arrays, write_text_whole

RESULT, RECORDS, OUTCOMES = "result.json", "records.jsonl", "outcomes.npz"
JOB = re.compile(r"(.+)/seed(\d+)")


def job_name(*names: str, seed: int) -> str:
    """The name of a job, and its folder in the study.

    Args:
        names: What leads to it, the arm last.
        seed: Its random seed.
    """
    return "/".join([*names, f"seed{seed}"])


def arm_of(job: str) -> str:
    """The name of a job without its seed."""
    return arm_and_seed(job)[0]


def write_job(folder: Path, result: Mapping[str, Any], outcomes: Mapping[str, NDArray[Any]]) -> None:
    """Write a job to its folder, whole or not at all: it is there once it has a `result.json`.

    Args:
        folder: The job's folder.
        result: What JSON can hold.
        outcomes: Name → array with an entry for each problem; may be empty.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if outcomes:
        save_arrays(folder / OUTCOMES, outcomes)
    write_text_whole(folder / RESULT, json.dumps(result, indent=2))


class Records:
    """The jobs of a study that are done, in folders or packed; where a job is both, its folder counts.

    Args:
        folder: The study's folder, which may be missing or empty.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._packed: dict[str, dict[str, Any]] = {}
        if (path := folder / RECORDS).is_file():
            with path.open(encoding="utf-8") as lines:
                for record in map(json.loads, lines):
                    self._packed[record.pop("job")] = record

    def jobs(self) -> list[str]:
        """The jobs that are there now, by arm and seed."""
        folders = [path.parent.relative_to(self.folder).as_posix() for path in self.folder.rglob(RESULT)]
        return sorted({*self._packed, *filter(JOB.fullmatch, folders)}, key=arm_and_seed)

    def result(self, job: str) -> dict[str, Any] | None:
        """The result of a job; None as long as there is none."""
        path = self.folder / job / RESULT
        if path.is_file():
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            return found
        return self._packed.get(job)

    def results(self) -> dict[str, dict[str, Any]]:
        """The results that are there now, by job, in the order of `jobs`."""
        return {job: found for job in self.jobs() if (found := self.result(job))}

    def outcomes(self, job: str) -> dict[str, NDArray[Any]]:
        """The outcomes of a job that has a result: name → array; empty where none were kept."""
        folder = self.folder / job
        if (folder / RESULT).is_file():
            return _arrays_in(folder)
        start = f"{arm_of(job)}/"
        row = [other for other in self._packed if arm_of(other) == arm_of(job)].index(job)
        return {name.removeprefix(start): rows[row] for name, rows in self._arrays.items() if name.startswith(start)}

    @cached_property
    def _arrays(self) -> dict[str, NDArray[Any]]:
        return _arrays_in(self.folder)


def _arrays_in(folder: Path) -> dict[str, NDArray[Any]]:
    if not (folder / OUTCOMES).is_file():
        return {}
    with np.load(folder / OUTCOMES) as arrays:
        return dict(arrays)


def pack(study: Path, target: Path) -> int:
    """Write the jobs of a study to `records.jsonl` and `outcomes.npz`, in place of those that are there.

    Integers become the smallest type that holds them; nothing else changes.

    Args:
        study: Folder of the study, which is left as it is.
        target: Folder to write to.

    Returns:
        The number of jobs.

    Raises:
        FileNotFoundError: The study has no job that is done.
        ValueError: The seeds of an arm have other outcomes than each other, or of other problems.
    """
    records = Records(study)
    jobs = records.jobs()
    if not jobs:
        raise FileNotFoundError(f"{study} has no job with a {RESULT} and no {RECORDS}; give the folder of a study")
    by_arm: dict[str, list[dict[str, NDArray[Any]]]] = {}
    for job in jobs:
        by_arm.setdefault(arm_of(job), []).append(records.outcomes(job))
    arrays: dict[str, NDArray[Any]] = {}
    for arm, each in by_arm.items():
        shapes = [{name: values.shape for name, values in outcomes.items()} for outcomes in each]
        if any(shape != shapes[0] for shape in shapes):
            raise ValueError(f"{study}: the seeds of {arm} have different outcomes; pack studies of one setting alone")
        arrays |= {f"{arm}/{name}": _smallest(np.stack([outcomes[name] for outcomes in each])) for name in each[0]}
    lines = [json.dumps({"job": job, **(records.result(job) or {})}, ensure_ascii=False) + "\n" for job in jobs]
    target.mkdir(parents=True, exist_ok=True)
    if arrays:
        save_arrays(target / OUTCOMES, arrays)
    else:
        (target / OUTCOMES).unlink(missing_ok=True)
    write_text_whole(target / RECORDS, "".join(lines))
    return len(jobs)


def arm_and_seed(job: str) -> tuple[str, int]:
    """The name of a job without its seed, and its seed."""
    found = JOB.fullmatch(job)
    assert found is not None, f"{job} does not end in a seed, as in arm/seed0"
    return found[1], int(found[2])


def _smallest(values: NDArray[Any]) -> NDArray[Any]:
    """Integers in the smallest type that holds them all; what is no integer as it is."""
    if values.dtype.kind not in "iu" or not values.size:
        return values
    kinds = (np.iinfo(code) for code in "BbHhIiQq")
    return values.astype(next(kind.dtype for kind in kinds if kind.min <= values.min() and values.max() <= kind.max))
