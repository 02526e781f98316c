"""Sudoku played cell by cell on B boards at once: dealing puzzles, one move on each board, and random legal moves.

What belongs together travels in one argument. Compiled code takes it as a `NamedTuple`; functions that Python calls
take the plain `tuple` of its fields, as numba spends 0.1 µs on that and 1.5 µs on a `NamedTuple` at every call.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sudoku_env.board import Board
from sudoku_env.kernels.compiling import kernel
from sudoku_env.kernels.random import Int, Ints, State, random_below
from sudoku_env.kernels.symmetry import shuffle_puzzle

STEPS, BLANKS, ERROR, ILLEGAL, OVER = range(5)
BLOCK = 64

Bits = NDArray[np.uint16]
Mask = NDArray[np.int8]
Orders = NDArray[np.int16]
Plain = tuple[Any, ...]


class InPlay(NamedTuple):
    """The state of play, a row for each board.

    Attributes:
        boards: uint8 `(B, n²)`, the boards, 0 for a blank.
        solutions: uint8 `(B, n²)`, their solutions.
        candidates: uint16 `(B, n²)`, bit d−1 set where digit d stands in no peer of a blank cell; 0 in filled cells.
        masks: int8 `(B, n³)`, the same, one entry for each action `cell * n + digit - 1`.
        orders: int16 `(B, n²)`, the step, from 1, that filled a cell, negative where it was not definite; 0 elsewhere.
        status: int64 `(B, 5)`, the columns `STEPS` to `OVER`.
    """

    boards: Board
    solutions: Board
    candidates: Bits
    masks: Mask
    orders: Orders
    status: Ints


class Rules(NamedTuple):
    """What a move is judged by.

    Attributes:
        neighbors: uint8 `(n², 3, n−1)`, the other cells of the row, column and box of each cell.
        end_on_error: Whether a wrong digit ends the episode; otherwise a blank cell without candidates does.
        illegal_reward: The reward of an action outside the mask.
    """

    neighbors: Board
    end_on_error: bool
    illegal_reward: float


class Deck(NamedTuple):
    """What boards are dealt from.

    Attributes:
        pool: uint8 `(2, P, n²)`, puzzles and their solutions.
        shuffled: Whether the image of a puzzle under a random symmetry is dealt.
        streams: uint64 `(B,)`, the random state of each row.
        units_of: int64 `(n², 3)`, the units of each cell.
        box_rows: Rows of a box.
        box_columns: Columns of a box.
    """

    pool: Board
    shuffled: bool
    streams: State
    units_of: Ints
    box_rows: Int
    box_columns: Int


@kernel(nogil=True)
def deal(rows: NDArray[np.bool_], choice: Int, deck: Plain, state: Plain) -> None:
    """Begin an episode in each of the chosen rows.

    Args:
        rows: bool `(B,)`, the rows to begin anew.
        choice: The puzzle to deal; −1 draws one for each row.
        deck: The fields of a `Deck`.
        state: The fields of `InPlay`.
    """
    dealt, held = Deck(*deck), InPlay(*state)
    cells = held.boards.shape[1]
    size = held.masks.shape[1] // cells
    work = np.empty((3, size + 1), np.int64)
    used = np.empty(3 * size, np.int64)
    for b in range(rows.size):
        if not rows[b]:
            continue
        board, solution = held.boards[b], held.solutions[b]
        rng = dealt.streams[b : b + 1]
        puzzle = choice if choice >= 0 else random_below(rng, dealt.pool.shape[1])
        first, second = dealt.pool[0, puzzle], dealt.pool[1, puzzle]
        if dealt.shuffled:
            shuffle_puzzle(first, second, board, solution, size, dealt.box_rows, dealt.box_columns, rng, work)
        else:
            for cell in range(cells):
                board[cell], solution[cell] = first[cell], second[cell]
        held.orders[b] = 0
        held.status[b] = 0
        held.status[b, BLANKS] = find_actions(board, dealt.units_of, used, held.candidates[b], held.masks[b])


@kernel
def find_actions(board: Board, units_of: Ints, used: Ints, candidates: Bits, mask: Mask) -> Int:
    """Fill `candidates` and `mask` for a board without a clash; `used` is work space. Returns the number of blanks.

    There is no branch on a cell's content, which would be mispredicted every other time.
    """
    size = used.size // 3
    used[:] = 0
    for cell in range(board.size):
        bit = (np.int64(1) << np.int64(board[cell])) >> 1
        for k in range(3):
            used[units_of[cell, k]] |= bit
    full = (np.int64(1) << size) - 1
    blanks: Int = 0
    for cell in range(board.size):
        blank = np.int64(board[cell] == 0)
        taken = used[units_of[cell, 0]] | used[units_of[cell, 1]] | used[units_of[cell, 2]]
        found = full & ~taken & -blank
        candidates[cell] = found
        for digit in range(size):
            mask[cell * size + digit] = (found >> digit) & 1
        blanks += blank
    return blanks


@kernel
def is_definite(candidates: Bits, neighbors: Board, cell: Int, bit: Int) -> bool:
    """Whether a candidate makes its cell definite: it is a naked single, or hidden in one of its units."""
    if candidates[cell] == bit:
        return True
    for unit in range(3):
        others: Int = 0
        for k in range(neighbors.shape[2]):
            others |= np.int64(candidates[neighbors[cell, unit, k]])
        if not others & bit:
            return True
    return False


@kernel
def fill(candidates: Bits, mask: Mask, neighbors: Board, cell: Int, digit: Int) -> bool:
    """Take a filled cell and its digit (from 0) out of the candidates and the mask; True if a blank peer has none left.

    The board before must have left every blank cell a candidate.
    """
    size = neighbors.shape[2] + 1
    bit = np.int64(1) << digit
    dead = False
    candidates[cell] = 0
    for k in range(size):
        mask[cell * size + k] = 0
    for unit in range(3):
        for k in range(size - 1):
            peer = np.int64(neighbors[cell, unit, k])
            before = np.int64(candidates[peer])
            dead |= before == bit
            candidates[peer] = before & ~bit
            mask[peer * size + digit] = 0
    return dead


@kernel
def move(
    row: Int,
    action: Int,
    boards: Board,
    solutions: Board,
    candidates: Bits,
    masks: Mask,
    orders: Orders,
    status: Ints,
    neighbors: Board,
    end_on_error: bool,
    illegal_reward: float,
) -> float:
    """Make one move on the board of a row whose episode is not over.

    The reward is that of `dynamics.unmask_reward` inside the map. Once a digit is wrong, no cell is definite. The
    arguments after `action` are the fields of `InPlay` and `Rules`, one by one: as two groups they would be counted as
    references at every call, which makes a move a tenth slower.

    Returns:
        The reward.
    """
    size = neighbors.shape[2] + 1
    state = status[row]
    if not masks[row, action]:
        state[ILLEGAL] = state[OVER] = 1
        return illegal_reward
    cell, digit = action // size, action % size
    right = np.int64(solutions[row, cell]) - 1
    definite = not state[ERROR] and is_definite(candidates[row], neighbors, cell, np.int64(1) << right)
    boards[row, cell] = digit + 1
    dead = fill(candidates[row], masks[row], neighbors, cell, digit)
    state[STEPS] += 1
    state[BLANKS] -= 1
    orders[row, cell] = state[STEPS] if definite else -state[STEPS]
    if digit != right:
        state[ERROR] = 1
    ended = state[ERROR] if end_on_error else dead
    state[OVER] = int(ended or state[BLANKS] == 0)
    return 1.0 if definite and digit == right else 0.0


@kernel(nogil=True)
def play(actions: Ints, rewards: NDArray[np.float64], state: Plain, rules: Plain) -> None:
    """Do `move` in every row whose episode is not over.

    Args:
        actions: int64 `(B,)`.
        rewards: float64 `(B,)`, gets the rewards, 0 where the episode was over.
        state: The fields of `InPlay`.
        rules: The fields of `Rules`.
    """
    boards, solutions, candidates, masks, orders, status = state
    neighbors, end_on_error, illegal_reward = rules
    for b in range(actions.size):
        rewards[b] = 0.0
        if not status[b, OVER]:
            rewards[b] = move(
                b,
                actions[b],
                boards,
                solutions,
                candidates,
                masks,
                orders,
                status,
                neighbors,
                end_on_error,
                illegal_reward,
            )


@kernel
def play_one(action: Int, board: Board, mask: Mask, state: Plain, rules: Plain) -> tuple[float, Int, bool, bool, bool]:
    """Do `move` in the only row, and tell what came of it, in one call.

    Args:
        action: `cell * n + digit - 1`, in [0, n³).
        board: uint8 `(n²,)`, gets the board.
        mask: int8 `(n³,)`, gets the action mask.
        state: The fields of `InPlay`.
        rules: The fields of `Rules`.

    Returns:
        The reward, the steps taken, and whether a digit is wrong, the action was illegal and the episode is over.
    """
    boards, solutions, candidates, masks, orders, status = state
    neighbors, end_on_error, illegal_reward = rules
    reward = move(
        0, action, boards, solutions, candidates, masks, orders, status, neighbors, end_on_error, illegal_reward
    )
    for cell in range(board.size):
        board[cell] = boards[0, cell]
    for k in range(mask.size):
        mask[k] = masks[0, k]
    return reward, status[0, STEPS], status[0, ERROR] != 0, status[0, ILLEGAL] != 0, status[0, OVER] != 0


@kernel
def pick_legal(mask: Mask, uniform: float) -> Int:
    """The action at the share `uniform`, in [0, 1), of the nonzero entries of a mask `(A,)`; 0 if it has none.

    Blocks of a constant length are counted with vector instructions.
    """
    legal = np.int32(0)
    for action in range(mask.size):
        legal += np.int32(mask[action] != 0)
    if legal == 0:
        return 0
    rank = np.int32(uniform * legal)
    action = 0
    while action + BLOCK <= mask.size:
        inside = np.int32(0)
        for k in range(BLOCK):
            inside += np.int32(mask[action + k] != 0)
        if rank < inside:
            break
        rank -= inside
        action += BLOCK
    while True:
        rank -= np.int32(mask[action] != 0)
        if rank < 0:
            return action
        action += 1


@kernel(nogil=True)
def pick_legal_batch(masks: Mask, uniforms: NDArray[np.float64], out: Ints) -> None:
    """`pick_legal` for each row of `(B, A)` masks."""
    for b in range(masks.shape[0]):
        out[b] = pick_legal(masks[b], uniforms[b])


@kernel
def draw_indices(rows: Ints, streams: State, count: Int, out: Ints) -> None:
    """A random index below `count` from the stream of each of `rows`, int64 `(m,)`, into `out`, int64 `(m,)`."""
    for k in range(rows.size):
        out[k] = random_below(streams[rows[k] : rows[k] + 1], count)
