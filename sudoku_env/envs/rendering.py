"""Pictures of a board: terminal text, an RGB array, and an animated GIF of one decode.

A `BoardView` says what is known of each cell; the functions here only draw it. Colors: gray givens, green blanks that
are definite now (S1), blue digits in cells that were definite when they were filled, amber ones that were right but not
definite yet, red errors; an outline marks the last move.
"""

import io
import os
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from sudoku_env.board import SYMBOLS, Board, cell_name, geometry, size_of
from sudoku_env.envs.progress import BoardView, view_of, wrong_cells
from sudoku_env.errors import BoardError
from sudoku_env.logic import definite_digits

INK, LINE, PAPER, GIVEN, FAINT = "#1f2933", "#c3cad4", "#ffffff", "#e9ecf1", "#7b8794"
DEFINITE, DEFINITE_DOT, DEDUCED, GUESSED = "#d5f2dc", "#3da35d", "#1c64c8", "#c46a00"
WRONG, WRONG_INK, LAST = "#fbd5d5", "#c81e2b", "#6d28d9"
PAPERS = {"wrong": WRONG, "given": GIVEN, "definite": DEFINITE}
INKS = {"wrong": WRONG_INK, "given": INK, "guessed": GUESSED, "deduced": DEDUCED}
ANSI_STYLES = {"wrong": "1;31", "given": "1", "guessed": "33", "deduced": "34"}
SMALLEST_NUMBERED = 40  # pixels of a cell with room for its step number
STEP_MILLISECONDS, END_MILLISECONDS = 600, 3000  # that a GIF shows each board, and the last one
LEGEND = ((DEFINITE, "definite now"), (DEDUCED, "was definite"), (GUESSED, "not definite"), (WRONG_INK, "wrong"))


