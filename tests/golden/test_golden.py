"""Each trainer's run of few updates comes out as when its values were committed, within float64's rounding."""

import json
from pathlib import Path

import pytest

from tests.golden.compare import VALUES
from tests.golden.runs import RUNS, golden

COMMITTED = json.loads(VALUES.read_text())


@pytest.mark.parametrize("name", RUNS)
def test_a_run_of_few_updates_comes_out_as_committed(name: str, tmp_path: Path) -> None:
    found, known = golden(RUNS[name](tmp_path)), COMMITTED[name]
    assert found.losses == pytest.approx(known["losses"], rel=1e-7, abs=1e-9)
    assert found.norms == pytest.approx(known["norms"], rel=1e-7, abs=1e-9)
    assert found.squares == pytest.approx(known["squares"], rel=1e-7)


def test_values_are_committed_of_every_run_and_of_no_other() -> None:
    assert set(COMMITTED) == set(RUNS)
