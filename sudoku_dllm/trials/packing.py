"""Keep the results of a run in two files, `records.jsonl` and `outcomes.npz` (`sudoku_dllm.trials.record`).

python -m sudoku_dllm.trials.packing runs/mine data/study/mine
"""

from dataclasses import dataclass, field
from pathlib import Path

from llm_rl.training.command_line import parse, user_errors
from sudoku_dllm.trials.record import pack


@dataclass
class Arguments:
    """The run, and where its results go."""

    run: Path = field(metadata={"help": "Run folder, which is left as it is."})
    target: Path = field(metadata={"help": "Folder of the two files; those that are there are replaced."})


if __name__ == "__main__":
    (args,) = parse(Arguments, description=__doc__, places=("run", "target"))
    with user_errors(OSError, ValueError):
        print(f"{pack(args.run, args.target)} results packed into {args.target}.")
