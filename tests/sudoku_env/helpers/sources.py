"""Sources of puzzles that many tests use."""

from sudoku_env import PuzzlePool, Puzzles, default_puzzles


def shuffled_pool(size):
    """The puzzles of the package, rearranged at every reset."""
    return PuzzlePool(default_puzzles(size), shuffled=True)


def fixed_pool(size):
    """The puzzles of the package as they are."""
    return PuzzlePool(default_puzzles(size))


def pool_of(boards):
    """These boards as they are."""
    return PuzzlePool(Puzzles.of(boards))
