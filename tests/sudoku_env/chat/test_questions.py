import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudoku_env import Puzzles, SudokuError, generate, parse_puzzle, solve, to_string
from sudoku_env.chat.derivation import derive
from sudoku_env.chat.questions import correct, question_rows
from sudoku_env.chat.rewards import reasoning_reward
from sudoku_env.chat.rows import chat_row
from tests.helpers.refusals import refused

PUZZLE, SOLUTION = "123.341221434.21", "1234341221434321"


def test_a_row_in_full():
    assert question_rows(Puzzles.of([PUZZLE])) == [
        {
            "question": "Complete the 4x4 Sudoku:\n1230\n3412\n2143\n4021",
            "answer": "<REASONING>\nso row 1, column 4 is 4\nso row 4, column 2 is 3\n</REASONING>\n"
            "<RESPONSE>\n1234\n3412\n2143\n4321\n</RESPONSE>",
            "puzzle": PUZZLE,
            "solution": SOLUTION,
        }
    ]


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32), form=st.sampled_from(["full", "brief", "response"]))
def test_the_expert_is_right_and_a_faulty_answer_is_not(seed, form):
    puzzles = generate(2, size=4, rule="singles", seed=seed)
    for row, board in zip(question_rows(puzzles, form), puzzles.boards, strict=True):
        assert (parse_puzzle(row["question"]) == board).all()
        assert row["solution"] == to_string(solve(board))
        assert correct(row["answer"], row)
        assert not correct(chat_row(board, np.random.default_rng(seed), form=form)["rejected"], row)
        if form != "response":
            columns = {name: [row[name]] for name in ("puzzle", "solution")}
            assert reasoning_reward(None, [row["answer"]], **columns) == [1.0]


@pytest.mark.parametrize("form", ["full", "brief"])
def test_the_reasoning_is_that_of_the_ladder(form):
    (row,) = question_rows(Puzzles.of([PUZZLE]), form)
    steps = str(derive(PUZZLE)) if form == "full" else derive(PUZZLE).conclusions
    assert row["answer"].startswith(f"<REASONING>\n{steps}\n</REASONING>\n<RESPONSE>")


@given(st.text(max_size=80))
def test_no_text_raises(answer):
    assert not correct(answer, {"puzzle": PUZZLE, "solution": SOLUTION})


def test_what_cannot_be_asked():
    refused("form 'terse'", lambda: question_rows(Puzzles.of([PUZZLE]), "terse"), SudokuError)
