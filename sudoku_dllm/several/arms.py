"""The arms: what each is trained on and by, within its budget, and what is kept of it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np
from torch import nn
from transformers import PreTrainedModel, Trainer

from dllm_rl.decoding import Decoding, decode
from dllm_rl.training.trainer import UnmaskTrainer
from sudoku_dllm.several.arguments import AFTER_LABEL, IMITATIONS, LABELS, REFERENCE_SECONDS, UPDATES
from sudoku_dllm.several.card import write_card
from sudoku_dllm.several.judging import GUARDS, Way, are_valid, cells_of, diversity, judge, outcomes_of
from sudoku_dllm.several.labels import least_answer
from sudoku_dllm.several.page import write_page
from sudoku_dllm.several.report import ONE_ANSWER, TITLES, Outcomes, draw, screen
from sudoku_dllm.several.setting import Setting
from sudoku_dllm.trials.arguments import BASE, SOURCE
from sudoku_dllm.trials.jobs import Job
from sudoku_dllm.trials.recipe import RecipeTrial
from sudoku_dllm.trials.reporting import closing_line, watched, write_table
from sudoku_dllm.trials.training import MODEL, arm_arguments, sft_trainer, source_arguments
from sudoku_dllm.trials.trial import Judgement
from sudoku_env.board import Board
from sudoku_env.solver import solve_batch

SECONDS_A_BOARD = 0.1
"""CPU seconds of judging a job, by the held-out board."""
DECODED_AT_ONCE = 250
OWN_BOARDS = 1500  # whose own decodes are the labels of sft_own
GROUP = 16  # trajectories of a board, for the policy gradient
CANONICAL: dict[str, Callable[[Board], Board]] = {
    "sft_canonical": lambda boards: solve_batch(boards)[0],
    "sft_least": least_answer,
}


def own_answers(model: nn.Module, setting: Setting, boards: Board) -> tuple[Board, Board]:
    """The boards that a model completes validly, one cell a pass, and its completions; a ValueError without any."""
    parts = (boards[first : first + DECODED_AT_ONCE] for first in range(0, len(boards), DECODED_AT_ONCE))
    batches = (setting.batch(part) for part in parts)
    found = np.concatenate([each.boards(decode(model, each, Decoding("margin")).responses) for each in batches])
    valid = are_valid(found)
    if not valid.any():
        raise ValueError(f"the base completes none of {len(boards)} boards validly; leave the arm sft_own out")
    return boards[valid], found[valid]


class Several(RecipeTrial):
    """The arms of the comparison on boards with several right answers."""

    UPDATES = UPDATES
    SECONDS = REFERENCE_SECONDS
    REFERENCE = "judged"
    STAGES: ClassVar[Mapping[str, tuple[str, ...]]] = {
        AFTER_LABEL: ("sft_least", AFTER_LABEL),
        "imitation_after_label": ("sft_least", "imitation_after_label"),
        "judged_after_imitation": ("imitation", "judged_after_imitation"),
    }
    setting: Setting

    def trainer(self, arm: str, model: PreTrainedModel, seed: int, folder: Path) -> Trainer:
        """The trainer of an arm; what the arms are is said here alone.

        - "sft": masked-diffusion fine-tuning on the grids that the boards were taken from: random completions.
        - "sft_canonical", "sft_least": the same on one completion by a rule (`several.labels`).
        - "sft_own": the same on the base's own decodes, one cell a pass, as far as they are valid.
        - "ce": the roll-outs of judged decisions without their term: at the states visited, masked cross-entropy to the
          solver's first completion of each.
        - "policy_gradient": group-relative, of whole trajectories; a token that follows earns 1, an error ends it.
        - "source": the objective of docs/sources.md as it stands there (`source_arguments`).
        - "judged": judged decisions; "judged_after_label", "judged_after_imitation": the same at a rate of their own,
          as a second stage (`STAGES`).
        - "imitation", "imitation_after_label": at the states of guarded roll-outs that are offered all open cells,
          cross-entropy to what the roll-out wrote in the end.
        - "kept": at these states, the share of the cells that the check keeps.
        """
        setting, script = self.setting, self.script
        boards, grids = setting.training_boards(seed)
        if arm in LABELS:
            answers = CANONICAL[arm](boards) if arm in CANONICAL else grids
            return sft_trainer(setting, arm, seed, folder, model, setting.batch(boards, answers))
        if arm == "sft_own":
            own = own_answers(model, setting, boards[:OWN_BOARDS])
            return sft_trainer(setting, arm, seed, folder, model, setting.batch(*own))
        if arm == SOURCE:
            own = source_arguments(setting.args, seed, folder, script.rate(arm))
            return UnmaskTrainer(model, own, setting.filled(boards), setting.task)
        args = arm_arguments(setting.args, seed, folder, None if arm == "judged" else script.rate(arm))
        if arm == "ce":
            args.ce_weight, args.judged_weight = 1.0, 0.0
        if arm == "policy_gradient":
            args.per_device_train_batch_size = max(1, args.per_device_train_batch_size // GROUP)
            args.num_generations, args.num_mini_batches, args.on_error = GROUP, 1, "end"
            args.policy_weight, args.judged_weight = 1.0, 0.0
        if arm in (*IMITATIONS, "kept"):
            args.on_error, args.tokens_per_step, args.reduction = "guard", script.size**2, "sum"
            args.judged_weight = 0.0
            args.num_mini_batches = 3  # about one for each pass
            if arm == "kept":
                args.kept_weight = 1.0
                args.judged_draws = args.judged_draws // 2
            else:
                args.ce_weight, args.ce_target = 1.0, "own"
        return UnmaskTrainer(model, args, setting.filled(boards), setting.task)

    def judge(self, model: PreTrainedModel, seed: int, folder: Path) -> Judgement:
        """All boards at each number of cells a pass, by each check; those with one answer; draws of the empty board."""
        setting, script, k = self.setting, self.setting.script, self.args.tokens_per_step
        ways: list[Way] = [(k, guard) for guard in (None, *GUARDS) for k in cells_of(script, guard)]
        tests, found = setting.batch(setting.test_boards()), {}
        for number, how in enumerate(ways):
            self.progress(number / (len(ways) + 1))
            found[how] = judge(model, tests, *how)
        one_answer = {ONE_ANSWER: judge(model, setting.batch(setting.one_answer_tests()), k).valid}
        empty = setting.batch(np.zeros((1, script.size**2), np.uint8))
        drawn = (model, empty, k, script.draws, seed)
        grids = {"empty_board": diversity(*drawn), "empty_board_completable": diversity(*drawn, "completable")}
        return grids, outcomes_of(found) | one_answer

    def plan(self, jobs: list[Job], left: list[Job]) -> str:
        """What will happen, and how long it takes."""
        script, (low, high) = self.script, self.script.clues
        lines = [
            f"Boards of {script.size}×{script.size} with {low} to {high} clues have many right answers, and a solver "
            "says whether one can still be completed.",
            *self.trainings(jobs, TITLES),
            f"Tested on {script.test_boards:,} boards that none is trained on, "
            f"{', '.join(map(str, script.eval_tokens))} cells a pass, by no check, the rules and the solver.",
        ]
        return "\n".join([*lines, *self.minutes(left, SECONDS_A_BOARD * script.test_boards)])

    def report(self, run: Path, jobs: list[Job]) -> None:
        """One screen; what there is besides in files."""
        outcomes = Outcomes(self.script, self.args, run, [BASE, *self.script.arms], self.seeds)
        write_table(outcomes.long_table(), run / "table.csv")
        draw(outcomes, run / "valid.png")
        trained = [job for job in jobs if job.arm != BASE]
        for job in trained:
            write_card(outcomes, job, run)
        print(f"\n{screen(outcomes)}\n\n{watched(run, jobs)}{closing_line(outcomes)}")
        page = write_page(outcomes, self.setting, run, jobs)
        print(f"Report with replays, for a browser: {page}; valid.png and table.csv beside it.")
        if trained:
            folder = trained[-1].folder(run) / MODEL
            print(f"Next: sudoku-dllm decode {'.' * self.script.size**2} --model {folder} --tokens_per_step 4")
