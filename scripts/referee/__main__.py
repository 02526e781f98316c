"""`python -m scripts.referee METHOD …`: see `scripts.referee.boards`."""

from scripts.referee import boards
from scripts.referee.compare import run

if __name__ == "__main__":
    run(boards.Boards, boards.BoardsArguments, boards.__doc__)
