"""Whether the least completion is learned because it can be read from left to right: other orders of the cells.

The least completion reads the board as a number, row by row. Here the cells count in a random order, another for each
seed: as much a rule, and as hard to compute, but none whose next cell stands beside the last. Trained, judged and kept
as the arm `sft_least` of the study is, which stands beside it in the table that is printed.

    python -m scripts.several_answers.reading_order --seeds 0 1
"""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from llm_rl.training import parse
from llm_rl.training.budget import Budget
from sudoku_dllm.machine import machine
from sudoku_dllm.several.arguments import UPDATES, RecipeArguments, ScriptArguments
from sudoku_dllm.several.judging import Ends, Way, judge, outcomes_of
from sudoku_dllm.several.labels import least_answer
from sudoku_dllm.several.report import TITLES, valid
from sudoku_dllm.several.setting import Setting
from sudoku_dllm.trials import Records, job_name
from sudoku_dllm.trials.record import write_job
from sudoku_dllm.trials.results import Results
from sudoku_dllm.trials.training import new_model, sft_trainer, train_job
from sudoku_dllm.trials.words import lead, markdown_table, percent

LABEL, SHUFFLED = "sft_least", "reading_order/sft_least"
TITLE = "The least completion, cells read in another order"


@dataclass
class Arguments:
    """Arguments of `scripts/several_answers/reading_order.py`."""

    seeds: list[int] = field(default_factory=lambda: [0, 1], metadata={"help": "Random seeds."})
    updates: int = field(default=UPDATES[LABEL], metadata={"help": "Updates of each training."})
    output_dir: Path = field(
        default=Path("runs/several_answers"), metadata={"help": "Folder of the study; reading_order/ is written."}
    )

    def __post_init__(self) -> None:
        if not self.seeds or self.updates < 1:
            raise ValueError(f"seeds={self.seeds} must be given and updates={self.updates} be positive")


def train(setting: Setting, seed: int, updates: int, folder: Path) -> None:
    """Train on the least completion in an order of its own, judge it, and write it as a job."""
    boards, _ = setting.training_boards(seed)
    order = np.random.default_rng([seed, setting.script.size]).permutation(boards.shape[1])
    problems = setting.batch(boards, least_answer(boards, order))
    model = new_model(setting.script, setting.args, seed)
    trainer = sft_trainer(setting, LABEL, seed, folder, model, problems)
    spent = train_job(
        trainer,
        Budget("steps", updates),
        folder,
        lambda share: None,
        sizes={setting.script.size},
        warmup_share=setting.script.warmup_share,
        decay_share=setting.script.decay_share,
        resume=False,
    )
    tests = setting.batch(setting.test_boards())
    judged: dict[Way, Ends] = {(k, None): judge(trainer.model, tests, k) for k in setting.script.eval_tokens}
    write_job(folder, {"arm": SHUFFLED, "seed": seed, "machine": machine(), **spent}, outcomes_of(judged))


def table(records: Records) -> str:
    """Per cent valid of both orders, and their difference, of the seeds that both have; empty where there are none."""
    found = Results(records, (LABEL, SHUFFLED))
    if not (seeds := found.seeds(LABEL, SHUFFLED)):
        return ""
    columns = [valid(k) for k in ScriptArguments().eval_tokens]
    rows = [
        [name, *(percent(found.column(arm, column, seeds).mean()) for column in columns), str(len(seeds))]
        for arm, name in ((LABEL, TITLES[LABEL]), (SHUFFLED, "the same, cells read in a random order"))
    ]
    rows.append(["minus", *(lead(found.difference(SHUFFLED, LABEL, column)) for column in columns), ""])
    return markdown_table(["trained by", *(f"{k} a pass" for k in ScriptArguments().eval_tokens), "seeds"], rows)


def main() -> None:
    """Train what is not there yet, and print the table."""
    (args,) = parse(Arguments, description=__doc__, places=("output_dir",))
    torch.set_num_threads(1)
    recipe = RecipeArguments(use_cpu=True, report_to="none", disable_tqdm=True)
    setting, records = Setting.load(ScriptArguments(), recipe), Records(args.output_dir)
    for seed in args.seeds:
        job = job_name(SHUFFLED, seed=seed)
        if not records.result(job):
            train(setting, seed, args.updates, args.output_dir / job)
        print(job, flush=True)
    print(f"\n{table(Records(args.output_dir))}")


if __name__ == "__main__":
    main()
