"""The main job: one base, trained in several ways at equal cost, side by side; `sudoku-dllm train` runs it."""
