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
from sudoku_env.chat import REASONING_TAGS, RESPONSE_TAGS, ChatRow, chat_answer, chat_prompt, chat_row, chat_rows
from sudoku_env.derivation import Derivation, derive, derive_with_fault
from sudoku_env.dynamics import StepBatch, step_batch, unmask_reward
from sudoku_env.env import UnmaskEnv
from sudoku_env.errors import BoardError, PromptSetError, PuzzleParseError, SudokuError, TokenLayoutError
from sudoku_env.explanation import Step, explain
from sudoku_env.generator import generate
from sudoku_env.grids import canonical_grid
from sudoku_env.logic import (
    RULE_GROUPS,
    RULES,
    candidates,
    definite_cells,
    forced_digits,
    singles_rounds,
    solve_by_singles,
)
from sudoku_env.order import random_order_floor
from sudoku_env.progress import BoardView, Progress
from sudoku_env.puzzles import Puzzles, default_puzzles, read_packed, read_prompts, read_puzzles
from sudoku_env.rating import Rating, rate, rate_batch
from sudoku_env.rendering import decode_gif, render_ansi, render_rgb, trace_views
from sudoku_env.rewards import cells_reward, exact_reward, format_reward, givens_reward, reasoning_reward
from sudoku_env.sampling import sample_legal
from sudoku_env.scoring import Score, read_answer, score_answer
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
from sudoku_env.unmask_vector_env import SudokuUnmaskVectorEnv
from sudoku_env.vector_env import SudokuVectorEnv
from sudoku_env.wrappers import FlatActions, FlatUnmask, FlatUnmaskVector

__all__ = [
    "ANSWER_LAYOUTS",
    "DEFAULT_OPENING",
    "DEFAULT_SYSTEM_PROMPT",
    "REASONING_TAGS",
    "RESPONSE_TAGS",
    "RULES",
    "RULE_GROUPS",
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
    "ChatRow",
    "Derivation",
    "FlatActions",
    "FlatUnmask",
    "FlatUnmaskVector",
    "Geometry",
    "PreFilled",
    "Progress",
    "PromptSetError",
    "PuzzleParseError",
    "Puzzles",
    "Rating",
    "Score",
    "Step",
    "StepBatch",
    "SudokuEnv",
    "SudokuError",
    "SudokuUnmaskVectorEnv",
    "SudokuVectorEnv",
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
    "cells_reward",
    "chat_answer",
    "chat_prompt",
    "chat_row",
    "chat_rows",
    "count_solutions",
    "decode_gif",
    "default_puzzles",
    "definite_cells",
    "derive",
    "derive_with_fault",
    "detect_definite",
    "exact_reward",
    "explain",
    "find_conflict",
    "forced_digits",
    "format_board",
    "format_reward",
    "generate",
    "geometry",
    "givens_reward",
    "in_split",
    "is_solved",
    "is_valid",
    "judge_error",
    "parse_board",
    "parse_puzzle",
    "pre_fill",
    "random_order_floor",
    "rate",
    "rate_batch",
    "read_answer",
    "read_packed",
    "read_prompts",
    "read_puzzles",
    "reasoning_reward",
    "reference_ids",
    "render_ansi",
    "render_rgb",
    "sample_legal",
    "score_answer",
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

gymnasium.register(
    "SudokuUnmask-v0",
    entry_point="sudoku_env.env:UnmaskEnv",
    vector_entry_point="sudoku_env.unmask_vector_env:SudokuUnmaskVectorEnv",
)
gymnasium.register(
    "Sudoku-v0",
    entry_point="sudoku_env.board_env:SudokuEnv",
    vector_entry_point="sudoku_env.vector_env:SudokuVectorEnv",
)
