"""What the comparisons of objectives share, whatever the problems: methods, arguments, trainers and judging.

A task is a `Referee`: problems to train on and held out ones, of which a program says what can still be completed, and
a start. `scripts.referee.boards`, `unique`, `countdown` and `published` are tasks. A method of one's own is a file in
`objectives`, and a line in `METHODS` here. Left out is LightningRL's reward, which is of decodes that differ in passes.
"""

import sys
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel, PrinterCallback, Trainer

from dllm_rl import (
    Decoding,
    LladaForMaskedLM,
    SftArguments,
    SftDataset,
    SftTrainer,
    UnmaskBatch,
    UnmaskTask,
    UnmaskTrainer,
    decode,
)
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
from sudoku_dllm.several.arguments import RecipeArguments
from sudoku_dllm.trials.rates import chosen_rates, rates_help
from sudoku_dllm.trials.trial import Judgement, Trial, TrialArguments, run_trial, short_training

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
Start = Literal["rules", "form"]
"""Whether the start was taught right answers, or answers of the right form alone."""
BRANCHED: dict[str, Reach] = {"dispo": "all", "dispo_judged": "pass"}
OURS = {
    "dispo": "DiSPO",
    "dispo_judged": "DiSPO, a pass judged",
    "policy_gradient": "positions and tokens",
    "judged": "judged decisions",
}
"""Those that are terms of `UnmaskTrainer`."""


@dataclass
class RefereeArguments(TrialArguments):
    """The roll-outs and the rates; a task adds its problems.

    Attributes:
        POSITIONS: How many positions a pass fills in decoding the held-out problems.
        RATES: The learning rate of each arm, from which a task's own are chosen.
    """

    POSITIONS: ClassVar[tuple[int, ...]]
    RATES: ClassVar[Mapping[str, float]] = (
        dict.fromkeys(METHODS, 1e-4)
        | {"upo": 1e-3, "policy_gradient": 1e-4, "judged": 4.5e-4}
        | dict.fromkeys(BRANCHED, 1.5e-4)
    )

    seeds: list[int] = option([0, 1, 2, 3, 4], "Random seeds.")
    cpu_seconds: float = option(120.0, "What each arm may spend, in CPU seconds.")
    tokens_per_step: int = option(4, "Positions that a pass of the sampler fills.")
    prompts: int = option(4, "Problems of a roll-out.")
    num_generations: int = option(16, "Completions of a problem, which are compared.")
    num_iterations: int = option(1, "Updates on a roll-out, each with copies of its own.")
    num_mini_batches: int = option(9, "Updates of judged decisions on a roll-out.")
    reward: Reward = option("final", "final: a right answer; passes: those before an error.")
    divergence: bool = option(False, "Give objectives that have one their divergence from the start.")
    rates: list[str] = option([], rates_help(RATES))
    test_seed: int = option(1, "Random seed of the held-out problems.")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("reward", self.reward, Reward)
        chosen_rates(self.RATES, self.rates)
        if self.tokens_per_step not in self.POSITIONS:
            raise ValueError(f"tokens_per_step={self.tokens_per_step} is not judged; choose one of {self.POSITIONS}")
        for name, least in {"prompts": 1, "num_generations": 2, "num_iterations": 1, "num_mini_batches": 1}.items():
            check_count(name, getattr(self, name), least=least)


def taught(model: PreTrainedModel, batch: UnmaskBatch, arguments: Mapping[str, Any]) -> PreTrainedModel:
    """A model after supervised steps on problems and their answers.

    Args:
        model: The model, trained in place.
        batch: The problems.
        arguments: Those of `SftArguments`.
    """
    trainer = SftTrainer(model=model, args=SftArguments(**arguments), train_dataset=SftDataset(batch))
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    return model


def figures(positions: Sequence[int], of: str) -> dict[str, str]:
    """What tables show of a task: the share that is right by the number of positions a pass fills.

    Args:
        positions: The numbers.
        of: What a position is called.
    """
    return {f"right/{k}": f"right at {k} {of}" for k in positions}


class Referee(Trial):
    """The comparison on some kind of problems."""

    ARMS: ClassVar[Mapping[str, str]] = {name: title for name, (title, _) in METHODS.items()} | OURS
    CONTROL = "judged"
    args: RefereeArguments

    @property
    @abstractmethod
    def task(self) -> UnmaskTask:
        """What kind of problems they are."""

    @abstractmethod
    def training_problems(self, seed: int) -> Sequence[Any]:
        """Problems to train on with a seed, none of which is held out."""

    @abstractmethod
    def test_batch(self) -> UnmaskBatch:
        """The held-out problems, the same for all arms and seeds."""

    def load(self, folder: Path) -> PreTrainedModel:
        """See `Trial.load`."""
        return LladaForMaskedLM.from_pretrained(folder)

    def trainer(self, arm: str, model: PreTrainedModel, seed: int, folder: Path) -> Trainer:
        """The trainer of an arm."""
        args, problems = self.args, self.training_problems(seed)
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
                return DispoTrainer(model, recipe, problems, self.task, reach=BRANCHED[arm])
            return UnmaskTrainer(model, recipe, problems, self.task)

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
        given = (model, METHODS[arm][1], settings, problems, self.task)
        if arm != "upo":
            return ObjectiveTrainer(*given)
        add_order_head(model, seed)
        return ObjectiveTrainer(*given, strategy=head_strategy(model, draws=True), logprobs=position_logprobs)

    def judge(self, model: PreTrainedModel, seed: int, folder: Path) -> Judgement:
        """Which held-out problems are answered rightly, by positions a pass, and what else is told of the answers.

        Those of a greedy decode, and `sampled/k` by the policy that training samples from, one answer a problem.
        """
        tests, outcomes, trained = self.test_batch(), dict[str, NDArray[Any]](), self.args.tokens_per_step
        head, every = has_order_head(model), torch.arange(len(tests))
        sampler = sampling(head_strategy(model, draws=True) if head else None, trained)
        drawn = decode(model, tests, sampler, generator=torch.Generator().manual_seed(seed)).responses
        outcomes[f"sampled/{trained}"] = tests.completable(drawn, every).numpy()
        how = head_strategy(model, draws=False) if head else "margin"
        for k in self.args.POSITIONS:
            responses = decode(model, tests, Decoding(how, tokens_per_step=k)).responses
            found = {"right": tests.completable(responses, every).numpy(), **self.compared(tests, responses)}
            outcomes |= {f"{name}/{k}": values for name, values in found.items()}
        shares: dict[str, Any] = {name: float(values.mean()) for name, values in outcomes.items()}
        return shares, {"solved": outcomes[f"right/{trained}"], **outcomes}

    def compared(self, tests: UnmaskBatch, responses: Tensor) -> dict[str, NDArray[Any]]:
        """What else is told of answers, by name, an entry for each held-out problem; nothing, unless a task says so.

        Args:
            tests: The Q held-out problems.
            responses: int64 `(Q, R)`, their answers.
        """
        return {}


def run(task: type[Referee], arguments: type[RefereeArguments], description: str | None) -> None:
    """The command of a comparison; words before the options are the methods to train."""
    first = next((place for place, word in enumerate(sys.argv) if place and word.startswith("-")), len(sys.argv))
    if methods := sys.argv[1:first]:
        sys.argv[1:first] = ["--arms", *methods]
    run_trial(task, arguments, description or "")
