"""The arms: what each is trained on and by, within its budget, and what is kept of it."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
from torch import nn
from transformers import PreTrainedModel, Trainer

import dllm_rl  # noqa: F401  (registers LLaDA)
from dllm_rl.decoding import Decoding, decode
from dllm_rl.decoding.noise import StateNoise
from dllm_rl.decoding.rollouts import Rollout
from dllm_rl.sft import SftDataset, SftTrainer
from dllm_rl.sudoku import PuzzleBatch
from dllm_rl.terms.judged_decisions import JudgedDecisions
from dllm_rl.terms.objective import ObjectiveConfig
from dllm_rl.terms.states import Term, TermValue, VisitedStates
from dllm_rl.training.trainer import UnmaskTrainer
from llm_rl.training.arguments import part_of
from llm_rl.training.budget import Budget
from sudoku_dllm.machine import machine
from sudoku_dllm.several.arguments import AFTER_LABEL, LABELS, PARTS, UPDATES, RecipeArguments
from sudoku_dllm.several.judging import Judged, diversity, judge, outcomes_of
from sudoku_dllm.several.labels import least_answer, nearest_answer, solver_answer
from sudoku_dllm.several.setting import Setting
from sudoku_dllm.trials.jobs import Job, Progress
from sudoku_dllm.trials.record import write_job
from sudoku_dllm.trials.training import (
    MODEL,
    NOTHING_SPENT,
    arm_arguments,
    budget_in,
    new_model,
    sft_arguments,
    train_job,
)
from sudoku_env.board import Board
from sudoku_env.solver import completable

DECODED_AT_ONCE = 250
CANONICAL: dict[str, Callable[[Board], Board]] = {
    "sft_canonical": solver_answer,
    "sft_least": least_answer,
    "sft_nearest": nearest_answer,
}


class JudgedInPart(JudgedDecisions):
    """Judged decisions of whose gradient one factor of π(a|s) is left: of the positions, or of the tokens."""

    part: str

    def over(self, rollout: Rollout) -> Callable[[VisitedStates], TermValue]:
        """Scores of the other factor give no gradient."""
        value = super().over(rollout)

        def in_part(visited: VisitedStates) -> TermValue:
            scores = visited.states.scores
            if self.part == "positions":
                kept = scores._replace(logits=scores.logits.detach())
            else:
                kept = scores._replace(position_logprobs=scores.position_logprobs.detach())
            return value(replace(visited, states=visited.states._replace(scores=kept)))

        return in_part


@dataclass
class ObjectiveInPart(ObjectiveConfig):
    """The objective with a part of judged decisions."""

    part: str = "positions"

    def terms(self, noise: StateNoise | None = None) -> list[Term]:
        """The one term; see `ObjectiveConfig.terms`."""
        term = JudgedInPart(self, noise, lam=self.lam)
        term.part = self.part
        return [term]


@dataclass
class ArgumentsInPart(RecipeArguments):
    """The recipe with a part of judged decisions."""

    part: str = "positions"

    def objective_config(self) -> ObjectiveConfig:
        """The objective's part of the arguments."""
        return part_of(self, ObjectiveInPart)


