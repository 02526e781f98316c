import dataclasses
import string

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudoku_env.board import SIZES, format_board, parse_board, to_string
from sudoku_env.errors import BoardError
from sudoku_env.generator import generate
from sudoku_env.prompts.scoring import read_answer, score_answer
from sudoku_env.prompts.text import ANSWER_LAYOUTS, build_prompt
from tests.helpers.refusals import refused

PUZZLE = "1..4|..12|21..|.3.."
SOLUTION = parse_board("1234|3412|2143|4321")
OTHER = parse_board("1234|3412|4321|2143")  # as good a grid, but not with a 2 in row 3, column 1
ROWS = "1234\n3412\n2143\n4321"
SPACED = format_board(SOLUTION)
LINE = "1234341221434321"


def numbers(score):
    return score.exact, score.per_cell, score.format, score.givens


READ = {
    "packed": ROWS,
    "spaced": SPACED,
    "windows line ends": ROWS.replace("\n", "\r\n"),
    "one line": LINE,
    "one line, spaced": " ".join(LINE),
    "amid words": f"I think the answer is {LINE} and I am sure.",
    "at the end of a sentence": f"The answer is {LINE}.",
    "spaced at the end of a sentence": f"The answer is {' '.join(LINE)}. Done.",
    "rows at the end of a sentence": f"The answer is\n{SPACED}.",
    "code fence": f"Here it is:\n```text\n{ROWS}\n```\nI hope that helps!",
    "rulings": "+-----+-----+\n| 1 2 | 3 4 |\n| 3 4 | 1 2 |\n+-----+-----+\n| 2 1 | 4 3 |\n| 4 3 | 2 1 |\n+--+--+",
    "box drawing": "╔══╦══╗\n║12║34║\n║34║12║\n╠══╬══╣\n║21║43║\n║43║21║\n╚══╩══╝",
    "bands apart": "12 34\n34 12\n\n21 43\n43 21\n",
    "table": "| 1 | 2 | 3 | 4 |\n|---|---|---|---|\n| 3 | 4 | 1 | 2 |\n| 2 | 1 | 4 | 3 |\n| 4 | 3 | 2 | 1 |",
    "table with column numbers": "| 1 | 2 | 3 | 4 |\n|---|---|---|---|\n"
    + "\n".join("| " + " | ".join(row) + " |" for row in ROWS.split("\n")),
    "table with empty heading": "| | | | |\n|-|-|-|-|\n" + "\n".join("|" + "|".join(row) + "|" for row in ROWS.split()),
    "commas": ROWS.replace("", ",").replace(",\n,", "\n").strip(","),
    "row labels": "\n".join(f"Row {i}: {row}" for i, row in enumerate(ROWS.split(), 1)),
    "lettered rows": "\n".join(f"{letter} {' '.join(row)}" for letter, row in zip("ABCD", ROWS.split(), strict=True)),
    "bold": "\n".join(f"**{row}**" for row in ROWS.split()),
    "a list of lists": str(SOLUTION.reshape(4, 4).tolist()),
    "an array": str(SOLUTION.reshape(4, 4)),
    "LaTeX": "$$\\begin{array}{cccc}\n" + " \\\\ \\hline\n".join(map(" & ".join, ROWS.split())) + "\n\\end{array}$$",
    "boxed": f"\\boxed{{{LINE}}}",
    "JSON": '{"solution": ' + str(SOLUTION.reshape(4, 4).tolist()) + "}",
    "numbered list": "\n".join(f"{i}. {' '.join(row)}" for i, row in enumerate(ROWS.split(), 1)),
    "list": "\n".join(f"- {' '.join(row)}" for row in ROWS.split()),
    "a colon before it": f"Solution:{LINE}",
    "special tokens": f"<|start|>assistant<|sep|>\n{ROWS}<|eot_id|><eos><eos>",
    "unfinished reasoning": f"<think>{ROWS}",
    "HTML": "<table>" + "\n".join(f"<tr><td>{'</td><td>'.join(row)}</td></tr>" for row in ROWS.split()) + "</table>",
    "one cell a line": "\n".join(LINE),
    "tags": f"<think>\n{format_board(OTHER)}\n</think>\n<answer>\n{ROWS}\n</answer>\nOr maybe\n{format_board(OTHER)}",
    "two answers": f"<answer>{to_string(OTHER)}</answer> no, <Answer>{LINE}</Answer>",
    "tag without end": f"{format_board(OTHER)}\n<answer>\n{SPACED}",
    "after reasoning": f"Row 1 holds 1 and 4.\nSo we get\n1 2 3 4\n\nThe grid:\n{ROWS}",
    "a row before it, apart": f"First row:\n1 2 3 4\n\n{SPACED}",
    "after the puzzle": f"{format_board(PUZZLE)}\n\n{SPACED}",
    "right below the puzzle": f"{format_board(PUZZLE)}\n{SPACED}",
    "before the puzzle": f"{SPACED}\n\nfor the puzzle\n\n{format_board(PUZZLE)}",
    "after the prompt": build_prompt(PUZZLE) + f"\n\n{ROWS}\n",
    "the last of two": f"{format_board(OTHER)}\nNo, wait:\n{SPACED}",
    "the last of two, apart": f"{format_board(OTHER)}\n\n{SPACED}",
    "two of one line each": f"{to_string(OTHER)}\n{LINE}",
    "three of one line each": f"{to_string(OTHER)}\n{to_string(OTHER)}\n{LINE}",
    "a malformed one before it": f"1234\n3412\n2143\n432\n\n{ROWS}",
    "a malformed one after it": f"{ROWS}\n\n1234\n3412\n2143\n432",
    "a smaller grid after it": f"{ROWS}\n\nwith the corner\n12\n34",
}


