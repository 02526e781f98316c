from collections import Counter
from itertools import combinations, permutations, product
from math import factorial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from sudoku_env.board import as_board, geometry, is_solved
from sudoku_env.errors import BoardError
from sudoku_env.generator import generate
from sudoku_env.grids import canonical_grid, reduced_grids
from sudoku_env.kernels.grids import fill_all, random_grid9
from tests.helpers.refusals import refused
from tests.sudoku_env.helpers import sudoku_reference as reference


def grids(count, size, seed):
    return generate(count, size=size, clues=size * size, seed=seed).solutions


def as_expected(counts, expected):
    """Whether counts lie no further from what is expected, and no nearer, than chance has them: but for two in 10⁶."""
    counts, expected = np.asarray(counts, float), np.broadcast_to(expected, len(counts))
    share = chi2.sf(((counts - expected) ** 2 / expected).sum(), len(counts) - 1)
    return 1e-6 < share < 1 - 1e-6


# uniformity


@pytest.mark.parametrize(("size", "count"), [(4, 288), (6, 28_200_960)])
def test_reduced_grids_account_for_all_grids(size, count):
    reduced = reduced_grids(size)
    assert len({grid.tobytes() for grid in reduced}) == len(reduced)
    assert len(reduced) * factorial(size) * factorial(size // 2) == count
    assert all(map(is_solved, reduced[:50]))
    assert (reduced[:, : size + size // 2] == [*range(1, size + 1), *range(size // 2 + 1, size + 1)]).all()


def test_reduced_4x4_grids_by_backtracking():
    start = [1, 2, 3, 4, 3, 4, *[0] * 10]
    assert {tuple(grid) for grid in reduced_grids(4)} == set(reference.solutions(start))


def test_no_reduced_grids_of_other_sizes():
    assert reduced_grids(9).shape == (0, 81)


@pytest.mark.parametrize("size", [4, 6, 9])
def test_fill_all_finds_every_solution(size):
    clues = {4: 4, 6: 9, 9: 23}[size]
    board = generate(1, size=size, clues=clues, seed=2, attempts=10_000).boards[0]
    board[np.flatnonzero(board)[:2]] = 0
    expected = sorted(reference.solutions(board))
    out = np.zeros((2 * len(expected), size * size), np.uint8)
    before = board.copy()
    units_of = geometry(size).units_of
    assert fill_all(board, units_of, np.zeros(3 * size, np.int64), out) == len(expected) > 1
    assert [tuple(solution) for solution in out[: len(expected)]] == expected
    assert (board == before).all() and not out[len(expected) :].any()
    assert fill_all(board, units_of, np.zeros(3 * size, np.int64), out[:1]) == len(expected)


def test_4x4_grids_are_equally_likely():
    counts = Counter(grid.tobytes() for grid in grids(28_800, 4, 3))
    assert len(counts) == 288
    assert as_expected(list(counts.values()), 100)


def test_6x6_grids_fall_into_classes_by_their_size():
    """A class of grids has as many members as there are symmetries, 3456 · 6!, by those that fix a member."""
    counts = Counter(canonical_grid(grid) for grid in grids(5000, 6, 3))
    assert len(counts) == 49
    sizes = {}
    for form in counts:
        images = all_images(list(form), 6)
        assert len(images) == 3456 and min(image.tobytes() for image in images) == form
        sizes[form] = 3456 * 720 // (images == np.frombuffer(form, np.uint8)).all(1).sum()
    assert sum(sizes.values()) == 28_200_960
    expected = [size * 5000 / 28_200_960 for size in sizes.values()]
    assert min(expected) > 5
    assert as_expected([counts[form] for form in sizes], expected)


def test_9x9_runs_succeed_as_often_as_there_are_grids():
    """Each of 9! · 56⁴ · 6¹² · 2⁶ runs is equally likely and each of 6.67e21 grids is the end of one."""
    rng, places, grid = np.array([7], np.uint64), np.zeros((2, 9, 9), np.int64), np.zeros(81, np.uint8)
    wanted = 5000
    runs = sum(random_grid9(rng, places, grid) for _ in range(wanted))
    share = 6_670_903_752_021_072_936_960 / (factorial(9) * 56**4 * 6**12 * 2**6)
    spread = (wanted * (1 - share)) ** 0.5 / share
    assert abs(runs - wanted / share) < 5 * spread


def test_9x9_grids_prefer_no_place():
    """Boxes are drawn one after the other; yet bands and stacks, and pairs of boxes, have to look alike."""
    made = grids(20_000, 9, 5).reshape(-1, 9, 9)
    assert as_expected(np.bincount(made[:, 4, 7], minlength=10)[1:], 20_000 / 9)
    # A band is pure if each row of its first box has, in some order, the digits of a row of its second.
    sets = (np.int64(1) << made).reshape(-1, 9, 3, 3).sum(3)  # (N, row, stack)
    pure = []
    for turned in (sets, (np.int64(1) << made.transpose(0, 2, 1)).reshape(-1, 9, 3, 3).sum(3)):
        for band in range(3):
            rows = np.sort(turned[:, 3 * band : 3 * band + 3], axis=1)
            pure.append((rows[:, :, 0] == rows[:, :, 1]).all(1).sum())
    assert as_expected(pure, np.mean(pure))
    # Two digits that swap places between two rows: the same share for every pair of bands and of stacks.
    swaps = [intercalates(made[:, rows][:, :, columns]).sum() for rows, columns in product(PAIRS, repeat=2)]
    assert as_expected(swaps, np.mean(swaps))


PAIRS = [[0, 3], [1, 7], [5, 8]]


def intercalates(squares):
    return (squares[:, 0, 0] == squares[:, 1, 1]) & (squares[:, 0, 1] == squares[:, 1, 0])


# canonical form


def all_images(grid, size):
    """Every image of a grid under band, stack, row and column orders, relabeled by first appearance: (images, n²)."""
    height, width = reference.BOXES[size]

    def orders(thickness):
        bands = [permutations(range(band, band + thickness)) for band in range(0, size, thickness)]
        return np.array([sum(lines, ()) for inner in product(*bands) for lines in permutations(inner)])

    rows, columns = orders(height), orders(width)
    square = np.asarray(grid, dtype=np.int64).reshape(size, size)
    turned = [square, square.T] if height == width else [square]
    images = np.concatenate([g[rows[:, None, :, None], columns[None, :, None, :]] for g in turned])
    images = images.reshape(-1, size * size)
    labels = np.argsort(images[:, :size], axis=1) + 1
    return np.take_along_axis(labels, images - 1, axis=1).astype(np.uint8)


def test_two_classes_of_4x4_grids():
    solved = list(reference.solutions([0] * 16))
    forms = [canonical_grid(grid) for grid in solved]
    assert len(solved) == 288 and sorted(forms.count(form) for form in set(forms)) == [96, 192]
    assert canonical_grid("1234341221434321") != canonical_grid("1234341223414123")


@settings(max_examples=60)
@given(st.sampled_from([4, 6, 9]), st.integers(0, 2**32))
def test_canonical_form_is_invariant(size, seed):
    rng = np.random.default_rng(seed)
    grid = grids(1, size, seed)[0]
    cells, digits = reference.random_symmetry(size, rng)
    form = canonical_grid(grid)
    assert canonical_grid(digits[grid[cells]]) == form == canonical_grid(list(form))
    assert len(form) == size * size and is_solved(list(form))


def test_canonical_9x9_is_an_image_and_none_is_smaller():
    """Images under random symmetries, relabeled by their first row, are never smaller than the form."""
    grid, rng = grids(1, 9, 11)[0], np.random.default_rng(0)
    form = canonical_grid(grid)
    for _ in range(300):
        cells, _ = reference.random_symmetry(9, rng)
        image = grid[cells]
        labels = np.argsort(image[:9]) + 1
        assert labels[image - 1].astype(np.uint8).tobytes() >= form
    # The grid made of shifts by 3 and 1 begins as small as can be.
    shifts = "123456789456789123789123456214365897365897214897214365531642978642978531978531642"
    assert canonical_grid(shifts)[:27] == bytes(map(int, "123456789456789123789123456"))


def test_9x9_grids_of_other_classes_have_other_forms():
    """Invariants that no symmetry changes, here the intercalates of a grid, agree with the forms."""
    made = grids(40, 9, 12)
    forms = [canonical_grid(grid) for grid in made]
    assert len(set(forms)) == 40
    for grid, form in zip(made, forms, strict=True):
        assert total_intercalates(grid) == total_intercalates(np.frombuffer(form, np.uint8))


def total_intercalates(grid):
    square, pairs = grid.reshape(1, 9, 9), list(combinations(range(9), 2))
    return sum(intercalates(square[:, rows][:, :, columns])[0] for rows in pairs for columns in pairs)


def test_canonical_grid_refuses_other_boards():
    refused("too much for size 16", lambda: canonical_grid([0] * 256), BoardError)
    refused("full grid", lambda: canonical_grid("123434122143432."), BoardError)
    refused("full grid", lambda: canonical_grid(as_board("1234341221434322")), BoardError)
