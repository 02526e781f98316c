import numpy as np
import pytest

from sudoku_env import SudokuError, SudokuText
from sudoku_env.chat.expert import expert_rows
from tests.helpers.drawn import near_share
from tests.helpers.refusals import refused


def moves_of(row: dict) -> list[dict]:
    """The one call of each of the assistant's turns."""
    turns = [message["tool_calls"] for message in row["completion"] if message["role"] == "assistant"]
    return [call["function"] for (call,) in turns]


def results_of(row: dict) -> list[str]:
    return [message["content"] for message in row["completion"] if message["role"] == "tool"]


@pytest.mark.parametrize("size", [4, 9])
def test_the_calls_of_a_row_solve_its_puzzle_with_the_results_that_it_tells(size: int) -> None:
    for row in expert_rows(2, size=size, seed=3):
        game = SudokuText(size=size, tools=True)
        game.reset(options={"puzzle": row["puzzle"]})
        moves = moves_of(row)
        results = [game.place(**move["arguments"]) for move in moves]
        assert game.score == 1.0 and results[:-1] == results_of(row)
        assert len(moves) == int((game.info()["puzzle"] == 0).sum())
        assert row["prompt"][0]["content"].count("call") and row["completion"][-1]["role"] == "assistant"


def test_reasons_stand_before_the_calls_or_not() -> None:
    with_reasons, without = (expert_rows(1, size=4, reasons=reasons)[0] for reasons in (True, False))
    first = with_reasons["completion"][0]
    assert f"{first['tool_calls'][0]['function']['arguments']['digit']}" in first["content"]
    assert {message["content"] for message in without["completion"] if message["role"] == "assistant"} == {""}
    assert np.array_equal(with_reasons["puzzle"], without["puzzle"])


def test_a_share_of_digits_is_asked_for_first() -> None:
    """The digits are the same with hints as without, and each hint is what the game says there."""
    plain, hinted = (expert_rows(20, size=4, clues=10, seed=5, hints=share) for share in (0.0, 0.5))
    asked = 0
    for before, after in zip(plain, hinted, strict=True):
        game = SudokuText(size=4, tools=True)
        game.reset(options={"puzzle": after["puzzle"]})
        moves, told = moves_of(after), results_of(after)
        results = [getattr(game, move["name"])(**move["arguments"]) for move in moves]
        assert results[:-1] == told and game.info()["solved"]
        assert [move for move in moves if move["name"] == "place"] == moves_of(before)
        asked += game.info()["hints"]
    assert near_share(asked, 120, 0.5)
    again = expert_rows(20, size=4, clues=10, seed=5)
    assert [row["completion"] for row in again] == [row["completion"] for row in plain]
    refused("hints must be a share from 0 to 1", lambda: expert_rows(1, size=4, hints=1.5), SudokuError)
