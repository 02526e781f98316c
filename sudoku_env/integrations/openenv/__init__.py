"""Sudoku as an OpenEnv environment: models, client and server; `openenv.yaml` beside this file declares it."""

from sudoku_env.integrations.openenv.client import SudokuClient
from sudoku_env.integrations.openenv.models import SudokuAction, SudokuObservation, SudokuState

__all__ = ["SudokuAction", "SudokuClient", "SudokuObservation", "SudokuState"]
