import asyncio
import math
from typing import Any

import pytest
import torch

from llm_rl.rollout.rewards import RewardError, RewardFunctions
from tests.helpers.refusals import refused

PROMPTS, TEXTS = ["p0", "p1", "p2"], ["a", "bb", "ccc"]
IDS = [[1], [1, 2], [1, 2, 3]]


def length(completions: list[str], **kwargs: Any) -> list[float]:
    return [float(len(text)) for text in completions]


async def slow_length(completions: list[str], **kwargs: Any) -> list[float]:
    await asyncio.sleep(0)
    return [10.0 * len(text) for text in completions]


def sometimes(prompts: list[str], completions: list[str], completion_ids: list[list[int]], wanted: list[int]) -> Any:
    return [None if number == 0 else number + len(ids) for number, ids in zip(wanted, completion_ids, strict=True)]


def call(functions: Any, weights: Any = None, **columns: Any) -> torch.Tensor:
    return RewardFunctions(functions, weights)(PROMPTS, TEXTS, IDS, columns)


def test_several_functions_sync_and_async_with_weights() -> None:
    rewards = RewardFunctions([length, slow_length, sometimes], [1.0, 0.5, 2.0])
    table = rewards(PROMPTS, TEXTS, IDS, {"wanted": [0, 5, 0]})
    expected = torch.tensor([[1, 10, math.nan], [2, 20, 7], [3, 30, math.nan]], dtype=torch.float64)
    torch.testing.assert_close(table, expected, equal_nan=True)
    assert rewards.total(table).tolist() == [6, 2 + 10 + 14, 18]
    assert rewards.names == ["length", "slow_length", "sometimes"]


def test_async_functions_wait_together() -> None:
    started: list[int] = []

    async def waits(completions: list[str], **kwargs: Any) -> list[float]:
        started.append(1)
        while len(started) < 2:  # alone it would never end
            await asyncio.sleep(0)
        return [0.0] * len(completions)

    assert call([waits, waits]).shape == (3, 2)


def test_inside_a_running_loop_and_around_one() -> None:
    def runs_a_loop(completions: list[str], **kwargs: Any) -> list[float]:
        return asyncio.run(slow_length(completions))

    assert call(runs_a_loop).flatten().tolist() == [10, 20, 30]

    async def notebook() -> torch.Tensor:
        return call(slow_length)

    assert asyncio.run(notebook()).flatten().tolist() == [10, 20, 30]


class Judge:
    def __call__(self, completions: list[str], **kwargs: Any) -> torch.Tensor:
        return torch.arange(len(completions))


def test_names_differ_and_objects_and_tensors_do() -> None:
    assert RewardFunctions([length, length, Judge()]).names == ["length_0", "length_1", "Judge"]
    assert call(Judge()).flatten().tolist() == [0, 1, 2]


def fails_on_bb(completions: list[str], **kwargs: Any) -> list[float]:
    return [1 / (len(text) - 2) for text in completions]


async def fails_later(completions: list[str], **kwargs: Any) -> list[float]:
    return fails_on_bb(completions)


@pytest.mark.parametrize("function", [fails_on_bb, fails_later])
def test_an_exception_names_function_and_sample(function: Any) -> None:
    match = rf"'{function.__name__}' raised ZeroDivisionError: .* on sample 1 \(prompt …'p1', completion 'bb'\)"
    with pytest.raises(RewardError, match=match) as caught:
        call([length, function])
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_an_exception_of_the_batch_alone_says_so() -> None:
    def only_together(completions: list[str], **kwargs: Any) -> list[float]:
        if len(completions) > 1:
            raise OSError("busy")
        return [0.0]

    with pytest.raises(RewardError, match="'only_together' raised OSError: busy on the batch, though on no sample"):
        call(only_together)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ([1.0, 2.0], "'given' returned 2 rewards for 3 completions"),
        ([1.0] * 4, "'given' returned 4 rewards for 3 completions; return one for each"),
        ([1.0, math.nan, 2.0], r"returned nan for sample 1 \(prompt …'p1'"),
        ([1.0, 2.0, math.inf], "returned inf for sample 2"),
        ([1.0, -2e15, 3.0], r"returned -2000000000000000.0 for sample 1 .* at most 1e\+15 in magnitude"),
        ([1.0, "good", 2.0], "returned 'good' for sample 1"),
        ([1.0, "1", 2.0], "returned '1' for sample 1 .* return a finite number"),
        (3.0, "returned a float; it must return a list"),
        ([1.0, None, 2.0], r"no reward function of \['given'\] applies to sample 1"),
    ],
)
def test_wrong_outputs(output: Any, message: str) -> None:
    def given(**kwargs: Any) -> Any:
        return output

    refused(message, lambda: call(given), RewardError)


def test_the_state_and_a_way_to_log_go_to_functions_that_take_them() -> None:
    noted: list[tuple[str, float]] = []

    def by_name(
        prompts: list[str], completions: list[str], completion_ids: list[list[int]], trainer_state: Any
    ) -> list[float]:
        return [float(trainer_state)] * len(completions)

    def by_keywords(completions: list[str], **kwargs: Any) -> list[float]:
        kwargs["log_metric"]("mean_length", 2.0)
        return [float(kwargs["trainer_state"] + len(kwargs))] * len(completions)

    def neither(prompts: list[str], completions: list[str], completion_ids: list[list[int]]) -> list[float]:
        return [1.0] * len(completions)

    def fails(completions: list[str], trainer_state: Any, **kwargs: Any) -> list[float]:
        return [1 / (len(text) - trainer_state) for text in completions]

    extras = {"trainer_state": 3, "log_metric": lambda name, value: noted.append((name, value))}
    table = RewardFunctions([by_name, by_keywords, neither])(PROMPTS, TEXTS, IDS, {}, extras)
    assert table[0].tolist() == [3, 7, 1] and noted == [("mean_length", 2.0)]
    with pytest.raises(RewardError, match=r"'fails' raised ZeroDivisionError: .* on sample 2"):
        RewardFunctions(fails)(PROMPTS, TEXTS, IDS, {}, extras)


def test_a_sample_that_no_function_scores_may_be_left_out(caplog: pytest.LogCaptureFixture) -> None:
    rewards = RewardFunctions([sometimes, sometimes], leave_out=True)
    table = rewards(PROMPTS, TEXTS, IDS, {"wanted": [0, 5, 0]})
    assert "applies to sample 0 (prompt …'p0', completion 'a') and 1 others of 3; they are left out" in caplog.text
    total = rewards.total(table)
    assert total[1] == 14 and total[[0, 2]].isnan().all()


def test_bad_arguments() -> None:
    refused("pass a callable", lambda: RewardFunctions([]))
    refused("2 entries for 1 reward functions", lambda: RewardFunctions(length, [1.0, 2.0]))
    refused("column 'completions'", lambda: call(length, completions=[1, 2, 3]))
    with pytest.raises(RewardError, match="unexpected keyword argument 'other'"):
        call(sometimes, wanted=[1, 1, 1], other=[1, 1, 1])
