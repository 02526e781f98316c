import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudoku_env import build_prompt, format_board, parse_board
from sudoku_env.errors import BoardError
from sudoku_env.scoring import exact_score, partial_score
from tests.helpers.refusals import refused

PUZZLE = "1..4|..12|21..|.3.."  # 9 blanks
SOLUTION = "1234341221434321"
GRID = "1 2 3 4\n3 4 1 2\n2 1 4 3\n4 3 2 1"
ARRAY = GRID.replace(" ", " & ").replace("\n", " \\\\\n")
ONE_WRONG = "1 2 3 4\n3 4 1 2\n2 1 4 3\n4 3 1 1"
HALF = "1 2 3 4\n. . 1 2\n2 1 . .\n. 3 . ."  # two of the blanks filled

ANSWERS = {
    "a code fence": (f"Here it is:\n```text\n{GRID}\n```\nDone.", 1.0, 1.0),
    "a fence of a language": (f"```python\ngrid = [[1,2,3,4],[3,4,1,2],[2,1,4,3],[4,3,2,1]]\n```\n{GRID}", 1.0, 1.0),
    "a box in one line": (f"\\boxed{{{SOLUTION}}}", 1.0, 1.0),
    "a box of rows": (f"\\boxed{{\n{GRID}\n}}", 1.0, 1.0),
    "a box around an array": (f"$$\\boxed{{\\begin{{array}}{{cccc}}\n{ARRAY}\n\\end{{array}}}}$$", 1.0, 1.0),
    "an answer tag": (f"<think>{ONE_WRONG}</think><answer>\n{GRID}\n</answer>", 1.0, 1.0),
    "the puzzle again": (format_board(PUZZLE), 0.0, 0.0),
    "the prompt again": (build_prompt(PUZZLE), 0.0, 0.0),
    "the puzzle in a fence": (f"```\n{format_board(PUZZLE)}\n```", 0.0, 0.0),
    "the puzzle with zeros": (format_board(PUZZLE, blank="0"), 0.0, 0.0),
    "one cell wrong": (ONE_WRONG, 0.0, 8 / 9),
    "some cells filled": (HALF, 0.0, 2 / 9),
    "some cells filled, then the puzzle": (f"{HALF}\n\nfrom\n\n{format_board(PUZZLE)}", 0.0, 2 / 9),
    "full, then some cells filled": (f"{GRID}\n\nI had\n\n{HALF}", 1.0, 1.0),
    "a given changed": (GRID.replace("1 2 3 4\n3", "4 2 3 1\n3"), 0.0, 0.0),
    "a given dropped": (HALF.replace("1 2 3 4", ". 2 3 4"), 0.0, 0.0),
    "no grid": ("I cannot tell.", 0.0, 0.0),
    "nothing": (None, 0.0, 0.0),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_answers(name):
    text, exact, partial = ANSWERS[name]
    assert exact_score(text, PUZZLE) == exact
    assert partial_score(text, PUZZLE) == pytest.approx(partial)
    assert exact_score(text, PUZZLE, SOLUTION) == exact


def test_only_the_puzzle_is_refused():
    refused("more than one solution", lambda: partial_score(GRID, "1...|....|....|...."), BoardError)
    refused("no blank", lambda: partial_score(GRID, SOLUTION), BoardError)


FRAGMENTS = st.sampled_from(
    [*(text for text, _, _ in ANSWERS.values() if text), "```", "\\boxed{", "}", "<answer>", "</answer>", "\n", "1 2 3"]
)
TEXTS = st.lists(st.one_of(FRAGMENTS, st.text(max_size=20), st.text(string.digits + ". \n|", max_size=40)), max_size=6)


@settings(max_examples=150)
@given(TEXTS)
def test_no_text_raises_and_scores_agree(parts):
    text = "".join(parts)
    exact, partial = exact_score(text, PUZZLE, SOLUTION), partial_score(text, PUZZLE, SOLUTION)
    assert exact in (0.0, 1.0) and 0.0 <= partial <= 1.0
    assert (exact == 1.0) == (partial == 1.0)


@settings(max_examples=100)
@given(st.lists(st.sampled_from(range(9)), unique=True), st.sampled_from(["{}", "```\n{}\n```", "x\n\n{}\n\ny"]))
def test_partial_counts_the_cells_filled(filled, frame):
    board, right = parse_board(PUZZLE), parse_board(SOLUTION)
    blanks = (board == 0).nonzero()[0]
    board[blanks[filled]] = right[blanks[filled]]
    text = frame.format(format_board(board))
    assert partial_score(text, PUZZLE, SOLUTION) == pytest.approx(len(filled) / 9)
    assert exact_score(text, PUZZLE, SOLUTION) == float(len(filled) == 9)
