import itertools
import json
import math
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st

from llm_rl.core import MetricAccumulator
from tests.helpers.warm_process import SERVER


def test_by_hand() -> None:
    metrics = MetricAccumulator()
    metrics.add("loss", 1.0, weight=3)
    metrics.add("loss", torch.tensor(5.0, requires_grad=True), weight=torch.tensor(1))
    metrics.add_ratio("clip_frac", 1, 4)
    metrics.add_ratio("clip_frac", torch.tensor([2]), torch.tensor([2]))
    metrics.add_max("peak", -3.0)
    metrics.add_max("peak", -4.0)
    assert metrics.compute() == {"loss": 2.0, "clip_frac": 0.5, "peak": -3.0}
    assert metrics.compute() == {}


@given(
    st.lists(st.tuples(st.floats(-100, 100), st.integers(0, 9)), min_size=1, max_size=30),
    st.lists(st.integers(0, 30), max_size=4),
)
def test_any_split_into_micro_batches_gives_the_same(elements: list[tuple[float, int]], cuts: list[int]) -> None:
    whole, parts = MetricAccumulator(), MetricAccumulator()

    def add(metrics: MetricAccumulator, chunk: list[tuple[float, int]]) -> None:
        weight = sum(w for _, w in chunk)
        mean = sum(v * w for v, w in chunk) / weight if weight else math.nan
        metrics.add("mean", mean, weight)
        metrics.add_ratio("ratio", sum(v * w for v, w in chunk), weight)
        for value, _ in chunk:
            metrics.add_max("max", value)

    add(whole, elements)
    edges = [0, *sorted(min(cut, len(elements)) for cut in cuts), len(elements)]
    for start, end in itertools.pairwise(edges):
        add(parts, elements[start:end])
    expected = whole.compute()
    assert parts.compute() == pytest.approx(expected, abs=1e-9)
    assert ("mean" in expected) == (sum(w for _, w in elements) > 0)


def test_a_mean_of_nothing_is_absent_and_a_nan_is_shown() -> None:
    metrics = MetricAccumulator()
    metrics.add_ratio("empty", 0, 0)
    metrics.add("also_empty", math.nan, weight=0)
    metrics.add("broken", math.nan)
    metrics.add("broken", 1.0)
    metrics.add_max("broken_max", math.nan)
    metrics.add_max("broken_max", 1.0)
    result = metrics.compute()
    assert result.keys() == {"broken", "broken_max"}
    assert all(math.isnan(value) for value in result.values())


def test_sums_are_double_precision() -> None:
    metrics = MetricAccumulator()
    metrics.add_ratio("x", 2.0**24, 1)
    metrics.add_ratio("x", torch.tensor(1.0), 0.0 + 1)
    assert metrics.compute()["x"] == (2.0**24 + 1) / 2


def test_state_dict_round_trip_through_json() -> None:
    metrics, resumed = MetricAccumulator(), MetricAccumulator()
    metrics.add("loss", 0.1, weight=3)
    metrics.add_max("peak", 0.7)
    resumed.add("forgotten", 1.0)
    resumed.load_state_dict(json.loads(json.dumps(metrics.state_dict())))
    for accumulator in (metrics, resumed):
        accumulator.add("loss", 0.2, weight=2)
        accumulator.add_max("peak", 0.5)
    assert resumed.state_dict() == metrics.state_dict()
    assert resumed.compute() == metrics.compute() == {"loss": pytest.approx(0.14), "peak": 0.7}


def test_without_ranks_reduce_changes_nothing() -> None:
    metrics = MetricAccumulator()
    metrics.add("loss", 2.0)
    metrics.reduce()
    metrics.add("loss", 4.0)
    assert metrics.compute() == {"loss": 3.0}


def test_bad_arguments() -> None:
    metrics = MetricAccumulator()
    metrics.add("mean", 1.0)
    metrics.add_max("max", 1.0)
    bad_calls = [
        (lambda: metrics.add("max", 1.0), "another name"),
        (lambda: metrics.add_max("mean", 1.0), "another name"),
        (lambda: metrics.add("x", 1.0, weight=-1), "-1.0"),
        (lambda: metrics.add_ratio("x", 1.0, math.nan), "finite"),
        (lambda: metrics.add_ratio("x", 1.0, 0), "over denominator 0"),
        (lambda: metrics.add("x", torch.zeros(2)), "one element"),
        (lambda: metrics.load_state_dict({"ratios": {}}), "keys"),
    ]
    for call, message in bad_calls:
        with pytest.raises(ValueError, match=message):
            call()
    assert metrics.compute() == {"mean": 1.0, "max": 1.0}


def _rank(rank: int, folder: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    metrics = MetricAccumulator()
    metrics.add("loss", [1.0, 5.0][rank], weight=[3, 1][rank])  # (3 + 5) / 4, not (1 + 5) / 2
    metrics.add_ratio("clip_frac", [0, 2][rank], [0, 4][rank])
    metrics.add_max("peak", [-1.0, -2.0][rank])
    metrics.add_max(f"only_on_{rank}", float(rank))
    metrics.reduce()
    refused = []
    for call in (metrics.reduce, lambda: metrics.add("loss", 1.0), lambda: metrics.add_max("peak", 1.0)):
        try:
            call()
        except ValueError as error:
            refused.append(str(error))
    first = metrics.compute()
    metrics.add("loss", float(rank))
    metrics.reduce()
    result = {"first": first, "second": metrics.compute(), "refused": refused}
    Path(folder, f"{rank}.json").write_text(json.dumps(result))
    dist.destroy_process_group()


def test_reduce_over_two_processes(tmp_path: Path) -> None:
    ranks = [SERVER.Process(target=_rank, args=(rank, str(tmp_path))) for rank in range(2)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(300)
    assert [process.exitcode for process in ranks] == [0, 0]
    for rank in range(2):
        result = json.loads((tmp_path / f"{rank}.json").read_text())
        assert result["first"] == {"loss": 2.0, "clip_frac": 0.5, "peak": -1.0, "only_on_0": 0.0, "only_on_1": 1.0}
        assert result["second"] == {"loss": 0.5}
        assert len(result["refused"]) == 3 and all("compute()" in message for message in result["refused"])
