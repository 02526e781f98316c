"""Write signed digits for RARO in mixed batches on verl on a processor, or read what a run validated; see docs/raro.md.

Questions, experts and start are those of `scripts.raro.digits`: the start tries expressions, and answers with one too
early or too late; as critic it adds up both answers. The folder receives `model`, `train.parquet` and
`validation.parquet`, the policy's rows alone.

    python -m scripts.raro.verl_digits [--output_dir runs/verl_digits]
    python -m scripts.raro.verl_digits --read runs/verl_digits/validation  # what each validation found
"""

import json
import random
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from llm_rl import PolicyRows, Prompts
from llm_rl.core._options import option
from llm_rl.integrations.verl.rows import both_roles, policy_row, write_parquet
from llm_rl.raro.prompts import RoleTemplate, extract_answer
from llm_rl.training import need_writable, parse
from scripts.raro.digits import Digits, DigitsArguments
from scripts.shared.signs import expression, puzzles, value


@dataclass
class VerlDigitsArguments:
    """Arguments of `scripts/raro/verl_digits.py`."""

    output_dir: str = option("runs/verl_digits", "Folder.")
    read: str = option("", "A run's validation_data_dir, to be read instead.")
    start_steps: int = option(2000, "Supervised steps of the start.")
    seed: int = option(0, "Random seed of the start and of the order of rows.")


def write(args: VerlDigitsArguments) -> None:
    """The model and the rows."""
    folder = Path(args.output_dir)
    trial = Digits(DigitsArguments(output_dir=args.output_dir, start_steps=args.start_steps))
    texts = trial.settings(args.seed, folder)
    prompts = Prompts(RoleTemplate("", texts.policy_template), RoleTemplate("", texts.critic_template))
    trial.words.chat_template = "{% for turn in messages %}{{ turn.content }} {% endfor %}"
    trial.words.save_pretrained(folder / "model")
    trial.start(args.seed, folder).save_pretrained(folder / "model")
    asked = {name: PolicyRows(rows, prompts) for name, rows in trial.rows.items()}
    write_parquet(folder / "train.parquet", both_roles(asked["train"], "train", args.seed, "mixed"))
    test = [policy_row(row, place, "validation") for place, row in enumerate(asked["test"])]
    write_parquet(folder / "validation.parquet", test)
    draws = random.Random(args.seed)
    tried = [value(expression(row["digits"], draws)) == row["target"] for row in puzzles(20_000, 1, held_out=True)]
    print(f"{folder}; a random expression is right in {100 * sum(tried) / len(tried):.1f} % of the puzzles")


def read(folder: Path) -> None:
    """Print the share of right answers, and of right labels among those that name one of two different answers."""
    trial = Digits(DigitsArguments())
    for file in sorted(folder.glob("*.jsonl"), key=lambda file: int(file.stem)):
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        said, asked = [row["output"] for row in rows], [row["input"].split() for row in rows]
        right = trial.right(said, [words[3:] for words in asked], [int(words[1]) for words in asked])
        different = [row for row in rows if row["gts"] != extract_answer(row["output"])]
        told = [row["right"] for row in different if row["counted"] and not row["tie"]]
        print(f"step {file.stem}: {100 * mean(right):.1f} % of {len(right)} answers are right, ", end="")
        print(f"{100 * mean(told):.1f} % of {len(told)} labels")


if __name__ == "__main__":
    (args,) = parse(VerlDigitsArguments, description=__doc__)
    if args.read:
        read(Path(args.read))
    else:
        need_writable("output_dir", args.output_dir)
        write(args)
