import re

import numpy as np
import pytest
from PIL import Image

from sudoku_env.board import SIZES, parse_board
from sudoku_env.envs.rendering import DEFINITE, GIVEN, PAPER, WRONG, decode_gif, render_ansi, render_rgb, trace_views
from sudoku_env.errors import BoardError
from sudoku_env.generator import generate
from sudoku_env.kernels.unmask import NOT_A_DIGIT
from sudoku_env.logic import definite_digits
from tests.helpers.refusals import refused

PUZZLE = parse_board("1..4|..12|21..|.3..")
SOLUTION = parse_board("1234|3412|2143|4321")
CLUES = {4: 6, 6: 16, 9: 36, 16: 160}


def boards_of(*moves):
    """The puzzle and the board after each move, a list of (cell, digit) pairs."""
    boards = [PUZZLE.astype(np.int64)]
    for move in moves:
        boards.append(boards[-1].copy())
        for cell, digit in move:
            boards[-1][cell] = digit
    return np.stack(boards)


def test_plain_text_by_hand():
    views = trace_views(boards_of([(1, 2)], [(2, 1)]), SOLUTION)
    assert render_ansi(views[1], color=False).splitlines()[:2] == ["1 2<│ + 4", "+ + │ 1 2"]
    assert render_ansi(views[2], color=False).splitlines()[:2] == ["1 2 │ 1!4", ". . │ 1 2"]


def test_without_a_solution_what_clashes_is_wrong():
    """A second 2 in the first row marks both, a token that is no digit itself; a right digit elsewhere is none."""
    views = trace_views(boards_of([(1, 2), (2, 3)], [(4, 3), (5, NOT_A_DIGIT)]), None)
    assert not views[1].wrong.any() and np.flatnonzero(views[2].wrong).tolist() == [5]
    assert np.flatnonzero(trace_views(boards_of([(1, 2)], [(2, 2)]), None)[2].wrong).tolist() == [1, 2, 7]


@pytest.mark.parametrize("size", SIZES)
def test_colors_only_add_escape_codes(size):
    drawn = generate(1, size=size, clues=CLUES[size], rule="singles", seed=1)
    (view,) = trace_views(drawn.boards, drawn.solutions[0])
    colored = render_ansi(view)
    plain = re.sub("\x1b\\[[0-9;]*m", "", colored)
    assert plain.replace(" ", "") == render_ansi(view, color=False).replace(" ", "")
    rows = [line for line in plain.splitlines() if "─" not in line]
    assert [len(re.findall("[0-9A-G.+]", row)) for row in rows] == [size] * size
    assert len({len(line.rstrip()) for line in plain.splitlines()}) <= 2


@pytest.mark.parametrize("size", SIZES)
def test_pictures_of_all_sizes(size):
    drawn = generate(1, size=size, clues=CLUES[size], rule="singles", seed=1)
    blank = np.flatnonzero(drawn.boards[0] == 0)[0]
    boards = np.repeat(drawn.boards, 2, axis=0)
    boards[1, blank] = drawn.solutions[0][blank]
    first, second = trace_views(boards, drawn.solutions[0])
    before = render_rgb(first)
    assert before.dtype == np.uint8
    assert before.shape[0] == before.shape[1] and before.shape[2] == 3
    assert abs(before.shape[0] - (768 if size == 16 else 480)) < 24
    after = render_rgb(second)
    assert after.shape == before.shape
    assert (after != before).any()
    assert render_rgb(second, pixels=240).shape[0] < 264


