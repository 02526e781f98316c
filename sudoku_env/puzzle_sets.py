"""Frozen sets of puzzles: by tier and split, or for the package, with an audit of the files as they lie.

A folder holds a CSV file for each size and split, `sudoku9x9_test.csv`, and `puzzles.sha256`. `read_puzzles` reads it.
"""

import csv
import hashlib
import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sudoku_env.board import to_string
from sudoku_env.errors import PuzzleParseError, SudokuError
from sudoku_env.generator import DEFAULT_CLUES, generate, rule_bounds
from sudoku_env.logic import RULES
from sudoku_env.puzzles import Puzzles, read_puzzles
from sudoku_env.rating import rate_batch
from sudoku_env.records import TIER_COLUMN
from sudoku_env.solver import solve_batch
from sudoku_env.split import SPLITS, grid_key, split_of

COLUMNS = ("puzzle", "solution", "clues", "rule", TIER_COLUMN)
CHECKSUMS = "puzzles.sha256"
PACKAGE_COUNTS = {4: 500, 6: 1000, 9: 1000, 16: 100}


@dataclass(frozen=True)
class Tier:
    """Puzzles whose hardest rule, in the sense of `generate(rule=rule, exact=True)`, is of one kind.

    Attributes:
        rule: A rule or group of `logic`; the tier is named so.
        counts: Number of puzzles in train, validation and test.
        clues: Number of clues, drawn uniformly from this range; None: as few as the rule lets be.
    """

    rule: str
    counts: tuple[int, int, int]
    clues: tuple[int, int] | None = None


TIERS: dict[int, tuple[Tier, ...]] = {
    4: (Tier("singles", (600, 200, 200), (4, 8)),),
    6: (
        Tier("singles", (1200, 400, 400), (10, 18)),
        *(Tier(rule, (300, 100, 100)) for rule in ("locked", "wings", "patterns", "backbone")),
    ),
    9: (
        Tier("singles", (1200, 400, 400), (24, 36)),
        *(
            Tier(rule, (600, 200, 200))
            for rule in ("locked", "pairs", "triples", "fish", "wings", "patterns", "backbone")
        ),
    ),
}


def splits_up_to_symmetry(size: int) -> bool:
    """Whether the sets of a size are split by classes of grids; 4×4 has two, so there the grids themselves are."""
    return size > 4


def distinct(puzzles: Puzzles) -> Puzzles:
    """The puzzles without repetitions, in order of first occurrence."""
    _, first = np.unique(puzzles.boards, axis=0, return_index=True)
    order = np.sort(first)
    return Puzzles(puzzles.boards[order], puzzles.solutions[order])


def draw_by_split(
    size: int,
    counts: tuple[int, int, int],
    *,
    clues: int | tuple[int, int] | None,
    rule: str,
    exact: bool,
    seed: int,
    threads: int = 1,
    rounds: int = 20,
) -> dict[str, Puzzles]:
    """Distinct puzzles for train, validation and test, in the order of generation; the arguments are `generate`'s.

    In each round as many are generated as are wanted in all, by the next seed.

    Raises:
        SudokuError: A split did not fill up.
        BoardError: `generate` refuses an argument, or finds too few such puzzles.
    """
    boards: dict[str, list[np.ndarray]] = {name: [] for name in SPLITS}
    wanted = dict(zip(SPLITS, counts, strict=True))
    seen: set[bytes] = set()
    for step in range(rounds):
        pool = generate(
            sum(counts),
            size=size,
            clues=clues,
            rule=rule,
            exact=exact,
            seed=seed + step,
            threads=threads,
            attempts=100_000,
        )
        for board, solution in zip(pool.boards, pool.solutions, strict=True):
            name = split_of(solution, up_to_symmetry=splits_up_to_symmetry(size))
            if len(boards[name]) < wanted[name] and board.tobytes() not in seen:
                seen.add(board.tobytes())
                boards[name].append(np.stack([board, solution]))
        if all(len(boards[name]) == wanted[name] for name in SPLITS):
            stacked = {name: np.array(pairs, np.uint8).reshape(-1, 2, size * size) for name, pairs in boards.items()}
            return {name: Puzzles(pairs[:, 0], pairs[:, 1]) for name, pairs in stacked.items()}
    found = {name: len(pairs) for name, pairs in boards.items()}
    raise SudokuError(f"only {found} of {wanted} puzzles in {rounds} rounds; ask for fewer, or for more clues")


def to_rows(puzzles: Puzzles, tier: str) -> list[dict[str, Any]]:
    """The rows of a file, one a puzzle, with the keys `COLUMNS` in this order; clues are numbers, the others texts."""
    hardest, _ = rate_batch(puzzles.boards)
    return [
        {
            "puzzle": to_string(board),
            "solution": to_string(solution),
            "clues": int((board > 0).sum()),
            "rule": RULES[rule],
            TIER_COLUMN: tier,
        }
        for board, solution, rule in zip(puzzles.boards, puzzles.solutions, hardest, strict=True)
    ]


