"""GRPO on games with tools against supervised training, at equal CPU time (`scripts.tool_games.task`).

A Llama from scratch, by default of a million parameters, learns 4×4 Sudoku by tools from the ladder's games, in which a
share of the digits is asked for by `hint`. From there each arm trains for the same CPU seconds: `grpo` on games of its
own, which pay 1 for a solved grid less what hints cost, `more` on more of the ladder's games, `own` on those games of
its own that paid enough (it collects them first), `own_grpo` for half of the time so and then by GRPO. Judged on
held-out grids, sampled with the same random numbers and greedily.

    python -m scripts.tool_games.compare [--seeds 0 1 2 --learning_rate 1e-4 --cpu_seconds 240]
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from transformers import PreTrainedModel, PrinterCallback, Trainer

from llm_rl import GRPOArguments, GRPOTrainer, supervised_trainer
from llm_rl.core._options import option
from llm_rl.tools.collect import CollectOptions, collect
from llm_rl.training import RunArguments
from llm_rl.training.budget import Budget
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

    clues_low: int = option(13, "Least number of givens.")
    clues_high: int = option(14, "Greatest number of givens.")
    hint_share: float = option(0.2, "Digits of the ladder's games that a hint stands before.")
    hint_cost: float = option(0.25, "What a hint of grade 1 costs, in blanks.")
    train_puzzles: int = option(8000, "Games to learn from, and puzzles to play.")
    test_puzzles: int = option(250, "Held-out puzzles.")
    hidden_size: int = option(128, "Width of the model.")
    num_hidden_layers: int = option(5, "Depth of the model.")
    start_steps: int = option(300, "Supervised steps of the start.")
    start_learning_rate: float = option(2e-3, "Rate of the start, which falls to 0.")
    batch_size: int = option(32, "Games in a batch of supervised training.")
    learning_rate: float = option(1e-4, "Rate of GRPO; it rises and falls again.")
    control_learning_rate: float = option(1e-3, "The same of more supervised training.")
    own_puzzles: int = option(160, "Puzzles about which own games are collected, four each.")
    min_reward: float = option(1.0, "What a collected game must pay to be kept.")
    own_learning_rate: float = option(3e-4, "Rate of training on own games.")
    completions: int = option(64, "Games of a GRPO step.")
    num_generations: int = option(8, "Games of one puzzle, which are compared.")
    output_dir: str = option("runs/tool_games", "Run folder.")


class ToolGames(LlamaTrial):
    """The comparison."""

    INNER, POSITIONS = 3, 2048
    ARMS: ClassVar[Mapping[str, str]] = {
        "grpo": "GRPO",
        "more": "more of the ladder's games",
        "own": "its own kept games",
        "own_grpo": "its own kept games, then GRPO",
    }
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

    def stages(self, arm: str) -> list[tuple[str, Budget]]:
        """See `Trial.stages`."""
        if arm != "own_grpo":
            return super().stages(arm)
        half = replace(self.args.budget, amount=self.args.budget.amount / 2)
        return [("own", half), ("grpo", half)]

    def trainer(self, arm: str, model: PreTrainedModel, seed: int, folder: Path) -> Trainer:
        """The trainer of an arm."""
        args = self.args
        if arm == "grpo":
            return self.player(model, [_puzzle(row) for row in self.rows], seed, folder)
        own = arm == "own"
        rate = args.own_learning_rate if own else args.control_learning_rate
        rows = trajectories(self.collected(model, seed, folder) if own else self.rows)
        return supervised_trainer(
            model, RunArguments(**short_training(folder, args.batch_size, seed, rate)), rows, self.words
        )

    def collected(self, model: PreTrainedModel, seed: int, folder: Path) -> list[dict[str, Any]]:
        """Games of the model about the first puzzles, of which each paid enough.

        Raises:
            ValueError: None did.
        """
        args = self.args
        options = CollectOptions(
            output_dir=str(folder / "collected"),
            per_task=4,
            max_turns=self.max_turns,
            max_completion_length=CALL_TOKENS,
            min_reward=args.min_reward,
            seed=seed,
        )
        puzzles = [_puzzle(row) for row in self.rows[: args.own_puzzles]]
        kept = collect(model, puzzles, options, self.words, **self.plays)
        if not kept:
            told = f"own_puzzles={args.own_puzzles} pays {args.min_reward:g}"
            raise ValueError(f"no game about {told}; lower min_reward, or teach the start for longer")
        return kept

    @property
    def plays(self) -> dict[str, Any]:
        """What answers the model."""
        return {"environment_factory": make_game(self.args.hint_cost), "call_format": CALLS}

    @property
    def max_turns(self) -> int:
        """Turns of a game, at most."""
        return 2 * (SIZE**2 - self.args.clues_low)

    def player(self, model: Any, puzzles: list[dict[str, Any]], seed: int, folder: Path) -> GRPOTrainer:
        """The trainer on games, which judges too; only what the environment pays has a weight."""
        args = self.args
        settings = GRPOArguments(
            **short_training(folder, args.completions, seed, args.learning_rate),
            num_generations=args.num_generations,
            max_completion_length=CALL_TOKENS,
            max_turns=self.max_turns,
            loss_type="dapo",
            reward_weights=[0.0, 0.0, 1.0],
            per_device_eval_batch_size=250,
            show_supervised=False,
        )
        return GRPOTrainer(model, [solved, hints], settings, puzzles, self.words, **self.plays)

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
