"""Two variants of judged decisions, on the boards of docs/several_answers.md: cells a pass at random, and a reference.

python -m scripts.several_answers.controls --cells 1 9 --arms judged --seeds 0 1 …      # k of each roll-out drawn anew
python -m scripts.several_answers.controls --beta 0.1 --model FOLDER --arms judged …    # − β KL(p ‖ p of the base)
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn
from transformers import PreTrainedModel, Trainer, TrainerCallback

from dllm_rl.decoding.rollouts import Rollout
from dllm_rl.policy import score_states
from dllm_rl.terms.states import TermValue, VisitedStates
from llm_rl.training.command_line import parse
from sudoku_dllm.several.arguments import RecipeArguments, ScriptArguments
from sudoku_dllm.several.arms import Several
from sudoku_dllm.several.setting import Setting
from sudoku_dllm.trials.recipe import compare_recipes


@dataclass
class Variant(ScriptArguments):
    """What the variant is."""

    cells: list[int] = field(
        default_factory=list, metadata={"help": "Fewest and most cells a pass of a roll-out; none: tokens_per_step."}
    )
    beta: float = field(default=0.0, metadata={"help": "Weight of the divergence of open cells' digits from the base."})


class CellsAtRandom(TrainerCallback):
    """Draws the cells a pass of each roll-out, each number as likely."""

    def __init__(self, fewest: int, most: int) -> None:
        self.fewest, self.most = fewest, most

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """A draw for each roll-out, by seed and step."""
        if state.global_step % args.num_mini_batches == 0:
            drawn = np.random.default_rng((args.seed, state.global_step, self.most))
            args.tokens_per_step = int(drawn.integers(self.fewest, self.most + 1))


class Reference:
    """− β KL(p(·|s) ‖ p_base(·|s)), mean over the open cells of each visited state."""

    name: ClassVar[str] = "reference"
    at_rl_rate: ClassVar[bool] = True
    of_decisions: ClassVar[bool] = False

    def __init__(self, base: nn.Module, beta: float) -> None:
        self.base, self.beta = base.eval(), beta

    def over(self, rollout: Rollout) -> Callable[[VisitedStates], TermValue]:
        """See `Term.over`."""

        def value(visited: VisitedStates) -> TermValue:
            states = visited.states
            problems, mask = states.problems, None
            prompts = problems.prompt_ids[states.of]
            with torch.no_grad():
                scores = score_states(self.base, prompts, mask, states.responses, problems.mask_id, states.policy)
            here, there = (each.logits.log_softmax(-1) for each in (states.scores, scores))
            possible = there.isfinite()
            here, there = (each.where(possible, 0.0) for each in (here, there))
            of_row = (here.exp() * (here - there)).sum(-1)  # (M,)
            rows = states.scores.row_of
            each = of_row[rows.clamp_min(0)].where(rows >= 0, 0.0).sum(1) / (rows >= 0).sum(1)  # (N,)
            total = -self.beta * (each * visited.visits()).sum()
            return TermValue(total, {"reference": (float(each.detach().sum()), len(each))})

        return value


class Variants(Several):
    """The comparison with the variant in its roll-outs and terms."""

    def trainer(self, arm: str, model: PreTrainedModel, seed: int, folder: Path) -> Trainer:
        """That of the arm, changed."""
        trainer, script = super().trainer(arm, model, seed, folder), self.script
        assert isinstance(script, Variant)
        if script.cells:
            trainer.add_callback(CellsAtRandom(*script.cells))
        if script.beta:
            objective, reference = trainer.objective, Reference(self.start(seed, folder), script.beta)
            objective.terms = partial(_with, objective.terms, reference)
        return trainer


def _with(terms: Callable[[Any], list[Any]], reference: Reference, noise: Any) -> list[Any]:
    return [*terms(noise), reference]


def main() -> None:
    """Train, judge, report."""
    script, args = parse(Variant, RecipeArguments, description=__doc__, one_of=("max_steps", "train_seconds"))
    compare_recipes(Variants, lambda: Setting.load(script, args), script, args)


if __name__ == "__main__":
    main()
