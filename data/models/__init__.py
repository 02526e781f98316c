"""The trained models of sudoku-dllm, a folder each, for `dllm_rl.load`."""
