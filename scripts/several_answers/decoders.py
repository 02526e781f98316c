"""What the models of the study complete where a threshold or an entropy bound says how many cells a pass fills.

Decodes the held-out boards with each model that the study kept, writes the outcomes beside them, and prints the tables
data/study/several_answers/tables.md has of them. What is there already is not decoded again.

    python -m scripts.several_answers.decoders
"""

from dataclasses import dataclass
from math import log
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from dllm_rl.decoding import Decoding, EntropyBound, Threshold, decode
from dllm_rl.models.shipped import load
from dllm_rl.sudoku import PuzzleBatch
from llm_rl.core._options import option
from llm_rl.training import fail, parse
from scripts.several_answers.outcome_tables import studied
from sudoku_dllm.machine import machine
from sudoku_dllm.several.arguments import AFTER_LABEL, ARMS, RecipeArguments
from sudoku_dllm.several.judging import are_valid
from sudoku_dllm.several.report import TITLES
from sudoku_dllm.several.setting import Setting
from sudoku_dllm.trials.record import Records, job_name, write_job
from sudoku_dllm.trials.results import Results
from sudoku_dllm.trials.training import MODEL
from sudoku_dllm.trials.words import markdown_table, passes

FOLDER = "decoders"
WAYS: dict[str, dict[str, Decoding]] = {
    "number": {str(k): Decoding("margin", tokens_per_step=k) for k in (1, 2, 3, 4, 6, 9, 12, 16)},
    "probability": {
        str(p): Decoding("probability", tokens_per_step=None, limit=Threshold(log(p)))
        for p in (0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999)
    },
    "entropy": {
        str(nats): Decoding("entropy", tokens_per_step=None, limit=EntropyBound(nats))
        for nats in (0.0001, 0.001, 0.01, 0.1, 0.3, 1.0, 3.0)
    },
}
"""Decodings by what says how many cells a pass fills, and by its value."""
TITLE_OF = {"number": "a number", "probability": "a probability", "entropy": "an entropy bound"}
RATES = (0.75, 0.9)
"""Shares of valid boards for which passes are compared."""


@dataclass
class Arguments:
    """Arguments of `scripts/several_answers/decoders.py`."""

    run: Path = option(Path("runs/several_answers"), "Folder of the study's run; decoders/ in it is written.")
    arms: list[str] = option(
        ["sft", "sft_canonical", "sft_least", "judged", AFTER_LABEL], "Whose models to decode with."
    )
    seeds: list[int] = option([0, 1, 2, 3, 4], "Seeds of their trainings.")

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.arms) - set(ARMS)):
            raise ValueError(f"arms={unknown} are unknown; choose of {', '.join(ARMS)}")


def outcomes_of(model: nn.Module, tests: PuzzleBatch) -> dict[str, NDArray[np.generic]]:
    """By way, value and column: valid, bool `(N,)`, and passes, int64 `(N,)`, of each board."""
    found: dict[str, NDArray[np.generic]] = {}
    for way, values in WAYS.items():
        for value, how in values.items():
            record = decode(model, tests, how)
            grids = tests.boards(record.responses)
            found[f"{way}/{value}/valid"] = are_valid(grids)
            found[f"{way}/{value}/passes"] = record.forward_passes.cpu().numpy()
    return found


def tables(records: Records) -> dict[str, str]:
    """The table of a study by its title, the passes in which a share is completed; nothing where it has no decodes."""
    found = Results(records, ARMS, within=FOLDER)
    if not found.arms:
        return {}
    swept = {way: [f"{way}/{value}" for value in values] for way, values in WAYS.items()}
    rows = []
    for arm in found.arms:
        for way, values in swept.items():
            needed = (found.passes_needed(arm, values, rate, ("passes", "valid")) for rate in RATES)
            rows.append([TITLES[arm] if way == "number" else "", TITLE_OF[way], *map(passes, needed)])
    head = ["trained by", "as many as by", *(f"{100 * rate:.0f} % valid" for rate in RATES)]
    title = "Passes in which so many boards are completed, by what says how many cells fill at once"
    return {title: markdown_table(head, rows)}


def main() -> None:
    """Decode with each model that was not yet, and print the tables."""
    (args,) = parse(Arguments, description=__doc__, places=("run",))
    setting = Setting.load(studied(), RecipeArguments(use_cpu=True, report_to="none"))
    tests, records = setting.batch(setting.test_boards()), Records(args.run)
    torch.set_num_threads(1)
    for arm in args.arms:
        for seed in args.seeds:
            job = job_name(FOLDER, arm, seed=seed)
            if records.result(job):
                continue
            folder = args.run / job_name(arm, seed=seed) / MODEL
            if not folder.is_dir():
                fail(f"there is no {folder}; train it (python scripts/train_sudoku.py --help)")
            result = {"arm": arm, "seed": seed, "machine": machine()}
            write_job(args.run / job, result, outcomes_of(load(str(folder)).model, tests))
            print(f"{job}: decoded in {sum(map(len, WAYS.values()))} ways", flush=True)
    for title, table in tables(records).items():
        print(f"\n{title}\n\n{table}")


if __name__ == "__main__":
    main()
