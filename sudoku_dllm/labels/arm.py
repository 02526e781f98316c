"""The comparison of labels: what its arms are trained by, how they are judged, what is kept and told of them."""

import shutil
from dataclasses import fields
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from transformers import PreTrainedModel, Trainer

from dllm_rl.decoding import Decoding, Evaluation, decode, evaluate
from dllm_rl.task import Learned
from dllm_rl.training.trainer import UnmaskTrainer
from llm_rl.training.processes import is_first
from sudoku_dllm.labels.arguments import REFERENCE_SECONDS, UPDATES
from sudoku_dllm.labels.card import write_card
from sudoku_dllm.labels.data import Setting
from sudoku_dllm.labels.page import write_page
from sudoku_dllm.labels.report import TITLES, Outcomes, closing_text, draw
from sudoku_dllm.trials.arguments import BASE, SOURCE
from sudoku_dllm.trials.jobs import Job
from sudoku_dllm.trials.recipe import RecipeTrial
from sudoku_dllm.trials.reporting import closing_line, watched, write_table
from sudoku_dllm.trials.training import arm_arguments, new_model, passes_of, sft_trainer, source_arguments
from sudoku_dllm.trials.trial import Judgement
from sudoku_env.envs.rendering import decode_gif

SECONDS_A_PASS = 4e-9
"""CPU seconds that a parameter costs in decoding one puzzle for one step, measured on cores of 2023; for the plan."""
GIF = "decode.gif"


