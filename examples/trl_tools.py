"""TRL's GRPOTrainer trains a model that plays Sudoku by calling tools.

    pip install "sudoku-dllm[trl]"
    python examples/trl_tools.py --model_name_or_path PATH --output_dir runs/trl_tools

The model's chat template must know tool calls, as that of Qwen3 does. Rewards are those of `SudokuText`: 1 for the
solved grid, less what hints cost.
"""

from dataclasses import dataclass, field

from datasets import Dataset
from transformers import HfArgumentParser
from trl import GRPOConfig, GRPOTrainer

from sudoku_env import text_rows
from sudoku_env.integrations.trl import environment_factory


@dataclass
class Arguments:
    """What is trained on what."""

    model_name_or_path: str = field(metadata={"help": "Folder of a model, or its name."})
    size: int = field(default=4, metadata={"help": "Board size: 4, 6 or 9."})
    clues: int = field(default=12, metadata={"help": "Givens of a puzzle."})
    puzzles: int = field(default=1000, metadata={"help": "Puzzles to train on."})
    reward: str = field(default="solved", metadata={"help": "Reward: solved, cells, completable or definite."})


if __name__ == "__main__":
    given, config = HfArgumentParser((Arguments, GRPOConfig)).parse_args_into_dataclasses()
    rows = text_rows(given.puzzles, size=given.size, clues=given.clues, seed=config.seed, tools=True)
    trainer = GRPOTrainer(
        given.model_name_or_path,
        args=config,
        train_dataset=Dataset.from_list(rows),
        environment_factory=environment_factory(size=given.size, reward=given.reward),
    )
    trainer.train()
