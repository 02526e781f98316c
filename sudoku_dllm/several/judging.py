"""What a model decodes on boards with several right answers: how much is valid, and what its passes are like."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from dllm_rl.decoding import Decode, Decoding, decode
from dllm_rl.decoding.settings import NamedCheck
from dllm_rl.policy import PolicyConfig
from dllm_rl.sudoku import PuzzleBatch
from sudoku_dllm.several.arguments import ScriptArguments
from sudoku_env.board import Board, geometry
from sudoku_env.logic import definite_cells
from sudoku_env.solver import completable

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
Way = tuple[int, NamedCheck | None]
"""Cells a pass, and what checks them."""
GUARDS: tuple[NamedCheck, ...] = ("rules", "completable")


@dataclass(frozen=True, eq=False)
class Ends:
    """What decodes of N boards come to, board by board.

    Attributes:
        valid: bool `(N,)`, whether a full grid without a clash came out.
        passes: int64 `(N,)`, forward passes.
    """

    valid: NDArray[np.bool_]
    passes: Ints


@dataclass(frozen=True, eq=False)
class Guarded(Ends):
    """Decodes by a check.

    Attributes:
        checks: int64 `(N,)`, how often it was asked.
        rejected: int64 `(N,)`, cells that it left masked, pass by pass.
        dead_end: bool `(N,)`, whether it passed no digit of a cell.
    """

    checks: Ints
    rejected: Ints
    dead_end: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Judged(Ends):
    """Decodes without a check. What follows counts passes that begin where a completion is left.

    Attributes:
        live: int64 `(N,)`, the passes that begin from a board that can be completed.
        joint: int64 `(N,)`, those of them after which it still can be: their tokens agree.
        pairs: int64 `(N,)`, pairs of cells that were filled in one pass.
        peer_pairs: int64 `(N,)`, those of one row, column or box.
        peer_floor: float32 `(N,)`, as many as a random choice of as many open cells would have on average.
        filled: int64 `(N,)`, cells filled.
        definite: int64 `(N,)`, those whose digit was the same in all completions.
        definite_floor: float32 `(N,)`, as many as a random choice of open cells would have on average.
    """

    live: Ints
    joint: Ints
    pairs: Ints
    peer_pairs: Ints
    peer_floor: Floats
    filled: Ints
    definite: Ints
    definite_floor: Floats


def judge(model: nn.Module, problems: PuzzleBatch, cells: int, guard: NamedCheck | None = None) -> Ends:
    """Decode boards by margin and judge what comes out.

    Args:
        model: A model as `dllm_rl.policy.score_states` takes it.
        problems: N boards with `answers="any"`.
        cells: Cells a pass.
        guard: What checks each cell that is written; None is nothing.

    Returns:
        `Judged` without a guard, `Guarded` with one.
    """
    record = decode(model, problems, Decoding("margin", tokens_per_step=cells, guard=guard))
    if guard is None:
        return judged(record)
    counts = (record.forward_passes, record.checks.sum(1), record.rejected.sum(1), record.dead_end)
    return Guarded(are_valid(problems.boards(record.responses)), *(each.cpu().numpy() for each in counts))


def judged(record: Decode) -> Judged:
    """What decodes of boards, in which no token was taken back, came to."""
    puzzles = record.problems
    assert isinstance(puzzles, PuzzleBatch)
    places = torch.tensor(puzzles.layout.cell_positions, device=record.step_of.device)
    step_of = record.step_of[:, places].cpu().numpy()  # (N, n²), -1 at clues
    digits, passes = puzzles.boards(record.responses), record.forward_passes.cpu().numpy()
    found: dict[str, Any] = {item.name: np.zeros(len(digits)) for item in fields(Judged)}
    for step in range(int(passes.max(initial=0))):
        rows = np.flatnonzero(passes > step)
        for name, values in _of_pass(digits[rows], step_of[rows], step).items():
            found[name][rows] += values
    found |= {"valid": are_valid(digits), "passes": passes}
    kinds: dict[str, Any] = {"valid": np.bool_, "peer_floor": np.float32, "definite_floor": np.float32}
    return Judged(**{name: values.astype(kinds.get(name, np.int64)) for name, values in found.items()})


def _of_pass(digits: Board, step_of: Ints, step: int) -> dict[str, NDArray[Any]]:
    """What one pass adds to the counts, 0 where it begins from a board without a completion."""
    chosen, open_ = step_of == step, step_of >= step  # (N, n²) each
    before = np.where(open_, 0, digits)
    live = _completable(before, ~open_)
    joint = live & _completable(np.where(chosen, digits, before), ~open_ | chosen)
    peers = geometry(int(digits.shape[1] ** 0.5)).peers  # (n², the peers of a cell)
    of_pass, of_open = (_pairs(some, peers) for some in (chosen, open_))
    definite = definite_cells(before, "backbone") > 0
    count = chosen.sum(1)
    added = {
        "live": np.ones(len(digits)),
        "joint": joint,
        "pairs": of_pass[0],
        "peer_pairs": of_pass[1],
        "peer_floor": of_pass[0] * of_open[1] / np.maximum(of_open[0], 1),
        "filled": count,
        "definite": (definite & chosen).sum(1),
        "definite_floor": count * definite.sum(1) / np.maximum(open_.sum(1), 1),
    }
    return {name: np.where(live, values, 0) for name, values in added.items()}


def _pairs(some: NDArray[np.bool_], peers: NDArray[np.integer]) -> tuple[Ints, Ints]:
    """Pairs of cells of each row of a table, `(N,)`, and those of them that are peers."""
    count = some.sum(1)
    return count * (count - 1) // 2, (some[:, :, None] & some[:, peers]).sum((1, 2)) // 2


def _completable(boards: Board, written: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether boards can be completed; what is no digit where something is written cannot."""
    return ((boards > 0) | ~written).all(1) & completable(boards)


