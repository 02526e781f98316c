"""The field's objectives side by side at equal CPU time, on boards where any valid grid is right and a solver says so.

6×6 boards with 1 to 8 clues, of which a shipped model completes nearly all at one cell a pass and few at four. From it
each arm trains for the same CPU seconds: an objective of `scripts.referee.objectives` on groups of completions, which
earn 1 for a valid grid (with `--reward passes` the share of passes before an error), or ours: the group-relative policy
gradient of positions and tokens, and judged decisions. All but JustGRPO, which writes a cell a pass from left to right,
sample four cells a pass, positions by their margins. Judged are greedy decodes of held-out boards, by margin.

    python -m scripts.referee [METHOD …] [--seeds 0 1 2 3 4 --cpu_seconds 120 --rates spg=3e-4]

A method of one's own is a file in `objectives`, and a line in `METHODS` here. Left out is LightningRL's reward, which
is of decodes that differ in passes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel, Trainer

from dllm_rl import Decoding, UnmaskTrainer, decode
from dllm_rl.models.shipped import model_folder
from llm_rl.core._checks import check_choice, check_count
from llm_rl.core._options import option
from scripts.referee.objectives.cj_grpo import CjGrpo
from scripts.referee.objectives.copies import Objective
from scripts.referee.objectives.coupled_grpo import CoupledGrpo
from scripts.referee.objectives.diffu_grpo import DiffuGrpo
from scripts.referee.objectives.dispo import DispoTrainer, Reach
from scripts.referee.objectives.espo import Espo
from scripts.referee.objectives.just_grpo import JustGrpo
from scripts.referee.objectives.spg import Spg
from scripts.referee.objectives.trace_rl import TraceRl
from scripts.referee.objectives.upo import Upo
from scripts.referee.objectives.wd1 import Wd1
from scripts.referee.order_head import add_order_head, has_order_head, head_strategy, position_logprobs
from scripts.referee.training import ObjectiveArguments, ObjectiveTrainer, Reward, sampling
from sudoku_dllm.several.arguments import RecipeArguments, ScriptArguments
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
BRANCHED: dict[str, Reach] = {"dispo": "all", "dispo_judged": "pass"}
OURS = {
    "dispo": "DiSPO",
    "dispo_judged": "DiSPO, a pass judged",
    "policy_gradient": "positions and tokens",
    "judged": "judged decisions",
}
"""Those that are terms of `UnmaskTrainer`."""


@dataclass
class BoardsArguments(TrialArguments):
    """The boards, the roll-outs and the rates.

    Attributes:
        POSITIONS: How many positions a pass fills in decoding the held-out boards.
        RATES: The learning rate of each arm, for a method of one's own 1e-4.
    """

    POSITIONS: ClassVar[tuple[int, ...]] = (1, 2, 4, 6, 9)
    RATES: ClassVar[Mapping[str, float]] = dict.fromkeys(METHODS, 1e-4) | {
        "diffu_grpo": 3e-5, "wd1": 3e-4, "coupled_grpo": 3e-5, "spg": 3e-5, "espo": 1e-4, "trace_rl": 3e-5,
        "cj_grpo": 3e-4, "just_grpo": 1e-3, "upo": 1e-3, "dispo": 1.5e-4, "dispo_judged": 5e-5, "policy_gradient": 3e-5,
        "judged": 1.5e-4,
    }  # fmt: skip

    model: str = option("llada-sudoku6x6-converged", "A shipped model, or its folder.")
    size: int = option(6, "Size of the boards; the model must know its tokens.")
    clues: list[int] = option([1, 8], "Fewest and most clues of a board.")
    boards: int = option(4000, "Boards to train on, others for each seed.")
    test_boards: int = option(400, "Held-out boards.")
    test_seed: int = option(1, "Random seed of the held-out boards.")
    seeds: list[int] = option([0, 1, 2, 3, 4], "Random seeds.")
    cpu_seconds: float = option(120.0, "What each arm may spend, in CPU seconds.")
    tokens_per_step: int = option(4, "Positions that a pass of the sampler fills.")
    prompts: int = option(4, "Boards of a roll-out.")
    num_generations: int = option(16, "Completions of a board, which are compared.")
    num_iterations: int = option(1, "Updates on a roll-out, each with copies of its own.")
    num_mini_batches: int = option(9, "Updates of judged decisions on a roll-out.")
    reward: Reward = option("final", "final: a right answer; passes: those before an error.")
    divergence: bool = option(False, "Give objectives that have one their divergence from the start.")
    rates: list[str] = option([], rates_help(RATES))
    output_dir: str = option("runs/referee_boards", "Run folder.")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("reward", self.reward, Reward)
        self.model = model_folder(self.model)
        chosen_rates(self.RATES, self.rates)
        if self.tokens_per_step not in self.POSITIONS:
            raise ValueError(f"tokens_per_step={self.tokens_per_step} is not judged; choose one of {self.POSITIONS}")
        for name, least in {"prompts": 1, "num_generations": 2, "num_iterations": 1, "num_mini_batches": 1}.items():
            check_count(name, getattr(self, name), least=least)


class Boards(Trial):
    """The comparison."""

    ARMS: ClassVar[Mapping[str, str]] = {name: title for name, (title, _) in METHODS.items()} | OURS
    CONTROL = "judged"
    FIGURES: ClassVar[Mapping[str, str]] = {f"right/{k}": f"right at {k} cells" for k in BoardsArguments.POSITIONS}
    args: BoardsArguments

    @cached_property
    def setting(self) -> Setting:
        """The boards as the model reads them."""
        args = self.args
        script = ScriptArguments(
            model=args.model,
            size=args.size,
            clues=args.clues,
            boards=args.boards,
            test_boards=args.test_boards,
            test_seed=args.test_seed,
        )
        return Setting.load(script, RecipeArguments(output_dir=args.output_dir, report_to="none", use_cpu=True))

    def start(self, seed: int, folder: Path) -> PreTrainedModel:
        """The shipped model."""
        return self.load(Path(self.args.model))

    def trainer(self, arm: str, model: PreTrainedModel, seed: int, folder: Path) -> Trainer:
        """The trainer of an arm."""
        args, (boards, _) = self.args, self.setting.training_boards(seed)
        problems, task = self.setting.filled(boards), self.setting.task
        rate = chosen_rates(args.RATES, args.rates)[arm]
        if arm in OURS:
            judged = arm not in ("policy_gradient", "dispo")  # of each decision
            recipe = RecipeArguments(
                **short_training(folder, args.prompts if arm == "policy_gradient" else 32, seed, rate),
                num_mini_batches=1 if arm == "policy_gradient" else args.num_mini_batches,
                tokens_per_step=args.tokens_per_step,
                on_error="redraw" if judged else "end",
            )
            if arm == "policy_gradient":
                recipe.num_generations, recipe.policy_weight, recipe.judged_weight = args.num_generations, 1.0, 0.0
            if arm in BRANCHED:
                return DispoTrainer(model, recipe, problems, task, reach=BRANCHED[arm])
            return UnmaskTrainer(model, recipe, problems, task)

        # JustGRPO writes from left to right, a position a pass; UPO's divergence is of its head.
        from_left, has_divergence = arm == "just_grpo", arm != "upo" and hasattr(METHODS[arm][1], "kl_weight")
        settings = ObjectiveArguments(
            **short_training(folder, args.prompts, seed, rate),
            lr_scheduler_type="constant",
            num_generations=args.num_generations,
            num_iterations=args.num_iterations,
            reward=args.reward,
            tokens_per_step=1 if from_left else args.tokens_per_step,
            sampler="left_to_right" if from_left else "policy",
            divergence=args.divergence and has_divergence,
        )
        given = (model, METHODS[arm][1], settings, problems, task)
        if arm != "upo":
            return ObjectiveTrainer(*given)
        add_order_head(model, seed)
        return ObjectiveTrainer(*given, strategy=head_strategy(model, draws=True), logprobs=position_logprobs)

    def judge(self, model: PreTrainedModel, seed: int, folder: Path) -> Judgement:
        """Which held-out boards are completed rightly, by positions a pass.

        Those of a greedy decode, and `sampled/k` by the policy that training samples from, one answer a board.
        """
        tests = self.setting.batch(self.setting.test_boards())
        outcomes, trained = dict[str, NDArray[Any]](), self.args.tokens_per_step
        head, every = has_order_head(model), torch.arange(len(tests))
        sampler = sampling(head_strategy(model, draws=True) if head else None, trained)
        drawn = decode(model, tests, sampler, generator=torch.Generator().manual_seed(seed)).responses
        outcomes[f"sampled/{trained}"] = tests.completable(drawn, every).numpy()
        how = head_strategy(model, draws=False) if head else "margin"
        for k in self.args.POSITIONS:
            responses = decode(model, tests, Decoding(how, tokens_per_step=k)).responses
            outcomes[f"right/{k}"] = tests.completable(responses, every).numpy()
        shares: dict[str, Any] = {name: float(values.mean()) for name, values in outcomes.items()}
        return shares, {"solved": outcomes[f"right/{trained}"], **outcomes}
