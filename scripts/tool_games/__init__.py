"""A small model plays 4×4 Sudoku by calling tools: supervised on the ladder's games, then by GRPO, and a control."""
