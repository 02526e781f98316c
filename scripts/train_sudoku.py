"""The main job from a checkout, without an installed command: what `sudoku-dllm train` does.

python scripts/train_sudoku.py [recipe.yaml] [--learning_rate 1e-4 …]
python scripts/train_sudoku.py [recipe.yaml] --resume_from_checkpoint last
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from sudoku_dllm.main_job.command import main

if __name__ == "__main__":
    main()
