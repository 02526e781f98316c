"""Data and base models for Sudoku, and what is measured on them."""
