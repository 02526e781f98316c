"""Gymnasium environment, solver, logic and prompts for Sudoku as token-by-token unmasking."""
