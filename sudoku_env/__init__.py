"""Gymnasium environments, solver, logic and prompts for Sudoku as token-by-token unmasking.

Importing the package registers `SudokuUnmask-v0` and `Sudoku-v0`.
"""

import gymnasium

from sudoku_env.alignment import Tokenizer
from sudoku_env.board import (
    SIZES,
    SYMBOLS,
    Board,
    BoardLike,
    Geometry,
    as_board,
    as_boards,
    cell_name,
    find_conflict,
    format_board,
    geometry,
    is_solved,
    is_valid,
    parse_board,
    size_of,
    to_string,
)
from sudoku_env.board_env import SudokuEnv
from sudoku_env.char_tokenizer import CharTokenizer
from sudoku_env.dynamics import StepBatch, step_batch, unmask_reward
from sudoku_env.env import UnmaskEnv
from sudoku_env.errors import BoardError, PromptSetError, PuzzleParseError, SudokuError, TokenLayoutError
from sudoku_env.generator import Puzzles, canonical_grid, generate
from sudoku_env.logic import candidates, forced_digits, singles_rounds, solve_by_singles
from sudoku_env.metrics import random_order_floor
from sudoku_env.progress import BoardView, Progress
from sudoku_env.puzzles import read_prompts
from sudoku_env.rendering import decode_gif, render_ansi, render_rgb, trace_views
from sudoku_env.solver import count_solutions, solve, solve_batch
from sudoku_env.split import SPLITS, in_split, split_of
from sudoku_env.text import (
    ANSWER_LAYOUTS,
    DEFAULT_OPENING,
    DEFAULT_SYSTEM_PROMPT,
    TEMPLATES,
    AnswerLayout,
    build_prompt,
    parse_puzzle,
)
from sudoku_env.tokens import PreFilled, TokenLayout, detect_definite, judge_error, pre_fill, reference_ids

__all__ = [
    "ANSWER_LAYOUTS",
    "DEFAULT_OPENING",
    "DEFAULT_SYSTEM_PROMPT",
    "SIZES",
    "SPLITS",
    "SYMBOLS",
    "TEMPLATES",
    "AnswerLayout",
    "Board",
    "BoardError",
    "BoardLike",
    "BoardView",
    "CharTokenizer",
    "Geometry",
    "PreFilled",
    "Progress",
    "PromptSetError",
    "PuzzleParseError",
    "Puzzles",
    "StepBatch",
    "SudokuEnv",
    "SudokuError",
    "TokenLayout",
    "TokenLayoutError",
    "Tokenizer",
    "UnmaskEnv",
    "as_board",
    "as_boards",
    "build_prompt",
    "candidates",
    "canonical_grid",
    "cell_name",
    "count_solutions",
    "decode_gif",
    "detect_definite",
    "find_conflict",
    "forced_digits",
    "format_board",
    "generate",
    "geometry",
    "in_split",
    "is_solved",
    "is_valid",
    "judge_error",
    "parse_board",
    "parse_puzzle",
    "pre_fill",
    "random_order_floor",
    "read_prompts",
    "reference_ids",
    "render_ansi",
    "render_rgb",
    "singles_rounds",
    "size_of",
    "solve",
    "solve_batch",
    "solve_by_singles",
    "split_of",
    "step_batch",
    "to_string",
    "trace_views",
    "unmask_reward",
]

gymnasium.register("SudokuUnmask-v0", entry_point="sudoku_env.env:UnmaskEnv")
gymnasium.register("Sudoku-v0", entry_point="sudoku_env.board_env:SudokuEnv")
