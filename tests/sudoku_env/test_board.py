import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sudoku_env import board as bd
from sudoku_env.errors import BoardError
from tests.helpers.refusals import refused
from tests.sudoku_env.helpers import sudoku_reference as reference

any_board = st.sampled_from(bd.SIZES).flatmap(lambda n: arrays(np.uint8, n * n, elements=st.integers(0, n)))


@pytest.mark.parametrize(("size", "peers"), [(4, 7), (6, 12), (9, 20), (16, 39)])
def test_geometry_agrees_with_the_definition(size, peers):
    table = bd.geometry(size)
    assert table.units.tolist() == reference.units(size)
    assert table.peers.shape == (size * size, peers)
    for cell in range(size * size):
        assert [cell in unit for unit in table.units.tolist()] == [u in table.units_of[cell] for u in range(3 * size)]
    assert not table.units.flags.writeable


def test_peers_by_hand():
    # Cell 8 of a 6×6 is row 2, column 3, in the box of rows 1-2 and columns 1-3.
    assert bd.geometry(6).peers[8].tolist() == [0, 1, 2, 6, 7, 9, 10, 11, 14, 20, 26, 32]


@given(any_board, st.sampled_from("0._xX*?"), st.sampled_from(["", " ", ", ", " | ", ",", "|"]), st.booleans())
def test_lines_round_trip(board, blank, separator, ruled):
    lines = bd.format_board(board, blank=blank, separator=separator).split("\n")
    if ruled:
        lines.insert(len(lines) // 2, "---+---")
        lines = ["+=====+", *lines]
    assert (bd.as_board("\n".join(lines)) == board).all()


@given(any_board)
def test_as_board_takes_rows_lists_and_arrays(board):
    n = bd.size_of(board.size)
    for form in (board, board.astype(np.int64), board.tolist(), board.reshape(n, n), board.reshape(n, n).tolist()):
        result = bd.as_board(form, n)
        assert result.dtype == np.uint8 and (result == board).all() and result is not board


@given(any_board)
def test_conflicts_against_the_definition(board):
    units = reference.units(bd.size_of(board.size))
    twice = [
        any(board[cell] == board[other] for unit in units if cell in unit for other in unit if other != cell)
        for cell in range(board.size)
    ]
    expected = np.array(twice) & (board > 0)
    assert (bd.conflicts(np.stack([board, np.zeros_like(board)])) == [expected, np.zeros_like(expected)]).all()
    assert bd.is_valid(board) == (not expected.any())
    found = bd.find_conflict(board)
    if expected.any():
        assert board[found[0]] == board[found[1]] != 0
        assert any({*found} <= {*unit} for unit in units)
    else:
        assert found is None


def test_is_solved():
    grid = bd.as_board("1234341221434321")
    assert bd.is_solved(grid)
    assert not bd.is_solved(np.where(np.arange(16) == 3, 0, grid))
    assert not bd.is_solved("1234341221434322")


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("12345", "5 cells"),
        ("1234341221434325", "row 4, column 4 holds 5"),
        ("123434122143432%", "row 4, column 4: '%'"),
        ("123456789\n" * 4, "line 1 holds 9 cells"),
        ([0] * 15, "15 cells"),
        ([0] * 15 + [5], "row 4, column 4 holds 5"),
        ([0] * 15 + [-1], "holds -1"),
        (np.zeros(16), "float64"),
        (np.zeros((2, 8), int), "square"),
        (np.zeros((1, 4, 4), int), "dimensions"),
    ],
)
def test_bad_boards_say_why(form, message):
    refused(message, lambda: bd.as_board(form), BoardError)


def test_wrong_size_and_unknown_size():
    refused("expected 36 cells", lambda: bd.as_board([0] * 16, 6), BoardError)
    refused("expected 36 cells", lambda: bd.parse_board("." * 16, 6), BoardError)
    refused("size 5 is not supported", lambda: bd.geometry(5), BoardError)


def test_as_boards_reads_the_last_axis_as_cells():
    assert bd.as_boards(np.zeros((16, 16), np.int64)).shape == (16, 16)
    ready = np.zeros((3, 36), np.uint8)
    assert bd.as_boards(ready) is ready
    ready.flags.writeable = False
    assert bd.as_boards(ready).flags.writeable
    for wrong in (np.zeros((4, 4), int), np.zeros((1, 1, 16), int), np.zeros((2, 16))):
        with pytest.raises(BoardError):
            bd.as_boards(wrong)
    refused("row 1, column 2 holds -1", lambda: bd.as_boards(np.array([[0] * 16, [0, -1] + [0] * 14])), BoardError)
    refused("row 1, column 3 holds 5", lambda: bd.as_boards([0, 0, 5] + [0] * 13), BoardError)
