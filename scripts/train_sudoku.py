"""The comparisons of trainings from a checkout, without an installed command: what `sudoku-dllm train` does.

python scripts/train_sudoku.py [recipe.yaml] [--learning_rate 1e-4 …]
python scripts/train_sudoku.py [recipe.yaml] --resume_from_checkpoint last
python scripts/train_sudoku.py --setting labels [recipe.yaml] …
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from sudoku_dllm.__main__ import train

if __name__ == "__main__":
    if status := train(sys.argv[1:], sys.argv[0]):
        raise SystemExit(status)
