"""Sudoku as a task of masked-diffusion models; no other room of this package knows it."""

from dllm_rl.sudoku.order import assess, known_mean, mean_order, rank_correlation
from dllm_rl.sudoku.task import PuzzleBatch, SudokuTask, Tail

__all__ = ["PuzzleBatch", "SudokuTask", "Tail", "assess", "known_mean", "mean_order", "rank_correlation"]
