"""Environments as they are, and the pairs of position and token that actions are made of."""

import gymnasium

from sudoku_env import PromptPool, build_prompt

BOARD, UNMASK = "sudoku_env:Sudoku-v0", "sudoku_env:SudokuUnmask-v0"
NONE = [-1, 0]
"""No pair, in an action of several."""


def bare(name, **arguments):
    """An environment without the wrappers that `gymnasium.make` puts around it."""
    return gymnasium.make(name, disable_env_checker=True, **arguments).unwrapped


def unmask_of(board, **arguments):
    """`SudokuUnmask-v0` on one board, begun."""
    env = bare(UNMASK, source=PromptPool([build_prompt(board, "compact")]), **arguments)
    env.reset(seed=0)
    return env


def pair(env, cell, digit):
    """A digit in a cell."""
    return [int(env.layout.cell_positions[cell]), int(env.layout.digit_ids[digit - 1])]


def right(env, cell):
    return pair(env, cell, env.solution[cell])


def wrong(env, cell):
    return pair(env, cell, env.solution[cell] % env.layout.size + 1)


def tail(env, place=0, token=7):
    """A token in a free position, counted from the end of the response."""
    return [env.max_gen_length - 1 - place, token]


def right_at(env, position):
    """A position with the solution's digit, or with the end token behind the map."""
    cells = env.layout.cell_positions.tolist()
    return right(env, cells.index(position)) if position in cells else [int(position), env.tokenizer.eos_token_id]


def response(env):
    return env.state[-env.max_gen_length :]
