"""The forms in which people keep puzzles: what is read of each, or what its refusal says."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudoku_env import generate, read_puzzles
from sudoku_env.board import SIZES, SYMBOLS, format_board, to_string
from sudoku_env.envs.rendering import render_ansi, trace_views
from sudoku_env.errors import BoardError, PuzzleParseError
from sudoku_env.reading import boards_in, read_boards
from sudoku_env.records import DIGITS
from tests.helpers.refusals import refused

P = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
S = "534678912672195348198342567859761423426853791713924856961537284287419635345286179"
Z = P.replace(".", "0")
ROWS = [P[start : start + 9] for start in range(0, 81, 9)]
SPACED = [" ".join(row) for row in ROWS]
LINES = "\n".join(ROWS)
RULED = "\n".join("|".join(row[k : k + 3] for k in (0, 3, 6)) for row in ROWS)
FOUR, SIX = "1..4..1221...3..", "43265165123..243163..42524516..6.5.2"
G16 = generate(1, size=16, clues=150, seed=0)
PUZZLE16, GRID16 = to_string(G16.boards[0]), to_string(G16.solutions[0])
HEX_GRID = GRID16.translate(str.maketrans(SYMBOLS, DIGITS["0-F"]))
HEX = PUZZLE16.translate(str.maketrans(SYMBOLS, DIGITS["0-F"]))
A_P = PUZZLE16.translate(str.maketrans(SYMBOLS, DIGITS["A-P"]))
SPARSE16 = "\n".join(["1..............."] + ["................"] * 15)


def banded(rule: str, rows: list[str]) -> str:
    return "\n".join([rule, *rows[:3], rule, *rows[3:6], rule, *rows[6:], rule])


READ = {
    "a board": (P, [P]),
    "zeros": (Z, [P]),
    "question marks": (P.replace(".", "?"), [P]),
    "underscores": (P.replace(".", "_"), [P]),
    "stars": (P.replace(".", "*"), [P]),
    "middle dots": (P.replace(".", "·"), [P]),
    "one a line (.sdm)": (f"{P}\n{Z}\n", [P, P]),
    "Windows ends": (f"{P}\r\n\r\n{Z}\r\n", [P, P]),
    "byte order mark": (f"\ufeff{P}\n", [P]),
    "UTF-16": (f"{P}\n".encode("utf-16"), [P]),
    "comments": (f"# mine\n{P}  # easy\n", [P]),
    "exchange bank": (f"0000183b305c {Z}  1.2\n00018fb5ab0e {Z}  2.0\n", [P, P]),
    "hash of digits": (f"000018313052 {Z}  1.2\n", [P]),
    "name and tab": (f"Golden Nugget\t{P}\t11.9\n", [P]),
    "with solutions, no header": (f"{Z},{S}\n", [P]),
    "XML": (f'<game data="{Z}" />', [P]),
    "sizes in turn": (f"{FOUR}\n{SIX}\n{P}", [FOUR, SIX, P]),
    "nine rows (.sdk)": (f"#ASomebody\n#DEasy\n{LINES}\n", [P]),
    "sections (.sdk)": (f"[Puzzle]\n{LINES}\n[State]\n{S}\n", [P]),
    "titles": (f"Grid 01\n{LINES}\nGrid 02\n{LINES}", [P, P]),
    "empty lines between grids": (f"{LINES}\n\n{LINES}\n", [P, P]),
    "empty lines between bands": ("\n\n".join("\n".join(ROWS[k : k + 3]) for k in (0, 3, 6)), [P]),
    "rules (.ss)": (banded("-----------", RULED.split("\n")), [P]),
    "qqwing": (banded("-------+-------+-------", [f" {r[:5]} | {r[6:11]} | {r[12:]} " for r in SPACED]), [P]),
    "box drawing": (banded("├───┼───┤", [f"│{r[:3]}│{r[3:6]}│{r[6:]}│" for r in ROWS]), [P]),
    "a table": ("\n".join(f"| {' | '.join(row)} |" for row in ROWS).replace(".", " "), [P]),
    "commas": ("\n".join(",".join(row) for row in ROWS), [P]),
    "empty cells between commas": ("\n".join(",".join(row) for row in ROWS).replace(".", ""), [P]),
    "empty cells between tabs": ("\n".join("\t".join(row) for row in ROWS).replace(".", ""), [P]),
    "spaces": ("\n".join(SPACED), [P]),
    "81 cells apart": (" ".join(P), [P]),
    "16x16": (PUZZLE16, [PUZZLE16]),
    "16x16 in rows": (format_board(G16.boards[0]), [PUZZLE16]),
    "16x16 in numbers": (" ".join(map(str, G16.boards[0])), [PUZZLE16]),
    "A-P": (A_P, [PUZZLE16]),
    "quizzes,solutions": (f"quizzes,solutions\n{Z},{S}\n", [P]),
    "names in capitals": (f"Puzzle,Solution\n{Z},{S}\n", [P]),
    "question;answer": (f"id;question;answer;rating\n7;{P};{S};1.5\n", [P]),
    "a column alone": (f"puzzle\n{P}\n{P}\n", [P, P]),
    "quoted grid": (f'id,puzzle,source\n1,"{LINES}",me\n', [P]),
    "JSON text": (json.dumps({"puzzle": P, "solution": S}), [P]),
    "JSON rows": (json.dumps(ROWS), [P]),
    "JSON numbers": (json.dumps([[int(cell) for cell in Z[k : k + 9]] for k in range(0, 81, 9)]), [P]),
    "JSON list": (json.dumps([P, P]), [P, P]),
    "JSON lists of 81": (json.dumps([list(map(int, Z)), list(map(int, Z))]), [P, P]),
    "JSON grids": (json.dumps([{"board": ROWS}, {"board": [list(row) for row in ROWS]}]), [P, P]),
    "JSON, 16 rows": (json.dumps(G16.boards[0].reshape(16, 16).tolist()), [PUZZLE16]),
    "JSON lines": (f'{{"id": 1, "board": "{P}"}}\n{{"board": {json.dumps(list(P))}}}\n', [P, P]),
    "a list that Python prints": (str(np.array(G16.boards[0]).reshape(16, 16)), [PUZZLE16]),
    "a fence": (f"```\n{LINES}\n```\n", [P]),
    "A-D": ("A..D..ABBA...C..", [FOUR]),
    "prompts": (json.dumps({"prompt": f"Please solve\n\n{LINES}\n"}), [P]),
}


@pytest.mark.parametrize("form", READ)
def test_what_people_keep_is_read(form):
    content, boards = READ[form]
    assert [to_string(board) for board in boards_in(content, "mine").boards] == boards


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "mine holds no puzzle; give cells row by row"),
        ("# nothing\n", "mine holds no puzzle"),
        (f"{P}\n{P}1\n", "mine, line 2: '53.*'… is neither a board nor a row of one: 82 cells, where a board has"),
        (f"{P}\n{P[:-1]}Q\n", "mine, line 2: row 9, column 9: 'Q' is neither a digit nor a blank"),
        (f"{P}\n11{P[2:]}\n", "mine, line 2: row 1, column 1 and row 1, column 2 share a unit and both hold 1"),
        (f"{P}\nHello there\n", "mine, line 2: 'Hello there' is neither a board"),
        ("." * 25, "25 cells \\(5×5\\), where a board has 16, 36, 81, 256"),
        ("\n".join(ROWS[:8]), "mine, lines 1 to 8: 8 rows of 9 cells; a 9×9 board has 9 rows of 9"),
        ("\n".join([*ROWS[:4], "53..7...", *ROWS[5:]]), "mine, lines? .*: 4 rows of 9 cells|line 5: '53..7...'"),
        ("\n".join(["Grid 01", *ROWS[:8], "Grid 02", *ROWS]), "mine, lines 2 to 9: 8 rows of 9 cells"),
        ("\n".join([*ROWS[:8], "", *ROWS]), "mine, lines 1 to 8: 8 rows of 9 cells"),
        (f"id,text\n1,{P}\n", "mine, line 1: no column of puzzles \\(puzzle, .*\\) among \\['id', 'text'\\]; name the"),
        (f"puzzle,quiz\n{P},{P}\n", "mine, line 1: columns \\['puzzle', 'quiz'\\], not one, among"),
        (f"id,quizzes\n1,{P}\n\n2,12\n", "mine, line 4, column quizzes: 2 cells do not make a board"),
        (f"id,quizzes\n1,{P}\n2\n", "mine, line 3, column quizzes: None is no quizzes; give"),
        (f",quizzes,solutions\n{Z},{S}\n", "line 2, column quizzes: 2 fields where the header names 3; write one"),
        (f'puzzle,id\n"{P}\n', "mine, line 2: not CSV .*; close each quotation mark"),
        (f"puzzle,solution\n{P},{S[:-1]}8\n", "column puzzle: .* row 9, column 9 is 8 in it and 9 in the puzzle"),
        (f"puzzle,solution\n{P},{S[:-1]}.\n", "row 9, column 9 is blank in it"),
        (f"puzzle,solution\n{P},{S.replace('4', '2', 1)}\n", "the solution beside the puzzle has a digit twice"),
        (f"{P[1:]},{S}\n", "mine, line 1: it holds a full grid, and what is beside it is no puzzle"),
        (f"{P[:9]}z{P[10:]},{S}\n", "mine, line 1: it holds a full grid, and what is beside it is no puzzle"),
        ("5,3,,,,7,,,,\n" * 9, "mine, line 1: '5,3,,,,7,,,,' is neither a board nor a row of one"),
        (f"{P} {P[:-1]}.\n", "mine, line 1: 2 boards in a line; give one, and its solution behind it"),
        (b"\x89PNG\r\n", "mine, line 1: no text in UTF-8 \\(invalid start byte at byte 1\\)"),
        (f'{{"puzzle": "{P}"\n', "mine.*: not JSON"),
        (f'{{"puzzle": "{P}"}}\n{{"puzzle"\n', "mine, line 2: not JSON"),
        (f'{{"text": "{P}"}}', "no key of puzzles \\(puzzle, .*\\) among \\['text'\\]"),
        (json.dumps([[0] * 16] * 16), "mine: 16 lines of 16 cells are as many 4×4 boards"),
        (SPARSE16, "mine: 16 lines of 16 cells are as many 4×4 boards or the rows of 16×16; say which by --size 4 or"),
        (f"{'.' * 16}\t{P}", "mine, line 1: it holds boards of 16 and of 81 cells; say which by --size|mine: it holds"),
        (HEX, "16×16 cells can be read in digits 1-G and in digits 0-F; say which by --symbols 1-G or --symbols 0-F"),
        (HEX_GRID, "digits 1-G and in digits 0-F; say which by --symbols"),
        (PUZZLE16.replace("G", "."), "digits 1-G and in digits 0-F; say which by --symbols 1-G or --symbols 0-F"),
        ("AB" + "." * 254, "digits 1-G and in digits A-P; say which by --symbols 1-G or --symbols A-P"),
    ],
)
def test_what_is_no_puzzle_is_named(content, told):
    refused(told, lambda: boards_in(content, "mine"), PuzzleParseError)


def test_what_tells_two_readings_apart_is_taken():
    assert [len(boards_in(SPARSE16, "mine", size=size).boards) for size in (4, 16)] == [16, 1]
    assert (boards_in(HEX_GRID, "mine", symbols="0-F").boards[0] == G16.solutions[0]).all()
    assert (boards_in(HEX.upper() + "\n" + HEX.lower(), "mine", symbols="0-F").stacked == G16.boards[0]).all()
    assert boards_in("AB" + "." * 254, "mine", symbols="1-G").boards[0].max() == 11
    assert boards_in("AB" + "." * 254, "mine", symbols="A-P").boards[0].max() == 2
    unknown = "symbols='hex' is unknown; choose one of 1-G, 0-F, A-P"
    refused(unknown, lambda: boards_in(P, "mine", symbols="hex"), PuzzleParseError)


def test_the_rest_is_kept_where_asked_and_what_was_read_is_said(tmp_path):
    (tmp_path / "set.csv").write_text(f"id,question,answer\n1,{P},{S}\n2,12,\n3,{Z},\n", encoding="utf-8")
    found = read_boards(tmp_path / "set.csv", skip_bad=True)
    assert str(found) == "2 puzzles of 9×9 from column question, 1 with a solution that fits; 1 left out"
    assert [fault.split(": ")[0] for fault in found.faults] == [f"{tmp_path / 'set.csv'}, line 3, column question"]
    assert found.solutions[1] is None and found.places == ["line 2, column question", "line 4, column question"]
    refused("is a folder", lambda: read_boards(tmp_path), IsADirectoryError)


def test_puzzles_have_the_files_solutions_or_the_solvers(tmp_path):
    path = tmp_path / "set"
    path.write_text(f"tier,puzzle,solution\na,{P},{S}\nb,{Z},{S}\n", encoding="utf-8")
    assert len(read_puzzles(path)) == 2 and len(read_puzzles(str(path), tier="b")) == 1
    assert to_string(read_puzzles(path).solutions[0]) == S
    refused(r"no puzzle of tier 'c'; there are \['a', 'b'\]", lambda: read_puzzles(path, tier="c"), PuzzleParseError)
    path.write_text(LINES, encoding="utf-8")
    assert to_string(read_puzzles(path).solutions[0]) == S
    refused("no column 'tier'", lambda: read_puzzles(path, tier="a"), PuzzleParseError)
    path.write_text(f"{FOUR}\n{P},{S}\n", encoding="utf-8")
    with pytest.raises(BoardError):
        read_puzzles(path)
    path.write_text("." * 16, encoding="utf-8")
    refused("board 0 has more than one solution", lambda: read_puzzles(path), BoardError)
    assert len(read_puzzles(path, answers="any")) == 1


WRITERS = {
    "solve and generate": to_string,
    "--grid": lambda board: format_board(board) + "\n",
    "a box of decode": lambda board: render_ansi(trace_views(board[None], None)[0], color=False),
    "a box of decode in a terminal": lambda board: render_ansi(trace_views(board[None], None)[0]),
    "numbers": lambda board: "\n".join(" ".join(map(str, row)) for row in board.reshape(round(board.size**0.5), -1)),
    "lists": lambda board: json.dumps(board.tolist()),
    "columns": lambda board: f"puzzle\n{to_string(board)}",
}


@settings(max_examples=40)
@given(st.sampled_from(SIZES), st.integers(0, 2**32), st.sampled_from(list(WRITERS)), st.floats(0, 1))
def test_what_the_program_writes_it_reads(size, seed, writer, share):
    rng = np.random.default_rng(seed)
    grid = generate(1, size=size, clues=size * size, seed=seed).solutions[0]
    board = np.where(rng.random(grid.size) < share, grid, 0).astype(np.uint8)
    read = boards_in(WRITERS[writer](board), "mine", size=size, symbols="1-G").boards
    assert len(read) == 1 and (read[0] == board).all()


@settings(max_examples=300)
@given(st.data(), st.sampled_from([form for form in READ if isinstance(READ[form][0], str)]))
def test_one_wrong_character_is_refused_or_costs_one_cell(data, form):
    """And so never moves the cells behind it, nor lets a solution be taken for its puzzle."""
    content, boards = READ[form]
    place, kept = data.draw(st.integers(0, len(content) - 1)), data.draw(st.booleans())
    text = content[:place] + data.draw(st.sampled_from("0.9zQ ,|-\n\t;:+XA\"'[")) + content[place + (not kept) :]
    try:
        found = [to_string(board) for board in boards_in(text, "mine").boards]
    except PuzzleParseError:
        return
    for read in found:
        wrong = [sum(a != b for a, b in zip(read, board, strict=True)) for board in boards if len(board) == len(read)]
        assert min(wrong) <= 1
