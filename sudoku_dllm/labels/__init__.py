"""Puzzles with one answer: labels and the objective side by side; `sudoku-dllm train --setting labels` runs it."""
