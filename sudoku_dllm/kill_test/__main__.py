"""`python -m sudoku_dllm.kill_test`."""

import sys

from sudoku_dllm.kill_test.resume import main

if __name__ == "__main__":
    sys.exit(main())
