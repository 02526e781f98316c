"""The field's objectives trained side by side at equal CPU time, where any valid grid is right and a solver says so.

6×6 boards with 1 to 8 clues, of which a shipped model completes nearly all at one cell a pass and few at four. From it
each arm trains for the same CPU seconds: an objective of `scripts.referee.objectives` on groups of completions, which
earn 1 for a valid grid (with `--reward passes` the share of passes before an error), or ours: the group-relative policy
gradient of positions and tokens, and judged decisions. All but JustGRPO, which writes a cell a pass from left to right,
sample four cells a pass, positions by their margins. Judged are greedy decodes of held-out boards, by margin.

    python -m scripts.referee [METHOD …] [--seeds 0 1 2 3 4 --cpu_seconds 120 --rates spg=3e-4]

A method of one's own is a file in `objectives`, and a line in `METHODS` here. Left out are a divergence from a
reference, and LightningRL's reward, which is of decodes that differ in passes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from transformers import PreTrainedModel, Trainer

from dllm_rl import Decoding, LladaForMaskedLM, decode
from dllm_rl.models.shipped import model_folder
from llm_rl.core._checks import check_choice
from scripts.referee.objectives.cj_grpo import CjGrpo
from scripts.referee.objectives.copies import Objective
from scripts.referee.objectives.coupled_grpo import CoupledGrpo
from scripts.referee.objectives.diffu_grpo import DiffuGrpo
from scripts.referee.objectives.espo import Espo
from scripts.referee.objectives.just_grpo import JustGrpo
from scripts.referee.objectives.spg import Spg
from scripts.referee.objectives.trace_rl import TraceRl
from scripts.referee.objectives.upo import Upo
from scripts.referee.objectives.wd1 import Wd1
from scripts.referee.order_head import add_order_head, has_order_head, head_strategy, position_logprobs
from scripts.referee.training import ObjectiveArguments, ObjectiveTrainer, Reward
from sudoku_dllm.several.arguments import RecipeArguments, ScriptArguments
from sudoku_dllm.several.arms import new_trainer
from sudoku_dllm.several.judging import judged
from sudoku_dllm.several.setting import Setting
from sudoku_dllm.trials.rates import chosen_rates, rates_help
from sudoku_dllm.trials.trial import Judgement, Trial, TrialArguments, short_training

METHODS: dict[str, tuple[str, Objective]] = {
    "diffu_grpo": ("diffu-GRPO", DiffuGrpo()),
    "wd1": ("wd1", Wd1()),
    "coupled_grpo": ("coupled-GRPO", CoupledGrpo()),
    "spg": ("SPG", Spg()),
    "espo": ("ESPO", Espo()),
    "trace_rl": ("TraceRL", TraceRl()),
    "cj_grpo": ("CJ-GRPO", CjGrpo()),
    "just_grpo": ("JustGRPO", JustGrpo()),
    "upo": ("UPO, a head on the frozen model", Upo()),
}
OURS = {"policy_gradient": "positions and tokens", "judged": "judged decisions"}
RATES = dict.fromkeys(METHODS, 1e-4) | {"upo": 1e-3, "policy_gradient": 1e-4, "judged": 4.5e-4}
"""Learning rates."""
CELLS = (1, 2, 4, 6, 9)
"""Cells a pass in decoding the held-out boards."""


@dataclass
class RefereeArguments(TrialArguments):
    """The boards, the roll-outs and the rates."""

    model: str = field(default="llada-sudoku6x6-converged", metadata={"help": "A shipped model, or its folder."})
    size: int = field(default=6, metadata={"help": "Size of the boards; the model must know its tokens."})
    clues: list[int] = field(default_factory=lambda: [1, 8], metadata={"help": "Fewest and most clues of a board."})
    seeds: list[int] = field(default_factory=lambda: [0, 1, 2, 3, 4], metadata={"help": "Random seeds."})
    cpu_seconds: float = field(default=120.0, metadata={"help": "What each arm may spend, in CPU seconds."})
    tokens_per_step: int = field(default=4, metadata={"help": "Cells that a pass of the sampler fills."})
    prompts: int = field(default=4, metadata={"help": "Boards of a roll-out."})
    num_generations: int = field(default=16, metadata={"help": "Completions of a board, which are compared."})
    num_iterations: int = field(default=1, metadata={"help": "Updates on a roll-out, each with copies of its own."})
    reward: Reward = field(default="final", metadata={"help": "final: a valid grid; passes: those before an error."})
    rates: list[str] = field(default_factory=list, metadata=rates_help(RATES))
    boards: int = field(default=4000, metadata={"help": "Boards to train on, others for each seed."})
    test_boards: int = field(default=400, metadata={"help": "Held-out boards, the same for all arms and seeds."})
    test_seed: int = field(default=1, metadata={"help": "Random seed of the held-out boards."})
    output_dir: str = field(default="runs/referee", metadata={"help": "Run folder."})

    def __post_init__(self) -> None:
        super().__post_init__()
        self.model = model_folder(self.model)
        check_choice("reward", self.reward, Reward)
        chosen_rates(RATES, self.rates)
        if self.tokens_per_step not in CELLS:
            raise ValueError(f"tokens_per_step={self.tokens_per_step} is not judged; choose one of {CELLS}")
        if min(self.prompts, self.num_generations - 1, self.num_iterations) < 1:
            raise ValueError(
                f"prompts={self.prompts}, num_generations={self.num_generations} and num_iterations="
                f"{self.num_iterations} must be at least 1, 2 and 1"
            )


class Referee(Trial):
    """The comparison."""

    ARMS: ClassVar[Mapping[str, str]] = {name: title for name, (title, _) in METHODS.items()} | OURS
    CONTROL = "judged"
    FIGURES: ClassVar[Mapping[str, str]] = {f"valid/{k}": f"valid at {k} cells" for k in CELLS}
    args: RefereeArguments

    @cached_property
    def setting(self) -> Setting:
        """The boards, and what our own arms take."""
        args = self.args
        script = ScriptArguments(
            model=args.model,
            size=args.size,
            clues=args.clues,
            boards=args.boards,
            test_boards=args.test_boards,
            test_seed=args.test_seed,
        )
        recipe = RecipeArguments(
            output_dir=args.output_dir,
            tokens_per_step=args.tokens_per_step,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
        )
        return Setting.load(script, recipe)

    def start(self, seed: int, folder: Path) -> PreTrainedModel:
        """The shipped model."""
        return self.load(Path(self.args.model))

    def load(self, folder: Path) -> PreTrainedModel:
        """See `Trial.load`."""
        return LladaForMaskedLM.from_pretrained(folder)

    def trainer(self, arm: str, model: PreTrainedModel, seed: int, folder: Path) -> Trainer:
        """The trainer of an arm."""
        args, setting = self.args, self.setting
        rate = chosen_rates(RATES, args.rates)[arm]
        if arm in OURS:
            setting.args.learning_rate, setting.script.rates = rate, [f"policy_gradient={rate}"]
            setting.script.group_size = args.num_generations
            setting.args.per_device_train_batch_size = 32 if arm == "judged" else args.prompts * args.num_generations
            return new_trainer(setting, arm, seed, folder, model)
        boards, _ = setting.training_boards(seed)
        left = arm == "just_grpo"
        settings = ObjectiveArguments(
            **short_training(folder, args.prompts, seed, rate),
            lr_scheduler_type="constant",
            num_generations=args.num_generations,
            num_iterations=args.num_iterations,
            tokens_per_step=1 if left else args.tokens_per_step,
            sampler="left_to_right" if left else "policy",
            reward=args.reward,
        )
        taught = (model, METHODS[arm][1], settings, setting.filled(boards), setting.task)
        if arm != "upo":
            return ObjectiveTrainer(*taught)
        add_order_head(model, seed)
        return ObjectiveTrainer(*taught, strategy=head_strategy(model, draws=True), logprobs=position_logprobs)

    def judge(self, model: PreTrainedModel, seed: int, folder: Path) -> Judgement:
        """Which held-out boards are completed validly, by cells a pass."""
        tests = self.setting.batch(self.setting.test_boards())
        how = head_strategy(model, draws=False) if has_order_head(model) else "margin"
        valid = {k: judged(decode(model, tests, Decoding(how, tokens_per_step=k))).valid for k in CELLS}
        figures: dict[str, Any] = {f"valid/{k}": float(found.mean()) for k, found in valid.items()}
        outcomes = {f"valid/{k}": found for k, found in valid.items()}
        return figures, {"solved": valid[self.args.tokens_per_step], **outcomes}
