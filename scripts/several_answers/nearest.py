"""Imitation of the right completion to which the model gives the largest probability, by enumeration, on 4×4 boards.

The roll-outs and the loss are those of imitation (`several.arms`); what is learned at a visited state is not what the
guarded roll-out wrote in the end, but of all grids that agree with the state the likeliest by the model as it stands
(one of many right answers, arXiv:2008.11990), or, as a placebo, one of them at random.

    python -m scripts.several_answers.nearest --target nearest --arms imitation --size 4 --clues 0 4 …
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel, Trainer

from dllm_rl.decoding.rollouts import Rollout
from dllm_rl.sudoku import PuzzleBatch
from dllm_rl.terms.cross_entropy import CrossEntropy, answer_loglikelihood
from dllm_rl.terms.states import ScoredStates, Term, TermValue, VisitedStates
from llm_rl.training.command_line import parse
from sudoku_dllm.several.arguments import RecipeArguments, ScriptArguments
from sudoku_dllm.several.arms import Several
from sudoku_dllm.several.setting import Setting
from sudoku_dllm.trials.recipe import compare_recipes
from sudoku_env.solver import solve_batch


@dataclass
class Variant(ScriptArguments):
    """What is learned."""

    target: Literal["own", "nearest", "random"] = field(default="nearest", metadata={"help": "What is learned."})


def all_grids() -> Tensor:
    """The 288 grids of 4×4 as digits from 0, int64 `(288, 16)`."""
    boards = [np.zeros(16, np.uint8)]
    for cell in range(16):
        tried = np.array([[*b[:cell], digit, *b[cell + 1 :]] for b in boards for digit in range(1, 5)], np.uint8)
        boards = list(tried[solve_batch(tried)[1] > 0])
    assert len(boards) == 288, len(boards)
    return torch.from_numpy(np.array(boards)).long() - 1


class Completed(Term):
    """The cross-entropy at visited states to a completion that is found by enumeration."""

    name: ClassVar[str] = "ce"

    def __init__(self, weight: float, target: str) -> None:
        self.weight, self.target, self.grids = weight, target, all_grids()

    def over(self, rollout: Rollout) -> Callable[[VisitedStates], TermValue]:
        """See `Term.over`."""

        def value(visited: VisitedStates) -> TermValue:
            states = visited.states
            answers = self.completions(states)
            likelihood = answer_loglikelihood(states.scores, answers, states.masked)
            return TermValue((self.weight * likelihood * visited.visits()).sum())

        return value

    @torch.no_grad()
    def completions(self, states: ScoredStates) -> Tensor:
        """Of all grids that agree with each state the likeliest, or a random one, as responses, int64 `(N, R)`."""
        problems = states.problems
        assert isinstance(problems, PuzzleBatch)
        cells, digits = torch.tensor(problems.layout.cell_positions), torch.tensor(problems.layout.digit_ids)
        boards = torch.from_numpy(problems.boards(states.responses)).long()  # (N, 16), 0 where open
        agrees = ((self.grids + 1 == boards[:, None]) | (boards[:, None] == 0)).all(-1)  # (N, 288)
        assert agrees.any(1).all()
        if self.target == "random":
            scores = torch.rand(agrees.shape)
        else:
            rows = states.scores.row_of[:, cells]  # (N, 16)
            logprobs = states.scores.logits.log_softmax(-1)[:, digits][rows.clamp_min(0)]  # (N, 16, 4)
            logprobs = logprobs.where((rows >= 0)[..., None], 0.0)
            one_hot = torch.nn.functional.one_hot(self.grids, 4).to(logprobs)  # (288, 16, 4)
            scores = torch.einsum("ncd,gcd->ng", logprobs, one_hot)
        best = scores.masked_fill(~agrees, float("-inf")).argmax(1)
        answers = states.responses.clone()
        answers[:, cells] = digits[self.grids[best]]
        return answers


class Variants(Several):
    """The comparison with another target."""

    def trainer(self, arm: str, model: PreTrainedModel, seed: int, folder: Path) -> Trainer:
        """That of the arm, changed."""
        trainer, script = super().trainer(arm, model, seed, folder), self.script
        assert isinstance(script, Variant) and arm == "imitation"
        if script.target != "own":
            objective = trainer.objective
            objective.terms = partial(_other, objective.terms, script.target, objective.ce_weight)
        return trainer


def _other(terms: Callable[[Any], list[Any]], target: str, weight: float, noise: Any) -> list[Any]:
    (own,) = terms(noise)
    assert isinstance(own, CrossEntropy)
    return [Completed(weight, target)]


def main() -> None:
    """Train, judge, report."""
    script, args = parse(Variant, RecipeArguments, description=__doc__, one_of=("max_steps", "train_seconds"))
    compare_recipes(Variants, lambda: Setting.load(script, args), script, args)


if __name__ == "__main__":
    main()
