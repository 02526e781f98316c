"""The demo: a static page on which the shipped models solve Sudoku in the browser."""
