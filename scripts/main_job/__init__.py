"""The main job: one base, trained in several ways at equal cost, side by side; `scripts/train_sudoku.py` runs it."""