def write_sets(folder: Path, tiers: dict[int, tuple[Tier, ...]], *, seed: int, threads: int = 1) -> None:
    """Draw all tiers and write a file for each size and split, and the checksums."""
    checksums = []
    for size, of_size in tiers.items():
        drawn = [
            draw_by_split(
                size,
                tier.counts,
                clues=tier.clues,
                rule=tier.rule,
                exact=True,
                seed=seed + 1000 * number,
                threads=threads,
            )
            for number, tier in enumerate(of_size)
        ]
        for name in SPLITS:
            path = folder / f"sudoku{size}x{size}_{name}.csv"
            text = io.StringIO()
            writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
            writer.writeheader()
            for sets, tier in zip(drawn, of_size, strict=True):
                writer.writerows(to_rows(sets[name], tier.rule))
            write_text(path, text.getvalue())
            checksums.append(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n")
    write_text(folder / CHECKSUMS, "".join(checksums))


def write_package_sets(folder: Path, *, seed: int) -> None:
    """Write the sets that travel in the package, which `puzzles.default_puzzles` reads."""
    for size, count in PACKAGE_COUNTS.items():
        drawn = distinct(generate(2 * count, size=size, clues=DEFAULT_CLUES[size], rule="singles", seed=seed))
        if len(drawn) < count:
            raise SudokuError(f"only {len(drawn)} of {count} distinct puzzles of size {size}; try another seed")
        lines = [f"{to_string(b)},{to_string(s)}" for b, s in zip(drawn.boards, drawn.solutions, strict=True)]
        write_text(folder / f"sudoku{size}x{size}.csv", "\n".join(["puzzle,solution", *lines[:count], ""]))


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8", newline="")
    os.replace(partial, path)


def audit_sets(folder: Path, tiers: dict[int, tuple[Tier, ...]] = TIERS) -> list[str]:
    """Check the files of `write_sets` as they lie.

    Every file has the checksum written down; every puzzle has one solution, which is the one given, the number of clues
    and the hardest rule that the columns say and its tier allows; tiers have the size asked for; no puzzle occurs twice
    and no grid (4×4) or class of grids up to symmetry (other sizes) occurs in two splits.

    Returns:
        What is wrong, a line each; empty if all is well.
    """
    problems = []
    names = [f"sudoku{size}x{size}_{name}.csv" for size in tiers for name in SPLITS]
    sums = folder / CHECKSUMS
    lines = [line.split() for line in sums.read_text(encoding="utf-8").splitlines()] if sums.exists() else []
    if [line[-1] for line in lines] != names:
        problems.append(f"{sums}: names {[line[-1] for line in lines]}, expected {names}")
    for digest, name in lines:
        path = folder / name
        if not path.exists() or hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            problems.append(f"{path}: missing, or its checksum is not {digest}")
    if problems:
        return problems
    for size, of_size in tiers.items():
        seen_puzzles: set[str] = set()
        seen_grids: dict[bytes, str] = {}
        for place, name in enumerate(SPLITS):
            path = folder / f"sudoku{size}x{size}_{name}.csv"
            with path.open(encoding="utf-8", newline="") as file:
                rows = list(csv.DictReader(file))
            try:
                puzzles = read_puzzles(path)
            except PuzzleParseError as error:
                problems.append(str(error))
                continue
            problems += _audit_file(path, rows, puzzles, of_size, place)
            before = len(seen_puzzles)
            seen_puzzles |= {row["puzzle"] for row in rows}
            repeated = len(rows) - (len(seen_puzzles) - before)
            problems += [f"{path}: {repeated} puzzles occurred before"] * bool(repeated)
            shared = set()
            for solution in puzzles.solutions:
                key = grid_key(solution, splits_up_to_symmetry(size))
                shared |= {seen_grids.setdefault(key, name)} - {name}
            problems += [f"{path}: shares grids with {sorted(shared)}"] * bool(shared)
    return problems


def _audit_file(
    path: Path, rows: list[dict[str, str]], puzzles: Puzzles, tiers: tuple[Tier, ...], place: int
) -> list[str]:
    """What is wrong with the puzzles of a file, taken one by one, and with their number by tier."""
    counts = solve_batch(puzzles.boards, limit=2)[1]
    hardest, _ = rate_batch(puzzles.boards)
    clues, cells = (puzzles.boards > 0).sum(1), puzzles.boards.shape[1]
    limits = {tier.rule: (*rule_bounds(tier.rule, True), *(tier.clues or (1, cells))) for tier in tiers}
    said_tiers = [row[TIER_COLUMN] for row in rows]
    named = np.array([tier in limits for tier in said_tiers])
    lowest, highest, fewest, most = np.array([limits.get(tier, (99, 0, 99, 0)) for tier in said_tiers]).T
    checks = {
        "have not exactly one solution": counts != 1,
        "have another number of clues than it says": clues.astype(str) != np.array([row["clues"] for row in rows]),
        "have a number of clues outside their tier's": (clues < fewest) | (clues > most),
        "need another hardest rule than it says": np.array(
            [RULES[rule] != row["rule"] for rule, row in zip(hardest, rows, strict=True)]
        ),
        "are of another tier": ~named | (hardest < lowest) | (hardest > highest),
    }
    problems = [f"{path}: {np.sum(wrong)} puzzles {what}" for what, wrong in checks.items() if np.any(wrong)]
    for tier in tiers:
        found = said_tiers.count(tier.rule)
        if found != tier.counts[place]:
            problems.append(f"{path}: {found} puzzles of tier {tier.rule}, expected {tier.counts[place]}")
    return problems
