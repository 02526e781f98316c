"""VAPOR on SmolLM2-135M: 4×4 Sudoku as a chat, from a small supervised start, judged on held-out grids.

Makes the start if it is not there (LoRA on expert answers), trains it with `llm_rl.vapor.VAPORTrainer` on a verifiable
reward and on pairs of a sound and a faulty answer, and judges both on puzzles whose grids do not occur in training. By
default the grid is both the verifiable part and the response that is preferred; with `--form brief
--verifiable_term_split "<REASONING>" "</REASONING>"` the reasoning is verified and the grid preferred. The run folder
receives the arguments, `metrics.jsonl` with the held-out curve, `curve.png`, the trained model, `results.json` and
`report.html`.
Where defaults depart from the form of docs/sources.md, `--help` says so (docs/trainers.md shows both).

    python -m scripts.smollm2.train_vapor [recipe.yaml] [--start runs/smollm2/start --seed 1 …]
    python -m scripts.smollm2.train_vapor [recipe.yaml] --resume_from_checkpoint last
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from transformers import TrainerCallback

from llm_rl import VAPORArguments, VAPORTrainer
from llm_rl.core import Scale
from llm_rl.training import fail, parse
from llm_rl.vapor import ClipOn, RatioBase, RatioLevel
from scripts.smollm2.recipe import RecipeDefaults, TaskArguments, choose_folder, puzzle_rows, train_and_judge
from sudoku_env.chat import REASONING_TAGS, RESPONSE_TAGS, cells_reward, givens_reward, reasoning_reward


@dataclass
class VaporTaskArguments(TaskArguments):
    """The task, judged on fewer puzzles: their pairs are scored as well."""

    curve_puzzles: int = field(default=16, metadata={"help": "Held-out puzzles for the curve."})
    test_puzzles: int = field(default=32, metadata={"help": "Held-out puzzles for the table."})
    greedy: bool = field(default=False, metadata={"help": "Judge greedy decoding as well, beside sampling."})


@dataclass
class RecipeArguments(RecipeDefaults, VAPORArguments):  # type: ignore[misc]  # as in VAPORArguments
    """Arguments of VAPOR with this script's defaults."""

    output_dir: str = field(default="runs/train_vapor", metadata={"help": "Run folder."})
    max_steps: int = field(default=8, metadata={"help": "Optimizer steps."})
    max_completion_length: int = field(default=36, metadata={"help": "Longest completion in tokens."})
    verifiable_term_split: list[str] = field(
        default_factory=lambda: list(RESPONSE_TAGS), metadata={"help": "Tags of the part that the reward looks at."}
    )
    ratio_base: RatioBase = field(default="old", metadata={"help": "ref (docs/sources.md), or old, at sampling."})
    ratio_level: RatioLevel = field(
        default="token", metadata={"help": "Log-ratio over s_i: sum (docs/sources.md), mean, token."}
    )
    clip_on: ClipOn = field(default="verifiable", metadata={"help": "Clip on product (docs/sources.md) or verifiable."})
    kl_weight: float = field(default=0.0, metadata={"help": "w1: weight of the divergence from the reference."})
    pref_loss_weight: float = field(default=0.05, metadata={"help": "Weight of -log sigmoid(beta * margin)."})
    advantage_scale: Scale = field(default="std", metadata={"help": "Advantages: none (docs/sources.md), or over std."})


PANELS = {
    "reward_mean": "reward",
    "preference_margin": "preference margin (nats)",
    "preference_accuracy": "preference accuracy",
}

REWARDS = {REASONING_TAGS: [reasoning_reward], RESPONSE_TAGS: [givens_reward, cells_reward]}

task, args = parse(VaporTaskArguments, RecipeArguments, description=__doc__)
if (rewards := REWARDS.get(tuple(args.verifiable_term_split))) is None:
    fail(f"verifiable_term_split is {args.verifiable_term_split}; rewards exist for {list(REWARDS)}")


def new_trainer(
    model: Any, tokenizer: Any, rows: Mapping[str, Sequence[Any]], callbacks: list[TrainerCallback] | None
) -> VAPORTrainer:
    """VAPOR on the reward of the verifiable part."""
    return VAPORTrainer(
        model, rewards, args, rows["train"], tokenizer, eval_dataset=rows["validation"], callbacks=callbacks
    )


folder = choose_folder(task, args)
rows = puzzle_rows(task)
train_and_judge(
    "VAPOR", task, args, folder, rows, rows["train"], new_trainer, PANELS, ("reward_mean", "preference_margin")
)
