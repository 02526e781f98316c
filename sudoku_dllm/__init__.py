"""What the three packages do, from a terminal: the command `sudoku-dllm`."""
