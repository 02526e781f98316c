"""What it is worth to fill an answer anew where it contradicts itself, at equal forward passes.

Decodes by largest margin, a number of tokens a step or everything above a threshold, and the same with restarts
(`dllm_rl.TakeBack.restart_share`) for several shares and most passes. A share of 1 masks the whole answer
again, which is drawing another one until one fits: the control. Without restarts nothing is drawn.

Puzzles come from a file of prompts, or with `--drawn` from the generator, of grids of the test split. Prints and writes
`table.csv`: solved in per cent, mean passes, and of the puzzles that the same decoding fails without restarts the share
that is repaired; with several seeds of the draws, means and the lowest and highest.

    python -m scripts.sudoku.restarts [--model data/models/llada-sudoku9x9 --drawn 200 --threshold 8]
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dllm_rl import Evaluation, SudokuTask, TakeBack, evaluate
from llm_rl.training import parse, user_errors
from scripts.sudoku.solving import PuzzleArguments, SolvedTable, by_seed, decodings, filled, prepared
from sudoku_env import SudokuError


@dataclass
class Arguments(PuzzleArguments):
    """Arguments of `restarts.py`."""

    restart_share: list[float] = field(default_factory=lambda: [0.0, 0.4, 1.0], metadata={"help": "As in TakeBack."})
    max_passes: list[int] = field(default_factory=lambda: [60, 100, 200], metadata={"help": "Most forward passes."})
    output_dir: Path = field(default=Path("runs/restarts"), metadata={"help": "Folder of the table."})


def row(name: str, how: TakeBack | None, found: list[Evaluation], plain: Evaluation) -> dict[str, Any]:
    """A line of the table."""
    columns = [one.solved for one in found], [one.forward_passes for one in found]
    return {
        "decoding": name,
        "restart_share": how and how.restart_share,
        "max_passes": how and how.max_passes,
        **by_seed(*columns, failed=~plain.solved if how else None),
    }


def main() -> None:
    """Decode, print and write."""
    (args,) = parse(Arguments, description=__doc__)
    model, tokenizer, boards = prepared(args)
    with user_errors(SudokuError, ValueError):
        puzzles = filled(boards, tokenizer)
        settings = [TakeBack(most, restart_share=share) for share in args.restart_share for most in args.max_passes]
    task = SudokuTask(tokenizer.pad_token_id, tokenizer.eos_token_id)
    table = SolvedTable(args, len(boards))
    for name, how in decodings(args).items():
        plain = evaluate(model, puzzles, task, how)
        table.add(row(name, None, [plain], plain))
        for rule in settings:
            restarting = replace(how, take_back=rule)
            found = [evaluate(model, puzzles, task, restarting, seed=seed) for seed in args.seeds]
            table.add(row(name, rule, found, plain))
    table.close()


if __name__ == "__main__":
    main()
