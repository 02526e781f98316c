"""`python -m scripts.referee METHOD …`: see `scripts.referee.compare`."""

import sys

from scripts.referee import compare
from sudoku_dllm.trials.trial import run_trial

if __name__ == "__main__":
    # Words before the options are the methods to train.
    first = next((place for place, word in enumerate(sys.argv) if place and word.startswith("-")), len(sys.argv))
    if methods := sys.argv[1:first]:
        sys.argv[1:first] = ["--arms", *methods]
    run_trial(compare.Boards, compare.BoardsArguments, compare.__doc__ or "")
