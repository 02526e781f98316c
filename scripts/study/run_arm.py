"""One arm of a study with one seed, in a process of its own; `scripts/study/run.py` starts it.

python -m scripts.study.run_arm configs/causes.yaml REGIME ARM SEED
"""

from dataclasses import dataclass, field
from pathlib import Path

import torch
from transformers.utils import logging as transformers_logging

from llm_rl.training import USER_ERRORS, fail, need_file, parse, user_errors
from scripts.study.arm import ArmRun
from scripts.study.config import BASE, StudyConfigError, load_study
from sudoku_dllm.machine import machine
from sudoku_dllm.trials import Records, job_name
from sudoku_env import SudokuError


@dataclass
class Arguments:
    """What to run, and where."""

    config: str = field(metadata={"help": "The study, YAML."})
    regime: str = field(metadata={"help": "Name of the regime."})
    arm: str = field(metadata={"help": 'Name of the arm, or "base".'})
    seed: int = field(metadata={"help": "Random seed of training and of decoding."})
    output_dir: str = field(default="runs/study", metadata={"help": "Folder of the study's runs."})


(args,) = parse(Arguments, description=__doc__, places=("config", "regime", "arm", "seed"))
need_file("config", args.config)
# Budgets are CPU seconds of one thread.
torch.set_num_threads(1)
transformers_logging.set_verbosity_error()
transformers_logging.disable_progress_bar()
with user_errors(*USER_ERRORS, SudokuError, StudyConfigError):
    regimes, _ = load_study(args.config)
if args.regime not in regimes or args.arm not in (BASE, *(regime := regimes[args.regime]).arms):
    fail(f"the study has no arm {args.arm!r} in a regime {args.regime!r}")
runs = Path(args.output_dir)
budget = None
if args.arm != BASE:
    spec = regime.arms[args.arm].budget
    other = None
    if spec.same_as is not None:
        lender = job_name(args.regime, spec.same_as, seed=args.seed)
        if (other := Records(runs).result(lender)) is None:
            fail(f"the budget is that of {lender}, which has no result in {runs}; run it first")
    budget = spec.resolve(other)
folder = runs / job_name(args.regime, args.arm, seed=args.seed)
ArmRun(regime, args.arm, args.seed, folder).run(budget, machine=machine())
