"""Solver, singles, sentences and reading of boards in JavaScript, held against sudoku_env."""

import csv
import functools

import numpy as np
import pytest

from sudoku_env import count_solutions, default_puzzles, definite_digits, solve
from sudoku_env.board import BoardLike, as_board, geometry, is_valid
from sudoku_env.errors import BoardError
from sudoku_env.explanation import describe_step, placement_step
from sudoku_env.kernels import ladder_state
from sudoku_env.kernels.ladder import apply_step, find_pattern
from sudoku_env.kernels.ladder_state import BACKBONE, HIDDEN_SINGLE, NAKED_SINGLE, ladder_table, load, new_work
from sudoku_env.kernels.search_state import new_search
from sudoku_env.logic import candidates, definite_cells

IMPOSSIBLE = ".....5.8....6.1.43..........1.5........1.6...3.......553.....61........4........."


def thinned(size: int, count: int) -> list[np.ndarray]:
    """Puzzles, some with clues taken away, some with a digit written in: of all four kinds."""
    rng = np.random.default_rng(0)
    made = []
    for board in default_puzzles(size).boards[:count]:
        board = board.copy()
        board[rng.choice(np.flatnonzero(board), rng.integers(3), replace=False)] = 0
        if rng.random() < 0.5:
            board[rng.choice(np.flatnonzero(board == 0))] = rng.integers(1, size + 1)
        made.append(board)
    return made


def kind_of(board: BoardLike) -> str:
    if not is_valid(board):
        return "invalid"
    return ("unsolvable", "unique", "ambiguous")[min(count_solutions(board), 2)]


def test_the_kinds_of_boards_are_those_of_the_solver(node) -> None:
    boards = [board for size in (4, 6, 9) for board in thinned(size, 40)]
    boards += [as_board(IMPOSSIBLE), np.zeros(81, np.uint8)]
    found = node("judge", puzzles=[board.tolist() for board in boards])
    assert [one["kind"] for one in found] == [kind_of(board) for board in boards]
    assert {one["kind"] for one in found} == {"invalid", "unsolvable", "unique", "ambiguous"}
    for board, one in zip(boards, found, strict=True):
        if one["kind"] == "unique":
            assert one["solution"] == solve(board).tolist()


@pytest.mark.parametrize(("size", "clues"), [(4, 5), (6, 11), (9, 28)])
def test_new_puzzles_have_one_solution_and_few_clues(node, size, clues) -> None:
    numbers = list(range(12))
    found = node("generate", size=size, seeds=numbers)
    assert found[0] == node("generate", size=size, seeds=numbers[:1])[0]
    assert len({tuple(board) for board in found}) == 12
    assert len({tuple(solve(board)) for board in found}) == 12
    for board in found:
        assert count_solutions(board) == 1
        given = np.flatnonzero(board)
        fewer = ([0 if cell == left else digit for cell, digit in enumerate(board)] for left in given)
        assert len(given) == clues or (len(given) > clues and all(count_solutions(each) > 1 for each in fewer))
    assert sum(np.count_nonzero(board) == clues for board in found) > 6


@functools.cache
def puzzles_of_all_tiers(count: int) -> list[np.ndarray]:
    """Of each size and tier of the frozen test sets, the first puzzles."""
    found = []
    for size in (4, 6, 9):
        seen: dict[str, int] = {}
        with open(f"data/puzzles/sudoku{size}x{size}_test.csv", newline="") as file:
            for row in csv.DictReader(file):
                seen[row["tier"]] = seen.get(row["tier"], 0) + 1
                if seen[row["tier"]] <= count:
                    found.append(as_board(row["puzzle"]))
    return found


def blanks_of(board: np.ndarray) -> list:
    """The board, a blank cell and its digit, for each blank."""
    solution = solve(board)
    return [[board.tolist(), cell, int(solution[cell])] for cell in np.flatnonzero(board == 0).tolist()]


def test_a_cell_is_forced_by_the_rules_that_force_it_in_python(node) -> None:
    cells = [blank for board in puzzles_of_all_tiers(1) for blank in blanks_of(board)]
    found = node("forced", cells=cells)
    for (digits, cell, digit), forced in zip(cells, found, strict=True):
        board = np.array(digits, np.uint8)
        assert definite_cells(board, forced["rule"])[cell] == digit
        assert (forced["rule"] == "backbone") == (definite_cells(board, "fish")[cell] == 0)
    rules = {forced["rule"] for forced in found}
    assert rules >= {"naked_single", "hidden_single", "pointing", "naked_pair", "backbone"}