def new_trainer(setting: Setting, arm: str, seed: int, folder: Path, model: PreTrainedModel | None = None) -> Trainer:
    """The trainer of an arm, of a model or of the base; what the arms are is said here alone.

    - "sft": masked-diffusion fine-tuning on the grids that the boards were taken from: random completions.
    - "sft_canonical", "sft_least", "sft_nearest": the same on one completion by a rule (`several.labels`).
    - "sft_own": the same on the base's own decodes, one cell a pass, as far as they are valid.
    - "ce": the roll-outs of judged decisions without their term: at the states visited, masked cross-entropy to the
      solver's first completion of each.
    - "policy_gradient": group-relative, of whole trajectories; a token that follows earns 1, an error ends it.
    - "judged": judged decisions; "judged_positions" and "judged_tokens" have the gradient of one factor alone.
    - "judged_after_label": judged decisions at a rate of their own, the second stage of the arm (`stages`).
    """
    boards, grids = setting.training_boards(seed)
    script, model = setting.script, new_model(setting.script, setting.args, seed) if model is None else model
    if arm in LABELS:
        answers = CANONICAL[arm](boards) if arm in CANONICAL else grids
        return sft_trainer(setting, arm, seed, folder, model, setting.batch(boards, answers))
    if arm == "sft_own":
        own = own_answers(model, setting, boards[: script.own_boards])
        return sft_trainer(setting, arm, seed, folder, model, setting.batch(*own))
    args = arm_arguments(setting.args, seed, folder, None if arm in PARTS else script.rate(arm))
    if arm in ("judged_positions", "judged_tokens"):
        shared = {item.name: getattr(args, item.name) for item in fields(RecipeArguments) if item.init}
        args = ArgumentsInPart(**shared, part=arm.removeprefix("judged_"))
    if arm == "ce":
        args.ce_weight, args.judged_weight = 1.0, 0.0
    if arm == "policy_gradient":
        size = script.group_size
        args.per_device_train_batch_size = max(1, args.per_device_train_batch_size // size)
        args.num_generations, args.num_mini_batches, args.on_error = size, 1, "end"
        args.policy_weight, args.judged_weight = 1.0, 0.0
    return UnmaskTrainer(model, args, setting.filled(boards), setting.task)


def sft_trainer(
    setting: Setting, arm: str, seed: int, folder: Path, model: PreTrainedModel, problems: PuzzleBatch
) -> SftTrainer:
    """SFT on problems and their answers; what is no matter of the loss is the recipe's."""
    arguments = sft_arguments(setting.script, setting.args, arm, seed, folder)
    return SftTrainer(model=model, args=arguments, train_dataset=SftDataset(problems.to("cpu")))


def own_answers(model: nn.Module, setting: Setting, boards: Board) -> tuple[Board, Board]:
    """The boards that a model completes validly, one cell a pass, and its completions.

    Raises:
        ValueError: It completes none.
    """
    decodes = []
    for first in range(0, len(boards), DECODED_AT_ONCE):
        batch = setting.batch(boards[first : first + DECODED_AT_ONCE])
        decodes.append(batch.boards(decode(model, batch, Decoding("margin")).responses))
    found = np.concatenate(decodes)
    valid = (found > 0).all(1) & completable(found)
    if not valid.any():
        raise ValueError(f"the base completes none of {len(boards)} boards validly; raise own_boards={len(boards)}")
    return boards[valid], found[valid]


def stages(setting: Setting, arm: str) -> list[tuple[str, Budget]]:
    """What an arm is trained as, one after the other, and what each stage may spend; none for the base.

    Judged decisions after a label have half of what SFT on the label alone has, and half of what they have alone.
    """
    of = ("sft_least", arm) if arm == AFTER_LABEL else (arm,)
    found = [(each, budget_in(setting.script, setting.args, each, UPDATES, "judged")) for each in of]
    return [(each, Budget(budget.by, budget.amount / len(of))) for each, budget in found if budget]


@dataclass(frozen=True, eq=False)
class Arms:
    """The arms as jobs that run side by side.

    Attributes:
        setting: Base, boards and arguments.
    """

    setting: Setting

    @property
    def quiet(self) -> bool:
        """Whether no bars are printed."""
        return self.setting.args.disable_tqdm

    def run(self, job: Job, folder: Path, *, resume: bool, training: Progress, judging: Progress) -> None:
        """Train unless it is the base, decode the held-out boards, and write the result; see `Comparison`."""
        setting, script, spent = self.setting, self.setting.script, NOTHING_SPENT
        to_do, model = stages(setting, job.arm), new_model(script, setting.args, job.seed)
        for number, (stage, budget) in enumerate(to_do, start=1):
            last = number == len(to_do)
            stage_folder = folder if last else folder / stage
            trainer = new_trainer(setting, stage, job.seed, stage_folder, model)
            more = train_job(
                trainer,
                budget,
                stage_folder,
                lambda share, before=number - 1: training((before + share) / len(to_do)),  # type: ignore[misc]
                sizes={script.size},
                warmup_share=script.warmup_share,
                decay_share=script.decay_share,
                resume=resume,
            )
            spent = {name: spent[name] + value for name, value in more.items()}
            model = trainer.model
        if to_do:
            setting.tokenizer.save_pretrained(folder / MODEL)

        # All boards at each number of cells a pass, with and without peers; then many decodes of the empty board.
        ways = [(k, exclude) for exclude in (False, True) for k in script.eval_tokens]
        tests = setting.batch(setting.test_boards())
        judged: dict[tuple[int, bool], Judged] = {}
        for number, (k, exclude) in enumerate(ways):
            judging(number / (len(ways) + 1))
            same = k == 1 and exclude  # one cell has no peers in its pass
            judged[k, exclude] = judged[k, False] if same else judge(model, tests, k, exclude_peers=exclude)
        empty = setting.batch(np.zeros((1, script.size**2), np.uint8))
        kept = diversity(model, empty, setting.args.tokens_per_step, script.draws, job.seed)
        result = {"arm": job.arm, "seed": job.seed, "machine": machine(), **spent, "empty_board": kept}
        write_job(folder, result, outcomes_of(judged))
