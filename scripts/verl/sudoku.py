"""Write Sudoku for verl on a processor: a small model, boards to answer and boards to play; docs/raro.md.

The boards are 4×4. The model is a Llama that has learned to write a full grid, and a move of a game, for some steps; it
knows the forms and few answers. The folder receives `model`, `train.parquet` and `validation.parquet`, and the same of
games as `train_games.parquet` and `validation_games.parquet`.

    python -m scripts.verl.sudoku [--output_dir runs/verl_sudoku]
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from llm_rl.core._options import option
from llm_rl.integrations.verl.rows import write_parquet
from llm_rl.training import need_writable, parse
from scripts.verl.model import chat_words, write_model
from sudoku_env import format_board, solve
from sudoku_env.board import as_board
from sudoku_env.integrations.verl import verl_rows

SIZE = 4
WORDS = [*map(str, range(1, SIZE + 1)), ".", "place"]
"""Each digit, and what a move needs; all other words of a prompt are one token."""


@dataclass
class VerlSudokuArguments:
    """Arguments of `scripts/verl/sudoku.py`."""

    output_dir: str = option("runs/verl_sudoku", "Folder.")
    boards: int = option(256, "Training boards.")
    clues: int = option(12, "Givens of a board.")
    max_turns: int = option(4, "Turns of a game.")
    start_steps: int = option(800, "Supervised steps of the model.")
    seed: int = option(0, "Random seed of model and boards.")


def expert(row: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """What the model learns of a row: the grid, or a right move."""
    board = as_board(row["extra_info"]["puzzle"])
    solution = solve(board)
    assert solution is not None, "rows hold puzzles with one solution"
    if row["agent_name"] == "single_turn_agent":
        return {"prompt": row["prompt"], "chosen": format_board(solution)}
    cell = int(rng.choice(np.flatnonzero(board == 0)))
    return {"prompt": row["prompt"], "chosen": f"place {cell // SIZE + 1} {cell % SIZE + 1} {solution[cell]}"}


def main() -> None:
    """Write everything."""
    (args,) = parse(VerlSudokuArguments, description=__doc__)
    need_writable("output_dir", args.output_dir)
    folder, tokenizer, rng = Path(args.output_dir), chat_words(WORDS), np.random.default_rng(args.seed)
    taught: list[dict[str, Any]] = []
    for ending, settings in (("", {"template": "short"}), ("_games", {"game": True, "max_turns": args.max_turns})):
        for split, count, seed in (("train", args.boards, args.seed), ("validation", 16, args.seed + 1)):
            rows = verl_rows(count, size=SIZE, clues=args.clues, seed=seed, split=split, **settings)
            write_parquet(folder / f"{split}{ending}.parquet", rows)
        taught += [
            expert(row, rng) for row in verl_rows(512, size=SIZE, clues=args.clues, seed=args.seed + 2, **settings)
        ]
    model = write_model(taught, tokenizer, folder / "model", seed=args.seed, steps=args.start_steps, length=1024)
    print(f"{folder} ({model.num_parameters():,} parameters)")


if __name__ == "__main__":
    main()