class Labels(RecipeTrial):
    """The comparison of labels."""

    UPDATES = UPDATES
    SECONDS = REFERENCE_SECONDS
    REFERENCE = "objective"
    setting: Setting

    def start(self, seed: int, folder: Path) -> PreTrainedModel:
        """The base, its weights of the type that is asked for."""
        return new_model(self.script, self.args, seed, dtype=self.script.dtype)

    def trainer(self, arm: str, model: PreTrainedModel, seed: int, folder: Path) -> Trainer:
        """The trainer of an arm; what the arms are is said here alone.

        - "objective": the recipe. "placebo": the same with every cell counted as definite. "ce": the recipe's
          roll-outs, but of the loss only the masked cross-entropy, at all open positions.
        - "source": the objective of docs/sources.md as it stands there (`source_arguments`).
        - "sft": masked-diffusion fine-tuning on the solved puzzles. "sft_definite": the same with a loss on cells alone
          that are definite where the mask falls.

        What the loss counts decides which rate is best: where it is cells that can be learned by heart alone, a lower
        one.
        """
        setting = self.setting
        if arm in ("sft", "sft_definite"):
            ce_on: Learned = "definite" if arm == "sft_definite" else "masked"
            return sft_trainer(setting, arm, seed, folder, model, setting.task().batch(setting.train), ce_on)
        if arm == SOURCE:
            own = source_arguments(self.args, seed, folder, self.script.rate(arm))
            return UnmaskTrainer(model, own, setting.train, setting.task())
        args = arm_arguments(self.args, seed, folder, self.script.rate(arm) if arm in ("ce", "placebo") else None)
        if arm == "ce":
            args.policy_weight, args.f_weight, args.ce_on = 0.0, 0.0, "masked"
        return UnmaskTrainer(model, args, setting.train, setting.task(placebo=arm == "placebo"))

    def curve(self, trainer: Trainer) -> dict[str, Any]:
        """The share of the curve's puzzles that are solved by the first strategy, one token a step."""
        setting, how = self.setting, Decoding(self.script.strategies[0], on_error="end")

        def validate(model: nn.Module) -> float:
            with passes_of(trainer):
                found = evaluate(model, setting.curve, setting.judged_as, how)
            return float(found.solved.mean())

        return {"validate": validate, "curve_points": self.script.curve_points}

    def judge(self, model: PreTrainedModel, seed: int, folder: Path) -> Judgement:
        """Decode every held-out set by every strategy and number of tokens a step, and draw one decode."""
        setting, script = self.setting, self.script
        policy = self.args.policy_config(1.0)
        ways = list(product(setting.tests, script.strategies, script.eval_tokens))
        found = {}
        for number, (name, strategy, k) in enumerate(ways):
            self.progress(number / len(ways))
            how, tests = Decoding(strategy, tokens_per_step=k, policy=policy, on_error="end"), setting.tests[name]
            found[name, strategy, k] = evaluate(model, tests, setting.judged_as, how, seed=seed)
        replay = one_decode(model, setting, found)
        if is_first():
            decode_gif(folder / GIF, *replay)
        return {}, outcomes_of(found)

    def plan(self, jobs: list[Job], left: list[Job]) -> str:
        """What will happen, what it does not show, and how long what is left to do takes."""
        setting, script, lines = self.setting, self.script, self.trainings(jobs, TITLES)
        clues = [int((puzzle.layout.puzzle > 0).sum()) for puzzle in setting.train]
        lines.append(f"each on the same {len(setting.train):,} puzzles with {min(clues)} to {max(clues)} clues.")
        for name, puzzles in setting.tests.items():
            found = [int((puzzle.layout.puzzle > 0).sum()) for puzzle in puzzles]
            told = f"{min(found)} to {max(found)} clues; no grid of them is trained on."
            lines.append(f"Tested on {len(puzzles):,} of {name}, {told}")
        if script.images == 1:
            lines.append(
                "No symmetry is used: this stands for data that has none. On Sudoku images of the puzzles undo the gain"
                " (--images 60 --rates sft=4e-3; docs/results.md)."
            )
        else:
            lines.append(
                f"Every arm trains on {script.images} images of each puzzle under symmetries ({script.symmetries})."
            )
        blanks = sum(int((puzzle.layout.puzzle == 0).sum()) for puzzles in setting.tests.values() for puzzle in puzzles)
        passes = blanks * sum(1 / k for k in script.eval_tokens) * len(script.strategies)
        return "\n".join([*lines, *self.minutes(left, passes * self.parameters * SECONDS_A_PASS)])

    def report(self, run: Path, jobs: list[Job]) -> None:
        """Table, picture, one decode of the last arm, and the page with all of it."""
        outcomes = Outcomes(self.setting, run, jobs)
        write_table(outcomes.long_table(), run / "table.csv")
        print(f"\n{closing_text(outcomes)}\n{watched(run, jobs)}{closing_line(outcomes)}")
        draw(outcomes, run / "solved.png")
        shutil.copyfile(jobs[-1].folder(run) / GIF, run / GIF)
        for job in (job for job in jobs if job.arm != BASE):
            write_card(outcomes, job, run)
        page = write_page(outcomes, run, jobs)
        print(f"\nRun folder: {run} (table.csv, solved.png, decode.gif; a folder for each arm)")
        print(f"Report with replays, for a browser: {page}")


def one_decode(
    model: nn.Module, setting: Setting, evaluations: dict[tuple[str, str, int], Evaluation]
) -> tuple[Any, Any]:
    """The boards of a decode, one token a step, and the solution.

    It is that of the first held-out puzzle that is solved, of the first one if none is.
    """
    (name, strategy, _), found = next(iter(evaluations.items()))
    batch = setting.judged_as.batch([setting.tests[name][int(np.argmax(found.solved))]])
    how = Decoding(strategy, policy=setting.args.policy_config(1.0), on_error="end")
    record = decode(model, batch, how, generator=torch.Generator().manual_seed(0))
    return batch.boards(record.states_of(0)), batch.layout.solution


def outcomes_of(evaluations: dict[tuple[str, str, int], Evaluation]) -> dict[str, NDArray[Any]]:
    """Evaluations by set, strategy and tokens a step, as the outcomes of a job (`write_job`)."""
    return {
        f"{name}/{how}/{k}/{item.name}": getattr(each, item.name)
        for (name, how, k), each in evaluations.items()
        for item in fields(Evaluation)
    }