@pytest.mark.parametrize("name", READ)
def test_ways_to_write_the_solution(name):
    score = score_answer(READ[name], PUZZLE)
    assert numbers(score) == (1.0, 1.0, 1.0, 1.0)
    np.testing.assert_array_equal(score.board, SOLUTION)


NOT_READ = {
    "nothing": "",
    "no text": None,
    "words": "I cannot solve this.",
    "the puzzle again": format_board(PUZZLE),
    "the prompt again": build_prompt(PUZZLE),
    "a blank left": ROWS.replace("4321", "43.1"),
    "a zero": ROWS.replace("4321", "4301"),
    "a digit too large": ROWS.replace("4321", "4325"),
    "an extra row": f"{ROWS}\n1234",
    "a row too few": ROWS[:-5],
    "an extra cell": ROWS.replace("2143", "21433"),
    "an extra row of another width": f"{ROWS}\n12341",
    "17 cells in a line": LINE + "1",
    "15 cells in a line": LINE[:-1],
    "17 lines of one cell": "\n".join(LINE + "1"),
    "full-width digits": ROWS.translate({ord(str(d)): chr(0xFF10 + d) for d in range(10)}),
    "Arabic-Indic digits": ROWS.translate({ord(str(d)): chr(0x0660 + d) for d in range(10)}),
    "superscripts": ROWS.replace("1", "¹").replace("2", "²").replace("3", "³"),
    "words between the rows": "1234\nthen\n3412\nthen\n2143\nthen\n4321",
    "another size": format_board(generate(1, size=6, clues=16, rule="singles", seed=0).solutions[0]),
    "an unfinished list": "\n".join(f"{i}. {' '.join(row)}" for i, row in enumerate(ROWS.split()[:3], 1)),
    "only outside the tags": f"{ROWS}\n<answer>see above</answer>",
    "an empty last tag": f"<answer>{LINE}</answer><answer>",
}


@pytest.mark.parametrize("name", NOT_READ)
def test_texts_without_a_full_board(name):
    score = score_answer(NOT_READ[name], PUZZLE)
    assert numbers(score) == (0.0, 0.0, 0.0, 0.0)
    assert score.board is None


def test_shares_by_hand():
    """7 givens, 9 blanks: columns 2 and 3 of row 1; 1 and 2 of row 2; 3 and 4 of row 3; 1, 3 and 4 of row 4."""
    assert numbers(score_answer("1334|3412|2143|4321".replace("|", "\n"), PUZZLE)) == (0.0, 8 / 9, 1.0, 1.0)
    assert numbers(score_answer("2234|3412|2143|4321".replace("|", "\n"), PUZZLE)) == (0.0, 1.0, 1.0, 6 / 7)
    assert numbers(score_answer("1111\n" * 4, PUZZLE)) == (0.0, 1 / 9, 1.0, 3 / 7)


