"""Sudoku as an OpenEnv environment: models, client and server; `openenv.yaml` beside this file declares it."""

from sudoku_env.integrations.openenv.models import SudokuAction, SudokuObservation, SudokuState  # isort: skip
from sudoku_env.integrations.openenv.client import SudokuClient

__all__ = ["SudokuAction", "SudokuClient", "SudokuObservation", "SudokuState"]
