import numpy as np
import pytest

from sudoku_env import SudokuText
from sudoku_env.chat.expert import expert_rows


@pytest.mark.parametrize("size", [4, 9])
def test_the_calls_of_a_row_solve_its_puzzle_with_the_results_that_it_tells(size: int) -> None:
    for row in expert_rows(2, size=size, seed=3):
        game = SudokuText(size=size, tools=True)
        game.reset(options={"puzzle": row["puzzle"]})
        calls = [message["tool_calls"] for message in row["completion"] if message["role"] == "assistant"]
        told = [message["content"] for message in row["completion"] if message["role"] == "tool"]
        results = [game.place(**call["function"]["arguments"]) for (call,) in calls]
        assert game.score == 1.0 and results[:-1] == told
        assert len(calls) == int((game.info()["puzzle"] == 0).sum())
        assert row["prompt"][0]["content"].count("call") and row["completion"][-1]["role"] == "assistant"


def test_reasons_stand_before_the_calls_or_not() -> None:
    with_reasons, without = (expert_rows(1, size=4, reasons=reasons)[0] for reasons in (True, False))
    first = with_reasons["completion"][0]
    assert f"{first['tool_calls'][0]['function']['arguments']['digit']}" in first["content"]
    assert {message["content"] for message in without["completion"] if message["role"] == "assistant"} == {""}
    assert np.array_equal(with_reasons["puzzle"], without["puzzle"])
