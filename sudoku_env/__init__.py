"""Gymnasium environments, solver, logic and prompts for Sudoku as token-by-token unmasking.

Importing the package registers `SudokuUnmask-v0`, `Sudoku-v0` and `SudokuText-v0`.
"""

import gymnasium

from sudoku_env.board import Board, format_board, parse_board, to_string
from sudoku_env.chat.rows import chat_rows
from sudoku_env.chat.text_env import SudokuText
from sudoku_env.chat.text_rows import text_rows
from sudoku_env.envs.board_env import SudokuEnv
from sudoku_env.envs.rendering import decode_gif
from sudoku_env.envs.sampling import sample_legal
from sudoku_env.envs.sources import PromptPool, PuzzlePool, PuzzleSource
from sudoku_env.envs.unmask_env import UnmaskEnv
from sudoku_env.envs.unmask_vector_env import SudokuUnmaskVectorEnv
from sudoku_env.envs.vector_env import SudokuVectorEnv
from sudoku_env.envs.wrappers import FlatActions, FlatUnmask, FlatUnmaskVector
from sudoku_env.errors import SudokuError
from sudoku_env.explanation import explain
from sudoku_env.generator import generate
from sudoku_env.logic import definite_cells, definite_digits
from sudoku_env.order import random_order_floor
from sudoku_env.prompts.scoring import Score, score_answer
from sudoku_env.prompts.text import build_prompt, parse_puzzle
from sudoku_env.prompts.tokens import PreFilled, TokenLayout, detect_definite, judge_error, pre_fill
from sudoku_env.puzzles import Puzzles, default_puzzles, read_prompts, read_puzzles
from sudoku_env.rating import rate
from sudoku_env.solver import count_solutions, solve, solve_batch
from sudoku_env.symmetries import symmetric_images

__all__ = [
    "Board",
    "FlatActions",
    "FlatUnmask",
    "FlatUnmaskVector",
    "PreFilled",
    "PromptPool",
    "PuzzlePool",
    "PuzzleSource",
    "Puzzles",
    "Score",
    "SudokuEnv",
    "SudokuError",
    "SudokuText",
    "SudokuUnmaskVectorEnv",
    "SudokuVectorEnv",
    "TokenLayout",
    "UnmaskEnv",
    "build_prompt",
    "chat_rows",
    "count_solutions",
    "decode_gif",
    "default_puzzles",
    "definite_cells",
    "definite_digits",
    "detect_definite",
    "explain",
    "format_board",
    "generate",
    "judge_error",
    "parse_board",
    "parse_puzzle",
    "pre_fill",
    "random_order_floor",
    "rate",
    "read_prompts",
    "read_puzzles",
    "sample_legal",
    "score_answer",
    "solve",
    "solve_batch",
    "symmetric_images",
    "text_rows",
    "to_string",
]

gymnasium.register(
    "SudokuUnmask-v0",
    entry_point="sudoku_env.envs.unmask_env:UnmaskEnv",
    vector_entry_point="sudoku_env.envs.unmask_vector_env:SudokuUnmaskVectorEnv",
)
gymnasium.register(
    "Sudoku-v0",
    entry_point="sudoku_env.envs.board_env:SudokuEnv",
    vector_entry_point="sudoku_env.envs.vector_env:SudokuVectorEnv",
)
gymnasium.register("SudokuText-v0", entry_point="sudoku_env.chat.text_env:SudokuText")
