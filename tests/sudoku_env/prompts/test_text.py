import string

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudoku_env.board import SIZES, format_board, parse_board, to_string
from sudoku_env.errors import PuzzleParseError, SudokuError
from sudoku_env.prompts.text import ANSWER_LAYOUTS, TEMPLATES, build_prompt, parse_puzzle
from sudoku_env.puzzles import default_puzzles
from tests.helpers.refusals import refused

FOUR = "1..4..1..3..2..."
SIX = "..3..5..1.2324536...6..2.625......3."
SEPARATORS = [" ", "", "|", " | ", ",", ", ", "\t", ";"]


@st.composite
def puzzles(draw):
    size = draw(st.sampled_from(SIZES))
    board = default_puzzles(size).solutions[draw(st.integers(0, 99))]
    keep = draw(st.lists(st.booleans(), min_size=board.size, max_size=board.size))
    board = np.where(keep, board, 0)
    board[draw(st.integers(0, board.size - 1))] = 0
    if not board.any():
        board[0] = 1
    return board


@given(puzzles(), st.sampled_from(sorted(TEMPLATES)))
@settings(max_examples=60)
def test_every_template_parses_back_to_its_board(board, template):
    np.testing.assert_array_equal(parse_puzzle(build_prompt(board, template)), board)


@given(puzzles(), st.sampled_from("0_.xX*"), st.sampled_from(SEPARATORS), st.booleans())
@settings(max_examples=120)
def test_blanks_and_separators_in_prose(board, blank, separator, one_line):
    size = round(board.size**0.5)
    grid = format_board(board, blank=blank, separator=separator)
    if one_line:
        grid = grid.replace("\n", separator)
    text = f"Please fill in this {size}x{size} puzzle. Rules: digits 1-{size}.\n\n{grid}\n\nGive {board.size} numbers."
    np.testing.assert_array_equal(parse_puzzle(text), board)


def test_compact_template_is_one_line_of_packed_symbols_and_an_unknown_one_is_named():
    assert build_prompt(SIX, "compact") == "sudoku 6x6 " + SIX
    refused(r"'long'.*'compact'", lambda: build_prompt(FOUR, "long"), SudokuError)


ROWS = "..3 ..5\n..1 .23\n245 36.\n..6 ..2\n.62 5..\n... .3."
WRITTEN = {
    "rulings": "+-------+-------+\n| . . 3 | . . 5 |\n| . . 1 | . 2 3 |\n+-------+-------+\n| 2 4 5 | 3 6 . |\n"
    "| . . 6 | . . 2 |\n+-------+-------+\n| . 6 2 | 5 . . |\n| . . . | . 3 . |\n+-------+-------+",
    "box drawing": "╔═══╦═══╗\n║..3║..5║\n║..1║.23║\n╠═══╬═══╣\n║245║36.║\n║..6║..2║\n╠═══╬═══╣\n"
    "║.62║5..║\n║...║.3.║\n╚═══╩═══╝",
    "gaps between bands": ROWS.replace("23\n", "23\n\n").replace(".2\n", ".2\n\n"),
    "code fence": f"Here:\n```text\n{ROWS}\n```\nThanks, 6 rows.",
    "quoted": "\n".join("> " + row for row in ROWS.split("\n")),
    "table with column numbers": "| 1 | 2 | 3 | 4 | 5 | 6 |\n|---|---|---|---|---|---|\n"
    + "\n".join("| " + " | ".join(row.replace(" ", "")) + " |" for row in ROWS.split("\n")),
    "table with empty cells": "| a | b | c | d | e | f |\n|:-:|:-:|:-:|:-:|:-:|:-:|\n"
    + "\n".join("|" + "|".join(row.replace(" ", "").replace(".", " ")) + "|" for row in ROWS.split("\n")),
    "table with empty heading": "| | | | | | |\n|-|-|-|-|-|-|\n"
    + "\n".join("|" + "|".join(row.replace(" ", "")) + "|" for row in ROWS.split("\n")),
    "row labels": "\n".join(f"Row {i}: {row}" for i, row in enumerate(ROWS.split("\n"), 1)),
    "letters as labels": "\n".join(f"{letter}) {row}" for letter, row in zip("ABCDEF", ROWS.split("\n"), strict=True)),
    "nested lists": str(parse_board(SIX).reshape(6, 6).tolist()).replace("],", "],\n"),
    "list in one line": "grid = " + str([int(c) for c in SIX.replace(".", "0")]),
    "packed amid words": f"Could you solve {SIX} for me? It has 16 clues, 20 cells are empty.",
    "in quotation marks": f'The puzzle is "{SIX}".',
    "packed with dashes": f"solve {SIX.replace('.', '-')} now",
    "chunks of three": "sudoku 6x6 " + " ".join(SIX[i : i + 3] for i in range(0, 36, 3)),
    "chunks after a spaced size": "sudoku 6 x 6 " + " ".join(SIX[i : i + 3] for i in range(0, 36, 3)),
    "twice the same": f"Puzzle: {SIX}\nAs rows:\n{ROWS}\n",
    "after an ellipsis": f"Well ... {SIX} ...",
}  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
def test_ways_to_write_a_puzzle(name):
    np.testing.assert_array_equal(parse_puzzle(WRITTEN[name]), parse_board(SIX))