def are_valid(grids: Board) -> NDArray[np.bool_]:
    """Whether each of N decodes `(N, n²)` is a full grid without a clash, bool `(N,)`."""
    return (grids > 0).all(1) & completable(grids)


def diversity(
    model: nn.Module, empty: PuzzleBatch, cells: int, draws: int, seed: int, guard: NamedCheck | None = None
) -> dict[str, float]:
    """How many different grids a model makes of one empty board, by so many decodes with positions and tokens drawn.

    The other arguments are those of `judge`.

    Returns:
        "valid", the share of valid decodes; "distinct", how many different valid grids there are.
    """
    how = Decoding("policy", tokens_per_step=cells, policy=PolicyConfig(0.5, 1.0), guard=guard)
    generator = torch.Generator(device=empty.responses.device).manual_seed(seed)
    problems = empty.select(torch.zeros(draws, dtype=torch.long, device=empty.responses.device))
    grids = problems.boards(decode(model, problems, how, generator=generator).responses)
    valid = grids[are_valid(grids)]
    return {"valid": len(valid) / draws, "distinct": len({grid.tobytes() for grid in valid})}


def cells_of(script: ScriptArguments, guard: NamedCheck | None = None) -> list[int]:
    """The numbers of cells a pass in decoding the held-out boards: with a guard all cells at once in place of one."""
    if guard is None:
        return script.eval_tokens
    return [*dict.fromkeys([*(k for k in script.eval_tokens if k > 1), script.size**2])]


def way(cells: int, guard: NamedCheck | None = None) -> str:
    """What stands before the outcomes of decodes with so many cells a pass."""
    return f"{cells}/{guard or 'free'}"


def outcomes_of(found: Mapping[Way, Ends]) -> dict[str, NDArray[Any]]:
    """What was judged, way by way, as the outcomes of a job (`write_job`)."""
    return {
        f"{way(*key)}/{item.name}": getattr(each, item.name) for key, each in found.items() for item in fields(each)
    }
