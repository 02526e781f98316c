"""Write a game of RARO for verl on a processor: a model of 20,000 parameters and rows of both roles; docs/raro.md.

A question is a number, the expert's answer the next one. The model is a Llama that has learned both formats from the
expert's answers for some steps, with labels drawn at random. The folder receives `model`, `train.parquet` and
`validation.parquet`.

    python -m scripts.verl.raro_game [--output_dir runs/verl_game]
"""

from dataclasses import dataclass
from pathlib import Path

from tokenizers import AddedToken
from transformers import PreTrainedTokenizerFast

from llm_rl import PolicyRows, Prompts, start_rows
from llm_rl.core._options import option
from llm_rl.integrations.verl.rows import both_roles, write_parquet
from llm_rl.raro.arguments import CriticBatch
from llm_rl.raro.start import LABELS
from llm_rl.training import need_writable, parse
from scripts.verl.model import chat_words, write_model

NUMBERS = 32


@dataclass
class VerlGameArguments:
    """Arguments of `scripts/verl/raro_game.py`."""

    output_dir: str = option("runs/verl_game", "Folder.")
    start_steps: int = option(150, "Supervised steps of the model.")
    copies: int = option(4, "How often each question stands in the training rows.")
    critic_batch: CriticBatch = option("separate", "mixed: rows for +critic_batch=mixed.")
    seed: int = option(0, "Random seed of model, rows and their order.")


def words() -> PreTrainedTokenizerFast:
    """A token for each number and label; all other words of a prompt are one token."""
    tokenizer = chat_words([*map(str, range(NUMBERS + 1))])
    tokenizer.add_tokens([AddedToken(label) for label in LABELS])
    return tokenizer


def main() -> None:
    """Write everything."""
    (args,) = parse(VerlGameArguments, description=__doc__)
    need_writable("output_dir", args.output_dir)
    folder, prompts, tokenizer = Path(args.output_dir), Prompts(), words()
    rows = [{"question": str(number), "answer": str(number + 1)} for number in range(NUMBERS)]
    model = write_model(
        start_rows(rows, prompts, seed=args.seed),
        tokenizer,
        folder / "model",
        seed=args.seed,
        steps=args.start_steps,
        length=512,
    )
    train = both_roles(PolicyRows(rows * args.copies, prompts), "train", args.seed, args.critic_batch)
    write_parquet(folder / "train.parquet", train)
    write_parquet(folder / "validation.parquet", both_roles(PolicyRows(rows[:8], prompts), "validation", args.seed))
    print(f"{folder} ({model.num_parameters():,} parameters, {len(train)} training rows)")


if __name__ == "__main__":
    main()