def test_sixteen_with_numbers_of_two_digits():
    board = default_puzzles(16).solutions[0].copy()
    board[::3] = 0
    text = "\n".join(" ".join(str(v) if v else "." for v in row) for row in board.reshape(16, 16))
    np.testing.assert_array_equal(parse_puzzle(f"A large one:\n{text}"), board)
    np.testing.assert_array_equal(parse_puzzle(f"A large one: {to_string(board)}"), board)


def test_rules_in_prose_are_no_puzzle():
    prose = (
        "The grid is 6x6, digits 1-6; use 1 2 3 4 5 6 in each row.\nBox 1: rows 1-2, columns 1-3\n"
        "Box 2: rows 1-2, columns 4-6\n1.\n2.\n3.\n- 1, 2\n****\n2024\n...\n"
        'Answer with 36 numbers. Mark blanks with ".".\n'
    )
    refused("no puzzle found", lambda: parse_puzzle(prose), PuzzleParseError)
    np.testing.assert_array_equal(parse_puzzle(prose + "\n" + ROWS + "\n\n***\n1-6 only!"), parse_board(SIX))


def test_an_empty_grid_to_fill_in_is_no_puzzle():
    form = "\n".join(["_ _ _ _ _ _"] * 6)
    np.testing.assert_array_equal(parse_puzzle(f"{ROWS}\nFill in here:\n{form}"), parse_board(SIX))
    refused("no puzzle", lambda: parse_puzzle(form), PuzzleParseError)


BAD = {
    "no text": ("", "no puzzle found"),
    "five rows": ("Solve\n" + ROWS.rsplit("\n", 1)[0], r"lines 2-6: 5 rows of 6 entries; a 6×6 puzzle has 6"),
    "seven rows": (ROWS + "\n1.....", r"lines 1-7: 7 rows of 6"),
    "a row of seven": ("Hi\n" + ROWS.replace("36.", "36.1"), r"line 4: 7 entries where the rows of lines 2-7 have 6"),
    "a row of five": (ROWS.replace("36.", "36"), r"line 3: 5 entries"),
    "rows of five": ("1.2.3\n" * 5, r"lines 1-5: rows of 5 entries; supported sizes"),
    "digit out of range": (ROWS.replace("36.", "37."), r"line 3 \(row 3, column 5\) holds 7; digits are 1..6"),
    "twice in a row": (ROWS.replace("36.", "34."), r"a contradiction: 4 stands twice in a unit, line 3 \(row 3, col"),
    "twice in a packed line": ("a\nb\n33" + SIX[2:], r"a contradiction: 3 .*line 3 \(row 1, column 1\) and line 3"),
    "two puzzles": (f"{ROWS}\nand\n{ROWS.replace('245', '2.5')}", r"two different puzzles: lines 1-6 and lines 8-13"),
    "two puzzles without a word between": (f"{ROWS}\n\n{ROWS.replace('245', '2.5')}", r"two different puzzles"),
    "two sizes": (f"{FOUR}\n{SIX}", r"two different puzzles: line 1 and line 2"),
    "an example": (f"{ROWS}\nExample:\n{format_board(default_puzzles(6).solutions[0])}", "two different puzzles"),
    "a packed line too short": (f"solve {SIX[:-1]} please", r"line 1 has 35 entries"),
    "a packed line out of range": (f"solve {SIX.replace('6', '8')} please", r"line 1 has 36 entries with 8"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_errors_say_where(name):
    text, message = BAD[name]
    refused(message, lambda: parse_puzzle(text), PuzzleParseError)


@given(st.text(alphabet=string.digits + " .x|-+\nab", max_size=300))
@settings(max_examples=300)
def test_any_text_gives_a_board_or_a_parse_error(text):
    try:
        board = parse_puzzle(text)
    except PuzzleParseError:
        return
    assert board.size in (16, 36, 81, 256)


def test_answer_layouts_by_hand():
    board = parse_board("1234341221434321")
    expected = {
        "spaced": "Solution:\n1 2 3 4\n3 4 1 2\n2 1 4 3\n4 3 2 1",
        "line": "Solution: 1 2 3 4 3 4 1 2 2 1 4 3 4 3 2 1",
        "comma": "Solution:\n1,2,3,4\n3,4,1,2\n2,1,4,3\n4,3,2,1",
        "packed": "Solution:\n1234\n3412\n2143\n4321",
        "column": "Solution:\n1\n2\n3\n4\n3\n4\n1\n2\n2\n1\n4\n3\n4\n3\n2\n1",
        "lettered": "Solution: A 1 2 3 4 B 3 4 1 2 C 2 1 4 3 D 4 3 2 1",
        "bare": "Solution: | 1 2 3 4 | 3 4 1 2 | 2 1 4 3 | 4 3 2 1",
    }
    assert {name: layout.write(board, "Solution: \n")[0] for name, layout in ANSWER_LAYOUTS.items()} == expected
    for layout in ANSWER_LAYOUTS.values():
        for opening in ("Solution:", ""):
            text, offsets = layout.write(board, opening)
            assert [text[offset] for offset in offsets] == list("1234341221434321")
