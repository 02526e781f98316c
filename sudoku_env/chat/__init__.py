"""Sudoku for causal language models: rows of chat data, derivations, questions and rewards."""