def render_ansi(view: BoardView, *, color: bool = True) -> str:
    """The board as lines of text.

    Args:
        view: What to show.
        color: Use terminal colors. Without them, `+` is a definite blank, `.` another blank, and a digit is followed by
            `!` when it is wrong, `<` when it was filled last.

    Returns:
        The rows with rulings between the boxes, without a line end at the end.
    """
    n = view.size
    box_rows, box_columns = geometry(n).box_rows, geometry(n).box_columns
    ruling = "┼".join(["──" * box_columns + "─"] * (n // box_columns))
    lines = []
    for row in range(n):
        if row and row % box_rows == 0:
            lines.append(ruling[1:])
        entries = [_ansi_cell(view, row * n + column, color) for column in range(n)]
        boxes = ["".join(entries[start : start + box_columns]) for start in range(0, n, box_columns)]
        lines.append("│ ".join(boxes).rstrip(" "))
    return "\n".join(lines)


def render_rgb(view: BoardView, *, pixels: int | None = None) -> NDArray[np.uint8]:
    """The board as a picture; small cells go without their step numbers.

    Args:
        view: What to show.
        pixels: Width and height aimed at; the result is the nearest that gives every cell the same whole width. None
            takes 480, or 768 for 16×16.

    Returns:
        uint8 `(height, width, 3)`, a new array.
    """
    return np.array(_board_image(view, _cell_pixels(view.size, pixels)))


def board_picture(board: Board, puzzle: Board) -> Image.Image:
    """A board, uint8 `(n²,)`, as its player sees it: no color tells what is definite or wrong."""
    none = np.zeros(board.size, dtype=np.bool_)
    view = BoardView(board, puzzle > 0, none, none, none, np.zeros(board.size, dtype=np.int64))
    return _board_image(view, _cell_pixels(view.size, None))


def trace_views(boards: NDArray[np.integer], solution: NDArray[np.integer] | None) -> list[BoardView]:
    """The views of a recorded decode, one for each board.

    Args:
        boards: integers `(K + 1, n²)`, the puzzle and the board after each of K steps, as `TokenLayout.read_boards`
            gives them: 0 blank, 1..n a digit, -1 no digit. A step outside the map leaves the board as it was.
        solution: integers `(n²,)`, the digits 1..n; None where any valid grid is right, and what clashes is wrong.

    Raises:
        BoardError: The shapes do not fit, or a step changes a cell that was filled before.
    """
    boards = np.asarray(boards).astype(np.int16)
    answer = None if solution is None else np.asarray(solution)
    if boards.ndim != 2 or not len(boards) or (answer is not None and boards.shape[1:] != answer.shape):
        shape = None if answer is None else answer.shape
        raise BoardError(f"expected boards (K + 1, n²) and a solution (n²,) or None, got {boards.shape} and {shape}")
    order, definite = np.zeros(boards.shape[1], dtype=np.int64), definite_digits(boards[0]) > 0
    views = [view_of(boards[0], answer, order, definite, 0)]
    for step, (before, after) in enumerate(pairwise(boards), start=1):
        filled = np.flatnonzero(after != before)
        if before[filled].any():
            cell = int(filled[before[filled] != 0][0])
            raise BoardError(f"step {step} changes {cell_name(cell, size_of(after.size))}, which was filled before")
        if filled.size:
            order[filled] = np.where(definite[filled], step, -step)
            # Once a cell is wrong nothing follows from the board.
            astray = wrong_cells(after, answer).any()
            definite = np.zeros_like(definite) if astray else definite_digits(after) > 0
        views.append(view_of(after, answer, order, definite, step))
    return views


def decode_gif(
    path: str | os.PathLike[str],
    boards: NDArray[np.integer],
    solution: NDArray[np.integer],
    *,
    pixels: int | None = None,
) -> Path:
    """Write an animated GIF of one decode: each cell's step number, what was definite (S1) at every step, and errors.

    The file appears whole or not at all.

    Args:
        path: Where to write; its folder must exist.
        boards: integers `(K + 1, n²)`, the puzzle and the board after each step, as in `trace_views`.
        solution: integers `(n²,)`, the digits 1..n.
        pixels: Width aimed at; None takes 480, or 768 for 16×16.

    Returns:
        The path written.

    Raises:
        BoardError: `trace_views` refuses the boards.
    """
    views = trace_views(boards, solution)
    frames = [_frame(view, step, len(views) - 1, pixels) for step, view in enumerate(views)]
    durations = [STEP_MILLISECONDS] * (len(frames) - 1) + [END_MILLISECONDS]
    buffer = io.BytesIO()
    frames[0].save(buffer, "GIF", save_all=True, append_images=frames[1:], duration=durations, loop=0)
    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(buffer.getvalue())
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return target


def _ansi_cell(view: BoardView, cell: int, color: bool) -> str:
    """Two characters wide, plus invisible color codes."""
    blank = view.board[cell] == 0
    if not color:
        symbol = ("+" if view.definite[cell] else ".") if blank else _symbol(view, cell)
        mark = "!" if view.wrong[cell] else "<" if cell == view.last else " "
        return symbol + mark
    if blank:
        return "\x1b[32m+\x1b[0m " if view.definite[cell] else "\x1b[2m.\x1b[0m "
    underline = ";4" if cell == view.last else ""
    return f"\x1b[{ANSI_STYLES[view.kind(cell)]}{underline}m{_symbol(view, cell)}\x1b[0m "


def _symbol(view: BoardView, cell: int) -> str:
    return SYMBOLS[view.board[cell] - 1] if view.board[cell] > 0 else "?"


@cache
def _font(height: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(height)


def _cell_pixels(size: int, pixels: int | None) -> int:
    return max(12, round((max(480, 48 * size) if pixels is None else pixels) / size))


def _board_image(view: BoardView, side: int) -> Image.Image:
    """The board with cells of `side` pixels and a margin."""
    n = view.size
    box_rows, box_columns = geometry(n).box_rows, geometry(n).box_columns
    thick = min(4, max(2, side // 16))
    margin, end = 2 * thick, 2 * thick + n * side
    image = Image.new("RGB", (end + margin, end + margin), PAPER)
    draw = ImageDraw.Draw(image)
    corners = [(margin + cell % n * side, margin + cell // n * side) for cell in range(n * n)]
    for cell, (left, top) in enumerate(corners):
        draw.rectangle((left, top, left + side, top + side), fill=PAPERS.get(view.kind(cell), PAPER))
        _draw_content(draw, view, cell, left, top, side)
    for at in range(margin + side, end, side):
        draw.line((at, margin, at, end), LINE)
        draw.line((margin, at, end, at), LINE)
    for at in range(margin + box_columns * side, end, box_columns * side):
        draw.line((at, margin, at, end), INK, thick)
    for at in range(margin + box_rows * side, end, box_rows * side):
        draw.line((margin, at, end, at), INK, thick)
    half = thick // 2
    draw.rounded_rectangle((margin - half, margin - half, end + half, end + half), thick, outline=INK, width=thick)
    if view.last is not None:
        left, top = corners[view.last]
        color = WRONG_INK if view.wrong[view.last] else LAST
        draw.rounded_rectangle((left, top, left + side, top + side), side // 8, outline=color, width=thick + 1)
    return image


def _draw_content(draw: ImageDraw.ImageDraw, view: BoardView, cell: int, left: int, top: int, side: int) -> None:
    center = (left + side / 2, top + side / 2)
    if view.board[cell] == 0:
        if view.definite[cell]:
            radius = side / 14
            box = (center[0] - radius, center[1] - radius, center[0] + radius, center[1] + radius)
            draw.ellipse(box, fill=DEFINITE_DOT)
        return
    bold = max(1, side // 45) if view.givens[cell] else 0
    symbol, color = _symbol(view, cell), INKS[view.kind(cell)]
    draw.text(center, symbol, color, _font(round(side * 0.58)), anchor="mm", stroke_width=bold)
    if view.order[cell] and side >= SMALLEST_NUMBERED:
        corner = (left + side * 0.1, top + side * 0.08)
        draw.text(corner, str(view.order[cell]), FAINT, _font(min(15, max(8, round(side * 0.2)))), anchor="lt")


def _frame(view: BoardView, step: int, steps: int, pixels: int | None) -> Image.Image:
    """The board, a line that says what happened, and a legend."""
    board = _board_image(view, _cell_pixels(view.size, pixels))
    text = max(10, board.width // 30)
    image = Image.new("RGB", (board.width, board.height + 4 * text), PAPER)
    image.paste(board)
    draw = ImageDraw.Draw(image)
    draw.text((text / 2, board.height + text * 1.2), _caption(view, step, steps), INK, _font(text), anchor="lm")
    at = text / 2
    for color, label in LEGEND:
        middle = board.height + text * 2.9
        draw.rectangle((at, middle - text * 0.4, at + text * 0.8, middle + text * 0.4), fill=color, outline=LINE)
        draw.text((at + text * 1.2, middle), label, FAINT, _font(round(text * 0.85)), anchor="lm")
        at += text * 2.2 + draw.textlength(label, _font(round(text * 0.85)))
    return image


def _caption(view: BoardView, step: int, steps: int) -> str:
    if step == 0:
        return f"the puzzle: {int(view.definite.sum())} of {int((view.board == 0).sum())} blanks are definite"
    count = int((view.order == step).sum())
    if count == 0:
        return f"step {step} of {steps}: outside the map"
    if view.last is None:
        return f"step {step} of {steps}: {count} cells at once"
    verdict = "wrong" if view.wrong[view.last] else "not definite" if view.guessed[view.last] else "definite"
    return f"step {step} of {steps}: {_symbol(view, view.last)} in {cell_name(view.last, view.size)}, {verdict}"
