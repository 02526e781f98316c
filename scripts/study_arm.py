"""One arm of a study with one seed, in a process of its own; `scripts/study.py` starts it.

python scripts/study_arm.py configs/study.yaml REGIME ARM SEED
"""

import argparse
import json
from pathlib import Path

import torch
from timing import machine
from transformers.utils import logging as transformers_logging

from dllm_rl.study_arm import RESULT, ArmRun
from dllm_rl.study_config import BASES, load_study

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("config", help="The study, YAML.")
parser.add_argument("regime", help="Name of the regime.")
parser.add_argument("arm", help="Name of the arm, or of a base.")
parser.add_argument("seed", type=int)
parser.add_argument("--output_dir", default="runs/study", help="Folder of the study's runs.")
args = parser.parse_args()

# Budgets are CPU seconds of one thread.
torch.set_num_threads(1)
transformers_logging.set_verbosity_error()
transformers_logging.disable_progress_bar()
regimes, _ = load_study(args.config)
if args.regime not in regimes or args.arm not in (*(regime := regimes[args.regime]).bases, *regime.arms):
    parser.error(f"the study has no arm {args.arm!r} in a regime {args.regime!r}")
folder = Path(args.output_dir) / args.regime
budget = None
if args.arm not in BASES:
    spec = regime.arms[args.arm].budget
    other = None
    if spec.same_as is not None:
        path = folder / spec.same_as / f"seed{args.seed}" / RESULT
        if not path.exists():
            parser.error(f"the budget is that of arm {spec.same_as!r}, which has no {path}; run it first")
        other = json.loads(path.read_text(encoding="utf-8"))
    budget = spec.resolve(other)
ArmRun(regime, args.arm, args.seed, folder / args.arm / f"seed{args.seed}").run(budget, machine=machine())
