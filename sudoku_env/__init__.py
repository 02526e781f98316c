"""Gymnasium environments, solver, logic and prompts for Sudoku as token-by-token unmasking.

Importing the package registers `SudokuUnmask-v0`, `Sudoku-v0` and `SudokuText-v0`; its names are loaded when they are
first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gymnasium.envs.registration import register

if TYPE_CHECKING:
    from sudoku_env.board import Board as Board
    from sudoku_env.board import format_board as format_board
    from sudoku_env.board import parse_board as parse_board
    from sudoku_env.board import to_string as to_string
    from sudoku_env.chat.rows import chat_rows as chat_rows
    from sudoku_env.chat.text_env import SudokuText as SudokuText
    from sudoku_env.chat.text_rows import text_rows as text_rows
    from sudoku_env.chat.text_rules import TextRules as TextRules
    from sudoku_env.envs.board_env import SudokuEnv as SudokuEnv
    from sudoku_env.envs.board_state import BoardRules as BoardRules
    from sudoku_env.envs.rendering import decode_gif as decode_gif
    from sudoku_env.envs.response_state import Responses as Responses
    from sudoku_env.envs.sampling import sample_legal as sample_legal
    from sudoku_env.envs.sources import PromptPool as PromptPool
    from sudoku_env.envs.sources import PuzzlePool as PuzzlePool
    from sudoku_env.envs.sources import PuzzleSource as PuzzleSource
    from sudoku_env.envs.unmask_env import UnmaskEnv as UnmaskEnv
    from sudoku_env.envs.unmask_rules import UnmaskRules as UnmaskRules
    from sudoku_env.envs.unmask_vector_env import SudokuUnmaskVectorEnv as SudokuUnmaskVectorEnv
    from sudoku_env.envs.vector_env import SudokuVectorEnv as SudokuVectorEnv
    from sudoku_env.envs.wrappers import FlatActions as FlatActions
    from sudoku_env.envs.wrappers import FlatUnmask as FlatUnmask
    from sudoku_env.envs.wrappers import FlatUnmaskVector as FlatUnmaskVector
    from sudoku_env.errors import SudokuError as SudokuError
    from sudoku_env.explanation import explain as explain
    from sudoku_env.generator import generate as generate
    from sudoku_env.logic import definite_cells as definite_cells
    from sudoku_env.logic import definite_digits as definite_digits
    from sudoku_env.order import random_order_floor as random_order_floor
    from sudoku_env.prompts.scoring import Score as Score
    from sudoku_env.prompts.scoring import score_answer as score_answer
    from sudoku_env.prompts.text import build_prompt as build_prompt
    from sudoku_env.prompts.text import parse_puzzle as parse_puzzle
    from sudoku_env.prompts.tokens import PreFilled as PreFilled
    from sudoku_env.prompts.tokens import TokenLayout as TokenLayout
    from sudoku_env.prompts.tokens import detect_definite as detect_definite
    from sudoku_env.prompts.tokens import judge_error as judge_error
    from sudoku_env.prompts.tokens import pre_fill as pre_fill
    from sudoku_env.prompts.tokens import pre_fill_boards as pre_fill_boards
    from sudoku_env.puzzles import Puzzles as Puzzles
    from sudoku_env.puzzles import default_puzzles as default_puzzles
    from sudoku_env.puzzles import read_prompts as read_prompts
    from sudoku_env.puzzles import read_puzzles as read_puzzles
    from sudoku_env.rating import rate as rate
    from sudoku_env.solver import completable as completable
    from sudoku_env.solver import count_solutions as count_solutions
    from sudoku_env.solver import solutions as solutions
    from sudoku_env.solver import solve as solve
    from sudoku_env.solver import solve_batch as solve_batch
    from sudoku_env.symmetries import symmetric_images as symmetric_images

_HOMES = {
    "Board": "sudoku_env.board",
    "BoardRules": "sudoku_env.envs.board_state",
    "FlatActions": "sudoku_env.envs.wrappers",
    "FlatUnmask": "sudoku_env.envs.wrappers",
    "FlatUnmaskVector": "sudoku_env.envs.wrappers",
    "PreFilled": "sudoku_env.prompts.tokens",
    "PromptPool": "sudoku_env.envs.sources",
    "PuzzlePool": "sudoku_env.envs.sources",
    "PuzzleSource": "sudoku_env.envs.sources",
    "Puzzles": "sudoku_env.puzzles",
    "Responses": "sudoku_env.envs.response_state",
    "Score": "sudoku_env.prompts.scoring",
    "SudokuEnv": "sudoku_env.envs.board_env",
    "SudokuError": "sudoku_env.errors",
    "SudokuText": "sudoku_env.chat.text_env",
    "SudokuUnmaskVectorEnv": "sudoku_env.envs.unmask_vector_env",
    "SudokuVectorEnv": "sudoku_env.envs.vector_env",
    "TextRules": "sudoku_env.chat.text_rules",
    "TokenLayout": "sudoku_env.prompts.tokens",
    "UnmaskEnv": "sudoku_env.envs.unmask_env",
    "UnmaskRules": "sudoku_env.envs.unmask_rules",
    "build_prompt": "sudoku_env.prompts.text",
    "chat_rows": "sudoku_env.chat.rows",
    "completable": "sudoku_env.solver",
    "count_solutions": "sudoku_env.solver",
    "decode_gif": "sudoku_env.envs.rendering",
    "default_puzzles": "sudoku_env.puzzles",
    "definite_cells": "sudoku_env.logic",
    "definite_digits": "sudoku_env.logic",
    "detect_definite": "sudoku_env.prompts.tokens",
    "explain": "sudoku_env.explanation",
    "format_board": "sudoku_env.board",
    "generate": "sudoku_env.generator",
    "judge_error": "sudoku_env.prompts.tokens",
    "parse_board": "sudoku_env.board",
    "parse_puzzle": "sudoku_env.prompts.text",
    "pre_fill": "sudoku_env.prompts.tokens",
    "pre_fill_boards": "sudoku_env.prompts.tokens",
    "random_order_floor": "sudoku_env.order",
    "rate": "sudoku_env.rating",
    "read_prompts": "sudoku_env.puzzles",
    "read_puzzles": "sudoku_env.puzzles",
    "sample_legal": "sudoku_env.envs.sampling",
    "score_answer": "sudoku_env.prompts.scoring",
    "solutions": "sudoku_env.solver",
    "solve": "sudoku_env.solver",
    "solve_batch": "sudoku_env.solver",
    "symmetric_images": "sudoku_env.symmetries",
    "text_rows": "sudoku_env.chat.text_rows",
    "to_string": "sudoku_env.board",
}
__all__ = [*_HOMES]

register(
    "SudokuUnmask-v0",
    entry_point="sudoku_env.envs.unmask_env:UnmaskEnv",
    vector_entry_point="sudoku_env.envs.unmask_vector_env:SudokuUnmaskVectorEnv",
)
register(
    "Sudoku-v0",
    entry_point="sudoku_env.envs.board_env:SudokuEnv",
    vector_entry_point="sudoku_env.envs.vector_env:SudokuVectorEnv",
)
register("SudokuText-v0", entry_point="sudoku_env.chat.text_env:SudokuText")


def __getattr__(name: str) -> Any:
    """The public name, from the module that it lives in."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = getattr(import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    """What the package offers."""
    return sorted({*globals(), *_HOMES})
