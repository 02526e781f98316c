"""A language model learns to play Sudoku by calling tools: from the ladder's games first, then by GRPO.

    python examples/sudoku_tools.py --model_name_or_path PATH --output_dir runs/sudoku_tools --max_steps 100

`--trajectories FILE` learns from conversations of yours instead of the ladder's. A chat template that knows no tools,
such as SmolLM2's, is replaced by ours. Rewards are those of `SudokuText`: 1 for the solved grid, less what hints cost.
"""

from dataclasses import dataclass, field
from pathlib import Path

from transformers import AutoModelForCausalLM, AutoTokenizer

from llm_rl import (
    TOOL_CHAT_TEMPLATE,
    GRPOArguments,
    GRPOTrainer,
    TrajectoryDataset,
    read_trajectories,
    supervised_trainer,
)
from llm_rl.tools.toolbox import methods_of
from llm_rl.training import RunArguments, parse
from sudoku_env import text_rows
from sudoku_env.chat import expert_rows
from sudoku_env.integrations.trl import environment_factory


@dataclass
class Arguments:
    """What is learnt from what."""

    model_name_or_path: str = field(metadata={"help": "Folder of a model, or its name."})
    size: int = field(default=4, metadata={"help": "Board size: 4, 6 or 9."})
    clues: int = field(default=12, metadata={"help": "Givens of a puzzle."})
    puzzles: int = field(default=1000, metadata={"help": "Puzzles of each of the two trainings."})
    trajectories: str | None = field(default=None, metadata={"help": "JSON lines of games, in place of the ladder's."})
    start_steps: int = field(default=100, metadata={"help": "Supervised steps."})
    start_learning_rate: float = field(default=1e-4, metadata={"help": "Learning rate of these."})


if __name__ == "__main__":
    given, args = parse(Arguments, GRPOArguments, description=__doc__)
    args.max_turns = max(args.max_turns, 2 * (given.size**2 - given.clues))
    tokenizer = AutoTokenizer.from_pretrained(given.model_name_or_path)
    model = AutoModelForCausalLM.from_pretrained(given.model_name_or_path, dtype="float32")
    if "tools" not in (tokenizer.chat_template or ""):
        tokenizer.chat_template = TOOL_CHAT_TEMPLATE
    make_game = environment_factory(size=given.size)

    # A supervised start: the model learns how calls are written, and to play a little.
    games = (
        expert_rows(given.puzzles, size=given.size, clues=given.clues, seed=args.seed, hints=0.2)
        if given.trajectories is None
        else read_trajectories(given.trajectories)
    )
    data = TrajectoryDataset(games, tokenizer, list(methods_of(make_game()).values()))
    start_args = RunArguments(
        str(Path(args.output_dir) / "start"),
        max_steps=given.start_steps,
        per_device_train_batch_size=args.per_device_train_batch_size,
        learning_rate=given.start_learning_rate,
        use_cpu=args.use_cpu,
        report_to="none",
    )
    supervised_trainer(model, start_args, data, tokenizer).train()

    # Games of its own.
    rows = text_rows(given.puzzles, size=given.size, clues=given.clues, seed=args.seed + 1, tools=True)
    GRPOTrainer(model, None, args, rows, tokenizer, environment_factory=make_game).train()
