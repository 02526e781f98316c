"""GRPO on games with tools against more supervised training, at equal CPU time (`scripts.tool_games.task`).

A Llama from scratch, by default of a million parameters, learns 4×4 Sudoku by tools from the ladder's games, in which a
share of the digits is asked for by `hint`. From there both arms train for the same CPU seconds: `grpo` on games of its
own, which pay 1 for a solved grid less what hints cost, `more` on more of the ladder's games. Judged on held-out grids,
sampled with the same random numbers and greedily.

    python -m scripts.tool_games.compare [--seeds 0 1 2 --learning_rate 1e-4 --cpu_seconds 240]
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from transformers import PreTrainedModel, PrinterCallback, Trainer

from llm_rl import GRPOArguments, GRPOTrainer, supervised_trainer
from llm_rl.training import RunArguments
from scripts.shared.tiny_llama import LlamaTrial
from scripts.tool_games.task import CALL_TOKENS, CALLS, SIZE, games, hints, make_game, solved, tokenizer, trajectories
from sudoku_dllm.trials.trial import Judgement, TrialArguments, run_trial, short_training

METRICS = {
    "solved": "reward/solved",
    "reward": "reward/environment_reward",
    "hints": "reward/hints",
    "turns": "turns",
    "calls": "tool_calls",
}
"""What is told of sampled games, and its name among the metrics of an evaluation."""


@dataclass
class CompareArguments(TrialArguments):
    """The puzzles, the model, the start and the rates."""

    clues_low: int = field(default=13, metadata={"help": "Least number of givens."})
    clues_high: int = field(default=14, metadata={"help": "Greatest number of givens."})
    hint_share: float = field(default=0.2, metadata={"help": "Digits of the ladder's games that a hint stands before."})
    hint_cost: float = field(default=0.25, metadata={"help": "What a hint of grade 1 costs, in blanks."})
    train_puzzles: int = field(default=8000, metadata={"help": "Games to learn from, and puzzles to play."})
    test_puzzles: int = field(default=250, metadata={"help": "Held-out puzzles."})
    hidden_size: int = field(default=128, metadata={"help": "Width of the model."})
    num_hidden_layers: int = field(default=5, metadata={"help": "Depth of the model."})
    start_steps: int = field(default=300, metadata={"help": "Supervised steps of the start."})
    start_learning_rate: float = field(default=2e-3, metadata={"help": "Rate of the start, which falls to 0."})
    batch_size: int = field(default=32, metadata={"help": "Games in a batch of supervised training."})
    learning_rate: float = field(default=1e-4, metadata={"help": "Rate of GRPO; it rises and falls again."})
    control_learning_rate: float = field(default=1e-3, metadata={"help": "The same of more supervised training."})
    completions: int = field(default=64, metadata={"help": "Games of a GRPO step."})
    num_generations: int = field(default=8, metadata={"help": "Games of one puzzle, which are compared."})
    output_dir: str = field(default="runs/tool_games", metadata={"help": "Run folder."})


class ToolGames(LlamaTrial):
    """The comparison."""

    INNER, POSITIONS = 3, 2048
    ARMS: ClassVar[Mapping[str, str]] = {"grpo": "GRPO", "more": "more of the ladder's games"}
    FIGURES: ClassVar[Mapping[str, str]] = {
        "solved": "solved, sampled",
        "solved_greedily": "solved, greedily",
        "reward": "what a game pays",
        "hints": "hints a game",
        "turns": "turns a game",
    }
    args: CompareArguments

    @cached_property
    def words(self) -> Any:
        """The tokenizer."""
        return tokenizer()

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The ladder's games, with their puzzles."""
        args = self.args
        clues = args.clues_low, args.clues_high
        return games(args.train_puzzles, 0, held_out=False, clues=clues, hints=args.hint_share)

    def start_rows(self, seed: int) -> Any:
        """Games of the ladder."""
        return trajectories(self.rows)

    def trainer(self, arm: str, model: PreTrainedModel, seed: int, folder: Path) -> Trainer:
        """The trainer of an arm."""
        args = self.args
        if arm == "grpo":
            return self.player(model, [_puzzle(row) for row in self.rows], seed, folder)
        more = RunArguments(**short_training(folder, args.batch_size, seed, args.control_learning_rate))
        return supervised_trainer(model, more, trajectories(self.rows), self.words)

    def player(self, model: Any, puzzles: list[dict[str, Any]], seed: int, folder: Path) -> GRPOTrainer:
        """The trainer on games, which judges too; only what the environment pays has a weight."""
        args = self.args
        settings = GRPOArguments(
            **short_training(folder, args.completions, seed, args.learning_rate),
            num_generations=args.num_generations,
            max_completion_length=CALL_TOKENS,
            max_turns=2 * (SIZE**2 - args.clues_low),
            loss_type="dapo",
            reward_weights=[0.0, 0.0, 1.0],
            per_device_eval_batch_size=250,
            show_supervised=False,
        )
        plays: dict[str, Any] = {"environment_factory": make_game(args.hint_cost), "call_format": CALLS}
        return GRPOTrainer(model, [solved, hints], settings, puzzles, self.words, **plays)

    def judge(self, model: PreTrainedModel, seed: int, folder: Path) -> Judgement:
        """`METRICS` of sampled games of the held-out puzzles, and what is solved greedily."""
        args = self.args
        clues = args.clues_low, args.clues_high
        test = [_puzzle(row) for row in games(args.test_puzzles, 1, held_out=True, clues=clues)]
        player = self.player(model, test, seed, folder)
        player.remove_callback(PrinterCallback)
        sampled, greedy = player.evaluate(test), player.evaluate(test, greedy=True)
        found = {name: sampled[f"eval_{metric}"] for name, metric in METRICS.items()}
        greedily = {f"{name}_greedily": greedy[f"eval_reward/{name}"] for name in ("solved", "hints")}
        return {**found, **greedily}, {}


def _puzzle(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("prompt", "puzzle")}


if __name__ == "__main__":
    run_trial(ToolGames, CompareArguments, __doc__ or "")
