"""RARO on a file of questions and expert answers, from any causal language model of transformers. See docs/raro.md.

Reads lines of {"question", "answer"}, the expert's; other columns may be there. The run folder receives checkpoints
and, at the end, `model` with its tokenizer, which `scripts.judge_answers` takes as well.

    python -m scripts.train_raro configs/raro.yaml --model FOLDER --data questions.jsonl
    python -m scripts.train_raro configs/raro.yaml --model FOLDER --data questions.jsonl --resume_from_checkpoint last
"""

from dataclasses import dataclass
from pathlib import Path

from llm_rl import RAROArguments, RAROTrainer
from llm_rl.core._options import option
from llm_rl.raro.prompts import read_questions
from llm_rl.rollout.loading import load_policy
from llm_rl.training import CheckpointError, need_file, need_model, need_writable, parse, user_errors


@dataclass
class Files:
    """The model and the questions."""

    model: str = option("", "Folder of the model and its tokenizer, or a name on the hub.")
    data: Path = option(Path("questions.jsonl"), "Lines of questions and expert answers.")


def main() -> None:
    """Train, and keep the model."""
    files, args = parse(Files, RAROArguments, description=__doc__)
    need_model("model", files.model)
    need_file("data", files.data)
    need_writable("output_dir", args.output_dir)
    with user_errors(ValueError, OSError, CheckpointError):
        rows = read_questions(files.data, args.reasoning_tags)
        model, tokenizer = load_policy(files.model, None)
        trainer = RAROTrainer(model, args, rows, tokenizer)
    with user_errors(CheckpointError):
        trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)
    trainer.save_model(str(Path(args.output_dir) / "model"))


if __name__ == "__main__":
    main()
