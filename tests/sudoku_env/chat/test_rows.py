import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudoku_env import Puzzles, SudokuError, default_puzzles, format_board, generate, parse_board, solve, to_string
from sudoku_env.chat.derivation import derive, derive_with_fault
from sudoku_env.chat.rewards import cells_reward, exact_reward, format_reward, reasoning_reward
from sudoku_env.chat.rows import INSTRUCTION, chat_answer, chat_prompt, chat_row, chat_rows
from sudoku_env.prompts.text import TEMPLATES, parse_puzzle
from tests.helpers.refusals import refused

PUZZLE = "123.341221434.21"
CHOSEN = """<REASONING>
Naked single: row 1, column 4 can only be 4 (row 1 holds 1, 2 and 3), so row 1, column 4 is 4.
Naked single: row 4, column 2 can only be 3 (row 4 holds 1, 2 and 4), so row 4, column 2 is 3.
</REASONING>
<RESPONSE>
1 2 3 4
3 4 1 2
2 1 4 3
4 3 2 1
</RESPONSE>"""


def test_an_answer_in_full():
    assert chat_answer(derive(PUZZLE)) == CHOSEN
    assert chat_row(parse_board(PUZZLE), np.random.default_rng(0)) == {
        "prompt": [{"role": "user", "content": f"Complete the 4x4 Sudoku:\n{format_board(PUZZLE)}\n\n{INSTRUCTION}"}],
        "chosen": CHOSEN,
        "rejected": chat_answer(derive_with_fault(PUZZLE, np.random.default_rng(0))),
        "puzzle": PUZZLE,
        "solution": "1234341221434321",
    }


def test_the_short_forms_in_full():
    board, grid = parse_board(PUZZLE), "1234\n3412\n2143\n4321"
    response = f"<RESPONSE>\n{grid}\n</RESPONSE>"
    steps = "so row 1, column 4 is 4\nso row 4, column 2 is 3"
    brief, alone = (chat_row(board, np.random.default_rng(0), form=form) for form in ("brief", "response"))
    assert alone["chosen"] == response
    assert brief["chosen"] == f"<REASONING>\n{steps}\n</REASONING>\n{response}"
    assert brief["prompt"] == alone["prompt"]
    assert brief["prompt"] == [
        {"role": "system", "content": ""},
        {"role": "user", "content": "Complete the 4x4 Sudoku:\n1230\n3412\n2143\n4021"},
    ]
    assert (parse_puzzle(brief["prompt"][-1]["content"]) == board).all()
    full = chat_row(board, np.random.default_rng(0))
    columns = {name: [full[name]] for name in ("puzzle", "solution")}
    for row, rewards in (
        (brief, (cells_reward, exact_reward, reasoning_reward)),
        (alone, (cells_reward, exact_reward)),
    ):
        assert (row["puzzle"], row["solution"]) == (full["puzzle"], full["solution"])
        for reward in rewards:
            assert reward(None, [row["rejected"]], **columns) == reward(None, [full["rejected"]], **columns)
    for reward in (format_reward, reasoning_reward):
        assert reward(None, [brief["chosen"]], **columns) == [1]


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_puzzle_can_be_read_from_the_prompt(template):
    for size in (4, 6):
        board = default_puzzles(size).boards[7]
        (message,) = chat_prompt(board, template)
        assert message["role"] == "user" and (parse_puzzle(message["content"]) == board).all()
        assert all(tag in message["content"] for tag in ("<REASONING>", "</REASONING>", "<RESPONSE>", "</RESPONSE>"))


@settings(max_examples=25)
@given(size=st.sampled_from([4, 6]), seed=st.integers(0, 2**32))
def test_rewards_tell_chosen_from_rejected(size, seed):
    puzzles = generate(2, size=size, rule="singles", seed=seed)
    rows = chat_rows(puzzles, seed)
    columns = {name: [row[name] for row in rows] for name in ("puzzle", "solution")}
    assert columns["solution"] == [to_string(solve(board)) for board in puzzles.boards]
    prompts, chosen, rejected = ([row[name] for row in rows] for name in ("prompt", "chosen", "rejected"))
    for reward in (format_reward, cells_reward, exact_reward, reasoning_reward):
        assert reward(prompts, chosen, **columns) == [1.0, 1.0]
    assert format_reward(prompts, rejected, **columns) == [1.0, 1.0]
    assert exact_reward(prompts, rejected, **columns) == [0.0, 0.0]
    for reward in (cells_reward, reasoning_reward):
        assert all(0 <= value < 1 for value in reward(prompts, rejected, **columns))
    for row in rows:
        assert abs(len(row["rejected"]) / len(row["chosen"]) - 1) < 0.25


def test_rows_depend_on_their_puzzle_the_seed_and_their_number():
    puzzles = default_puzzles(4)
    some = Puzzles(puzzles.boards[:6], puzzles.solutions[:6])
    rows = chat_rows(some, seed=3)
    assert chat_rows(some, seed=3) == rows == json.loads(json.dumps(rows))
    assert chat_rows(Puzzles(some.boards[:4], some.solutions[:4]), seed=3) == rows[:4]
    other = chat_rows(some, seed=4)
    assert [row["chosen"] for row in other] == [row["chosen"] for row in rows]
    assert [row["rejected"] for row in other] != [row["rejected"] for row in rows]
    twice = chat_rows(Puzzles(some.boards[[0] * 12], some.solutions[[0] * 12]), seed=3)
    assert len({row["rejected"] for row in twice}) > 1


def test_what_cannot_be_asked():
    refused("'prose'", lambda: chat_prompt(PUZZLE, "prose"), SudokuError)
    refused("'short'; leave the template out", lambda: chat_prompt(PUZZLE, "short", "brief"), SudokuError)
    refused("form 'terse'; choose one of", lambda: chat_prompt(PUZZLE, form="terse"), SudokuError)
    refused("form 'terse'; choose one of", lambda: chat_answer(derive(PUZZLE), "terse"), SudokuError)
    refused("no blank", lambda: chat_row(parse_board("1234341221434321"), np.random.default_rng(0)), SudokuError)
