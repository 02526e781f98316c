"""A study's records: in folders while it runs, and packed in two files."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sudoku_dllm.trials.record import OUTCOMES, RECORDS, RESULT, Records, job_name, pack, write_job
from tests.helpers.refusals import refused

NUMBERS = [0.1, 1 / 3, 5e-324, 1.7976931348623157e308]
"""Floats of which one digit less would be another number."""


def outcomes(seed: int) -> dict[str, NDArray[Any]]:
    return {
        "test/margin k=4/solved": np.arange(5) % 2 == seed % 2,
        "test/margin ≥2/passes": np.arange(5) + 10 * seed,
        "share": np.array(NUMBERS) / (seed + 1),
    }


def write_study(folder: Path) -> dict[str, tuple[dict[str, Any], dict[str, NDArray[Any]]]]:
    """Two regimes, seeds of one and of two digits, and a base that has an outcome of its own."""
    jobs = {}
    for regime in ("few", "many"):
        base: dict[str, Any] = {**outcomes(0), "test/oracle/solved": np.ones(5, bool)}
        jobs[job_name(regime, "base", seed=0)] = ({"arm": "base", "spent": None}, base)
        for seed in (2, 10):
            result = {"arm": "sft", "seed": seed, "label": "≥\u20282", "numbers": NUMBERS, "nested": {"b": 1, "a": 2}}
            jobs[job_name(regime, "sft", seed=seed)] = (result, outcomes(seed))
    for job, (result, found) in jobs.items():
        write_job(folder / job, result, found)
    return jobs


def check(records: Records, jobs: dict[str, tuple[dict[str, Any], dict[str, NDArray[Any]]]]) -> None:
    assert records.jobs() == list(jobs)
    for job, (result, found) in jobs.items():
        assert json.dumps(records.result(job)) == json.dumps(result)
        kept = records.outcomes(job)
        assert list(kept) == list(found)
        for name, values in found.items():
            np.testing.assert_array_equal(kept[name], values)
            assert kept[name].dtype.kind in {"i": "iu"}.get(values.dtype.kind, values.dtype.kind)


def test_a_packed_study_has_what_its_folders_have(tmp_path) -> None:
    jobs = write_study(tmp_path / "runs")
    check(Records(tmp_path / "runs"), jobs)
    assert pack(tmp_path / "runs", tmp_path / "data" / "study") == len(jobs)
    assert {path.name for path in (tmp_path / "data" / "study").iterdir()} == {RECORDS, OUTCOMES}
    check(Records(tmp_path / "data" / "study"), jobs)


def test_an_array_has_a_row_for_each_line_of_its_arm(tmp_path) -> None:
    write_study(tmp_path / "runs")
    pack(tmp_path / "runs", tmp_path)
    lines = [json.loads(line) for line in (tmp_path / RECORDS).read_text("utf-8").split("\n") if line]
    assert [line["job"] for line in lines if line["arm"] == "sft"][:2] == ["few/sft/seed2", "few/sft/seed10"]
    with np.load(tmp_path / OUTCOMES) as arrays:
        passes = arrays["few/sft/test/margin ≥2/passes"]
        assert passes.tolist() == [[20, 21, 22, 23, 24], [100, 101, 102, 103, 104]]
        assert passes.dtype == np.uint8 and arrays["few/base/test/oracle/solved"].shape == (1, 5)


def test_integers_take_the_smallest_type_that_holds_them_all(tmp_path) -> None:
    kept = {"small": [0, 255], "signed": [-1, 127], "wide": [-1, 255], "long": [-5, 2**40]}
    write_job(tmp_path / "runs" / "a/seed0", {}, {name: np.array(values) for name, values in kept.items()})
    pack(tmp_path / "runs", tmp_path)
    found = Records(tmp_path).outcomes("a/seed0")
    assert {name: values.tolist() for name, values in found.items()} == kept
    assert [str(values.dtype) for values in found.values()] == ["uint8", "int8", "int16", "int64"]


def test_packing_again_replaces_what_was_packed_and_keeps_the_folders(tmp_path) -> None:
    jobs = write_study(tmp_path)
    pack(tmp_path, tmp_path)
    jobs["few/sft/seed2"] = ({"arm": "another"}, outcomes(7))
    write_job(tmp_path / "few/sft/seed2", *jobs["few/sft/seed2"])
    check(Records(tmp_path), jobs)  # the folder counts
    pack(tmp_path, tmp_path / "packed")
    check(Records(tmp_path / "packed"), jobs)


def test_results_that_come_while_records_are_read_are_found(tmp_path) -> None:
    records = Records(tmp_path / "runs")
    assert records.jobs() == [] and records.result("a/seed0") is None
    write_job(tmp_path / "runs" / "a/seed0", {"updates": 1}, {})
    assert records.jobs() == ["a/seed0"] and records.result("a/seed0") == {"updates": 1}
    assert records.outcomes("a/seed0") == {}


# Outcomes take their name by the one; the other keeps the result.
@pytest.mark.parametrize("step", ["replace", "fsync"])
def test_a_job_is_not_there_before_all_of_it_is_written(tmp_path, monkeypatch, step) -> None:
    def full(*args: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(f"llm_rl.training.storage.os.{step}", full)
    refused("no space left", lambda: write_job(tmp_path / "a/seed0", {}, outcomes(0)), OSError)
    assert Records(tmp_path).jobs() == [] and not (tmp_path / "a/seed0" / RESULT).exists()


def test_seeds_of_different_settings_are_not_packed(tmp_path) -> None:
    write_job(tmp_path / "a/seed0", {}, outcomes(0))
    write_job(tmp_path / "a/seed1", {}, {**outcomes(1), "share": np.zeros(3)})
    refused("the seeds of a have different outcomes", lambda: pack(tmp_path, tmp_path / "packed"))
    assert not (tmp_path / "packed").exists()


def test_a_folder_without_results_is_not_packed(tmp_path) -> None:
    with pytest.raises(FileNotFoundError, match=r"has no job with a result\.json and no records"):
        pack(tmp_path, tmp_path / "packed")