def test_what_is_removed_before_a_single_is_in_no_solution_and_makes_it_one(node) -> None:
    cells = []
    for board in puzzles_of_all_tiers(2):
        digits = definite_cells(board, "fish")
        beyond = np.flatnonzero(digits > definite_digits(board)).tolist()
        cells += [[board.tolist(), cell, int(digits[cell])] for cell in beyond]
    assert len(cells) > 20
    for (board, cell, digit), forced in zip(cells, node("forced", cells=cells), strict=True):
        left, solution = candidates(np.array(board, np.uint8)), solve(board).tolist()
        for other, digits in (pair for pattern in forced["removed"] for pair in pattern):
            assert not (digits >> (solution[other] - 1)) & 1
            left[other] &= [not (digits >> index) & 1 for index in range(left.shape[1])]
        units = geometry(left.shape[1])
        places = [left[units.units[unit], digit - 1].sum() for unit in units.units_of[cell]]
        assert left[cell, digit - 1] and (left[cell].sum() == 1 or 1 in places)


def test_sentences_of_patterns_are_those_of_explain(node) -> None:
    boards = puzzles_of_all_tiers(2)
    expected = [pattern_sentences(board) for board in boards]
    assert node("patterns", puzzles=[board.tolist() for board in boards]) == expected
    titles = {sentence.split(":")[0] for sentences in expected for sentence in sentences}
    assert titles >= {"Pointing", "Claiming", "Naked pair", "Hidden pair", "Naked triple", "X-wing"}


def pattern_sentences(board: np.ndarray) -> list[str]:
    """The eliminations by rules up to fish, one after the other, no digit being placed."""
    size = int(board.size**0.5)
    table, work, search, found = ladder_table(size), new_work(size), new_search(size), []
    load(board, table, work)
    while (rule := int(find_pattern(table, work, ladder_state.JELLYFISH, search))) >= 0:
        found.append(str(describe_step(rule, work, size)))
        apply_step(table, work, rule)
    return found


def test_sentences_of_singles_and_backbone_are_those_of_explain(node) -> None:
    cells = [blank for size in (4, 6, 9) for board in default_puzzles(size).boards[:6] for blank in blanks_of(board)]
    found = node("forced", cells=cells)
    for (board, cell, digit), forced in zip(cells, found, strict=True):
        if forced["rule"] in ("naked_single", "hidden_single", "backbone"):
            assert forced["text"] == sentence(np.array(board, np.uint8), cell, digit)
    assert {forced["text"].split(":")[0] for forced in found} >= {"Naked single", "Hidden single", "Backbone"}


def sentence(board: np.ndarray, cell: int, digit: int) -> str:
    """The sentence of the easiest of the three rules that the page covers."""
    table = geometry(int(board.size**0.5))
    options = candidates(board)[:, digit - 1]
    if candidates(board)[cell].sum() == 1:
        return str(placement_step(NAKED_SINGLE, cell, digit, [], board))
    if definite_digits(board)[cell]:
        unit = next(int(unit) for unit in table.units_of[cell] if options[table.units[unit]].sum() == 1)
        return str(placement_step(HIDDEN_SINGLE, cell, digit, [unit], board))
    return str(placement_step(BACKBONE, cell, digit, [], board))


def test_a_digit_that_nothing_forces_has_no_sentence(node) -> None:
    board = default_puzzles(6).boards[0]
    cell = int(np.flatnonzero(board == 0)[0])
    wrong = int(solve(board)[cell]) % 6 + 1
    blank = np.zeros(36, np.uint8)
    assert node("forced", cells=[[board.tolist(), cell, wrong], [blank.tolist(), 0, 1]]) == [None, None]


@pytest.mark.parametrize(
    "text",
    [
        "1..4..1221...3..",
        "1 . . 4\n. . 1 2\n2 1 . .\n. 3 . .",
        "1 .|. 4\n. .|1 2\n---+---\n2 1|. .\n. 3|. .",
        "1004001221000300",
        "1??4??1221???3??",
    ],
)
def test_boards_are_read_as_in_python(node, text) -> None:
    assert node("parse", texts=[text]) == [as_board(text).tolist()]


@pytest.mark.parametrize("text", ["1..4", "1..4..1221...3.5", "1..4..1221...3.!"])
def test_what_is_no_board_is_refused_with_its_fault(node, text) -> None:
    with pytest.raises(BoardError):
        as_board(text)
    assert isinstance(node("parse", texts=[text])[0], str)