def colors_at(picture, view, cell):
    """The colors in the middle third of the border between a cell's content and its edge."""
    side = (picture.shape[0] - 8) // view.size
    margin = (picture.shape[0] - side * view.size) // 2
    top, left = (margin + side * part for part in divmod(cell, view.size))
    strip = picture[top + side - side // 6, left + side // 3 : left + 2 * side // 3]
    return {"#{:02x}{:02x}{:02x}".format(*pixel) for pixel in strip}


@pytest.mark.parametrize("size", SIZES)
def test_what_a_cell_is_shows_in_its_color(size):
    drawn = generate(1, size=size, clues=CLUES[size], rule="singles", seed=2)
    (view,) = trace_views(drawn.boards, drawn.solutions[0])
    given, definite = int(np.flatnonzero(drawn.boards[0])[0]), np.flatnonzero(view.definite)
    picture = render_rgb(view)
    assert colors_at(picture, view, given) == {GIVEN}
    assert all(colors_at(picture, view, cell) == {DEFINITE} for cell in definite)
    cell, digit = int(definite[0]), int(drawn.solutions[0][definite[0]])
    boards = np.repeat(drawn.boards, 2, axis=0)
    boards[1, cell] = digit % size + 1
    view = trace_views(boards, drawn.solutions[0])[1]
    picture = render_rgb(view)
    assert colors_at(picture, view, cell) == {WRONG}
    assert colors_at(picture, view, int(definite[1])) == {PAPER}


def test_the_sixteen_symbols_look_different():
    solution = parse_board("123456789ABCDEFG" + "." * 240)
    picture = render_rgb(trace_views(solution[None], solution)[0])
    side = picture.shape[0] // 16
    first_row = [picture[8:side, 4 + side * cell + 6 : 4 + side * cell + side - 6] for cell in range(16)]
    assert len({cell.tobytes() for cell in first_row}) == 16


def test_small_cells_go_without_step_numbers():
    """A cell with its step's number holds ink in the upper left corner."""

    def corner_has_ink(pixels):
        picture = render_rgb(trace_views(boards_of([(1, 2)]), SOLUTION)[1], pixels=pixels)
        side = picture.shape[0] // 4
        corner = picture[8 : 4 + side // 4, 4 + side + 6 : 4 + side + side // 3]
        return bool((corner < 200).any())

    assert corner_has_ink(480) and not corner_has_ink(120)


def test_trace_by_hand():
    boards = boards_of([(1, 2)], [], [(4, 3), (5, 4)], [(15, NOT_A_DIGIT)])
    views = trace_views(boards, SOLUTION)
    assert [view.last for view in views] == [None, 1, None, None, 15]
    assert views[4].order.tolist() == [0, 1, 0, 0, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4]
    assert np.flatnonzero(views[4].wrong).tolist() == [15]
    assert not views[4].definite.any()
    assert views[0].order.sum() == 0  # earlier views stay as they were
    np.testing.assert_array_equal(views[4].givens, PUZZLE > 0)


def test_a_cell_filled_before_it_was_definite_is_a_guess():
    drawn = generate(20, size=9, clues=(24, 28), rule="singles", seed=5)
    for puzzle, solution in zip(drawn.boards, drawn.solutions, strict=True):
        open_cells = np.flatnonzero((puzzle == 0) & (definite_digits(puzzle) == 0))
        if len(open_cells):
            boards = np.stack([puzzle, puzzle])
            boards[1, open_cells[0]] = solution[open_cells[0]]
            view = trace_views(boards, solution)[1]
            assert np.flatnonzero(view.guessed).tolist() == [open_cells[0]]
            return
    pytest.fail("every blank cell of every puzzle was definite")


def test_a_filled_cell_may_not_change():
    refused("step 2 changes row 1, column 2", lambda: trace_views(boards_of([(1, 2)], [(1, 3)]), SOLUTION), BoardError)
    refused(r"got \(16,\)", lambda: trace_views(PUZZLE, SOLUTION), BoardError)


def test_gif_has_a_frame_for_every_board(tmp_path):
    boards = boards_of([(1, 2)], [], [(4, 3), (5, 4)], [(15, NOT_A_DIGIT)])
    path = decode_gif(tmp_path / "decode.gif", boards, SOLUTION, pixels=160)
    with Image.open(path) as picture:
        assert picture.n_frames == len(boards)
        assert picture.info["loop"] == 0
        picture.seek(len(boards) - 1)
        assert picture.info["duration"] == 3000
    assert [file.name for file in tmp_path.iterdir()] == ["decode.gif"]


def test_gif_that_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "decode.gif"
    path.write_bytes(b"old")
    with pytest.raises(BoardError):
        decode_gif(path, boards_of([(1, 2)], [(1, 3)]), SOLUTION)
    assert path.read_bytes() == b"old"