def test_a_consistent_grid_that_is_not_the_solution_is_not_exact():
    score = score_answer(format_board(OTHER), PUZZLE)
    assert score.exact == 0.0 and score.format == 1.0
    assert score.per_cell == np.mean((OTHER == SOLUTION)[parse_board(PUZZLE) == 0])
    assert score.givens == np.mean((OTHER == SOLUTION)[parse_board(PUZZLE) > 0]) < 1


def test_the_last_board_counts_even_if_an_earlier_one_was_right():
    assert score_answer(f"{ROWS}\n\nor\n\n{format_board(OTHER)}", PUZZLE).exact == 0.0


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ANSWER_LAYOUTS)
def test_every_answer_layout_of_every_size(size, name):
    drawn = generate(2, size=size, clues={4: 6, 6: 16, 9: 36, 16: 160}[size], rule="singles", seed=3)
    for puzzle, solution in zip(drawn.boards, drawn.solutions, strict=True):
        text, _ = ANSWER_LAYOUTS[name].write(solution, "Solution:")
        score = score_answer(text, puzzle)
        assert numbers(score) == (1.0, 1.0, 1.0, 1.0)


def test_sixteen_with_numbers_or_letters():
    drawn = generate(1, size=16, clues=160, rule="singles", seed=0)
    solution = drawn.solutions[0].reshape(16, 16)
    for rows in (
        "\n".join(" ".join(map(str, row)) for row in solution),
        "\n".join("".join("123456789abcdefg"[digit - 1] for digit in row) for row in solution),
        "| " + " | ".join(map(str, range(1, 17))) + " |\n|" + "---|" * 16 + "\n"
        + "\n".join("| " + " | ".join(map(str, row)) + " |" for row in solution),
        "\n".join(str(digit) for digit in solution.ravel()),
    ):  # fmt: skip
        assert score_answer(rows, drawn.boards[0]).exact == 1.0
    assert read_answer("\n".join(" ".join(map(str, row + 1)) for row in solution), 16) is None


def test_a_known_solution_is_used():
    assert score_answer(ROWS, PUZZLE, SOLUTION).exact == 1.0
    assert score_answer(ROWS, "1" + "." * 15, SOLUTION).exact == 1.0  # trusted to be the only one


@pytest.mark.parametrize(
    ("puzzle", "solution", "message"),
    [
        (PUZZLE, PUZZLE, "full board"),
        (PUZZLE, OTHER, "changes a digit"),
        (PUZZLE, "1" * 16, "clashes"),
        (PUZZLE, "12", "size"),
        ("1" + "." * 15, None, "more than one solution"),
        ("12..|.3..|..4.|...4", None, "no solution"),
        ("11..|....|....|....", None, "no solution"),
        (SOLUTION, None, "no blank"),
        ("12345", None, "cells"),
    ],
)
def test_puzzles_and_solutions_that_cannot_be_scored(puzzle, solution, message):
    refused(message, lambda: score_answer(ROWS, puzzle, solution), BoardError)


def test_a_score_is_frozen_and_its_numbers_are_floats():
    score = score_answer(ROWS, PUZZLE)
    assert all(type(value) is float for value in numbers(score))
    with pytest.raises(dataclasses.FrozenInstanceError):
        score.exact = 0.0


PIECES = st.sampled_from(
    ["1234", "3412", "2143", "4321", LINE, "\n", "\n\n", " ", "|", "---", "<answer>", "</answer>", ".", "**", "A ", "1",
     "2", "x", "0", "²", "Row 1: ", "```", "\t", "\\\\", "-", "+", "and", "١", "\x85"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=40).map("".join), st.sampled_from(SIZES))
@settings(max_examples=300)
def test_no_text_of_board_like_pieces_raises_and_what_is_read_was_written(text, size):
    board = read_answer(text, size)
    if board is not None:
        assert board.shape == (size * size,) and board.dtype == np.uint8 and 1 <= board.min() <= board.max() <= size
        kept = "".join(character for character in text if character in string.digits + "Aabcdefg")
        written = to_string(board)
        assert written in kept or all(row in kept for row in format_board(board, separator="").split("\n"))


@given(st.text(max_size=400))
@settings(max_examples=300)
def test_no_text_raises(text):
    score = score_answer(text, PUZZLE, SOLUTION)
    assert 0 <= min(numbers(score)) <= max(numbers(score)) <= 1
    assert score.format == float(score.board is not None)
