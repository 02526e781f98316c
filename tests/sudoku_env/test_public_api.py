import subprocess
import sys

import gymnasium

import sudoku_env


def test_every_public_name_exists_once():
    assert len(set(sudoku_env.__all__)) == len(sudoku_env.__all__)
    assert all(hasattr(sudoku_env, name) for name in sudoku_env.__all__)


def test_environments_are_registered_on_import():
    assert gymnasium.spec("SudokuUnmask-v0").entry_point == "sudoku_env.envs.unmask_env:UnmaskEnv"
    assert gymnasium.spec("Sudoku-v0").entry_point == "sudoku_env.envs.board_env:SudokuEnv"
    assert gymnasium.spec("SudokuText-v0").entry_point == "sudoku_env.chat.text_env:SudokuText"


def test_import_is_light():
    code = (
        "import sys, sudoku_env\n"
        "print([name for name in ('torch', 'transformers', 'matplotlib', 'pandas') if name in sys.modules])"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "[]"
