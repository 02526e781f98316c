"""The reader of grids, and the two that read with it: they agree on every layout that both take."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudoku_env import default_puzzles, parse_puzzle
from sudoku_env.board import SIZES, format_board, to_string
from sudoku_env.errors import PuzzleParseError
from sudoku_env.prompts.grids import Grid, Row, cut, grids_in, row_symbols, without_heading
from sudoku_env.prompts.scoring import read_answer
from tests.helpers.refusals import refused


def rows_of(board):
    return format_board(board, separator="").split("\n")


def numbered(board):
    size = round(board.size**0.5)
    return [[str(digit) for digit in row] for row in board.reshape(size, size)]


def table(rows, heading):
    ruling = "|" + "---|" * len(heading)
    return "\n".join(["| " + " | ".join(heading) + " |", ruling, *("| " + " | ".join(row) + " |" for row in rows)])


SEPARATORS = [" ", "", "|", " | ", ",", ", ", "\t", ";"]
LAYOUTS = {
    **{f"rows with {separator!r}": lambda b, s=separator: format_board(b, separator=s) for separator in SEPARATORS},
    "a packed line": to_string,
    "a packed line amid words": lambda b: f"It says {to_string(b)} I think",
    "a spaced line": lambda b: " ".join(to_string(b)),
    "numbers": lambda b: "\n".join(" ".join(row) for row in numbered(b)),
    "a table": lambda b: table(map(list, rows_of(b)), ["."] * round(b.size**0.5)),
    "a table with column numbers": lambda b: table(numbered(b), [str(k + 1) for k in range(round(b.size**0.5))]),
    "code fence": lambda b: f"```text\n{format_board(b)}\n```",
    "rows apart": lambda b: "\n\n".join(rows_of(b)),
    "row labels": lambda b: "\n".join(f"Row {k}: {' '.join(row)}" for k, row in enumerate(rows_of(b), 1)),
    "quoted": lambda b: "\n".join("> " + row for row in rows_of(b)),
    "nested lists": lambda b: str(b.reshape(round(b.size**0.5), -1).tolist()).replace("],", "],\n"),
}
PROSE = ["", "Here it is:\n", "Fill in the cells.\n\n", "The grid, 2024:\n\n"]


@given(st.sampled_from(SIZES), st.integers(0, 99), st.sampled_from(sorted(LAYOUTS)), *[st.sampled_from(PROSE)] * 2)
@settings(max_examples=200)
def test_a_full_grid_is_read_alike_as_a_puzzle_and_as_an_answer(size, number, layout, before, after):
    board = default_puzzles(size).solutions[number]
    text = f"{before}{LAYOUTS[layout](board)}\n\n{after}"
    np.testing.assert_array_equal(parse_puzzle(text), board)
    np.testing.assert_array_equal(read_answer(text, size), board)


@given(st.sampled_from(SIZES), st.integers(0, 99), st.sampled_from(sorted(LAYOUTS)))
@settings(max_examples=100)
def test_a_puzzle_is_read_as_a_puzzle_and_is_no_answer(size, number, layout):
    board = default_puzzles(size).boards[number]
    np.testing.assert_array_equal(parse_puzzle(LAYOUTS[layout](board)), board)
    assert read_answer(LAYOUTS[layout](board), size) is None


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("layout", ["rows with ' '", "a packed line"])
def test_an_answer_may_have_company_that_a_prompt_may_not(size, layout):
    """Of two grids the answer is the last; a prompt with two is refused."""
    first, second = default_puzzles(size).solutions[:2]
    text = f"{LAYOUTS[layout](first)}\nand\n{LAYOUTS[layout](second)}"
    np.testing.assert_array_equal(read_answer(text, size), second)
    refused("two different puzzles", lambda: parse_puzzle(text), PuzzleParseError)


def test_blocks_by_hand():
    text = "Look:\n1234\n--+--\n3412\n\n12\nand 1234341221434321\n1234341221434321"
    parts = grids_in(text.split("\n"), (16,), row_symbols, lambda block: iter([block]), lambda *line: iter([line]))
    assert list(parts) == [
        (1, "Look:"),
        [Row(2, list("1234"), ruled=True), Row(4, list("3412"), gapped=True)],
        (6, "12"),
        (7, "and 1234341221434321"),
        Grid(list("1234341221434321"), [8] * 4),
    ]


def test_rows_are_cut_into_grids_and_lose_their_heading():
    rows = [Row(line, list("1234"), ruled=line == 1) for line in range(1, 10)]
    assert [row.line for row in without_heading(rows, 4)] == [2, 3, 4, 5, 6, 7, 8, 9]
    assert without_heading(rows[1:], 4) == rows[1:]
    assert cut(rows, 4) is None and cut(rows[:4], 5) is None
    assert [grid.where for grid in cut(rows[1:], 4)] == ["lines 2-5", "lines 6-9"]
    assert cut(rows[1:5], 4)[0].symbols == list("1234" * 4)
