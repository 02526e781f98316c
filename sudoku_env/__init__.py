"""Gymnasium environments, solver, logic and prompts for Sudoku as token-by-token unmasking.

Importing the package registers `SudokuUnmask-v0`, `Sudoku-v0` and `SudokuText-v0`; its names are loaded when they are
first asked for.
"""

from gymnasium.envs.registration import register
from lazy_loader import attach_stub

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

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
