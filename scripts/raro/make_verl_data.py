"""Write the rows of both roles for RARO on verl (docs/raro.md): `train.parquet` and `validation.parquet`.

Input are JSON lines with "question" and "answer", an expert's, such as `make_data.py --kind questions` writes.
"""

from dataclasses import dataclass, field
from pathlib import Path

from llm_rl import PolicyRows, Prompts
from llm_rl.core._options import option
from llm_rl.integrations.verl.rows import both_roles, write_parquet
from llm_rl.raro.arguments import CriticBatch
from llm_rl.raro.prompts import read_questions
from llm_rl.training import fail, need_file, need_writable, parse


@dataclass
class VerlDataArguments:
    """Arguments of `make_verl_data.py`."""

    train: str = field(metadata={"help": "JSON lines to train on."})
    validation: str = field(metadata={"help": "JSON lines to measure on."})
    output_dir: str = option("runs/verl", "Folder.")
    critic_batch: CriticBatch = option("separate", "mixed: training rows of the policy alone, for +critic_batch=mixed.")
    seed: int = option(0, "Random seed of the order of questions.")


(args,) = parse(VerlDataArguments, description=__doc__)
for split in ("train", "validation"):
    need_file(split, getattr(args, split))
need_writable("output_dir", args.output_dir)
for split in ("train", "validation"):
    file, path = Path(getattr(args, split)), Path(args.output_dir) / f"{split}.parquet"
    try:
        rows = both_roles(PolicyRows(read_questions(file), Prompts()), split, args.seed, args.critic_batch)
        write_parquet(path, rows)
    except (OSError, ValueError) as error:
        fail(str(error))
    print(f"{path} ({len(rows):,} rows)")
