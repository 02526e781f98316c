"""Keep the results of a study in two files, `records.jsonl` and `outcomes.npz` (`sudoku_dllm.trials.record`).

The report of `scripts.study.run` or `scripts.propagation.study` with `--report_only true` is the same from either form.

    python -m scripts.study.pack runs/causes data/study/causes
"""

from dataclasses import dataclass, field
from pathlib import Path

from llm_rl.training import need_writable, parse, user_errors
from sudoku_dllm.trials import pack


@dataclass
class Arguments:
    """The study, and where its results go."""

    study: Path = field(metadata={"help": "Folder of the study's runs, which is left as it is."})
    target: Path = field(metadata={"help": "Folder of the two files; those that are there are replaced."})


(args,) = parse(Arguments, description=__doc__, places=("study", "target"))
need_writable("target", args.target)
with user_errors(OSError, ValueError):
    print(f"{pack(args.study, args.target)} results packed into {args.target}.")
