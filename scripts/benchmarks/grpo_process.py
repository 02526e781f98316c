"""One side of the GRPO benchmark in a process of its own: `python grpo_process.py SIDE MEASURE SETTING STEPS`.

MEASURE is "time": an optimizer step runs for each line on standard input, and the answer is its seconds, by the clock
and on a core; or "memory": the peak over loading the model and the steps. Answers are lines of JSON; what libraries
print goes to standard error.
"""

import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import torch
from transformers import TrainerCallback
from transformers.utils import logging

from scripts.benchmarks.grpo_contenders import Setting, make_trainer
from scripts.benchmarks.work import peak_tensor_bytes

CLOCKS = {"s": time.perf_counter, "CPU s": time.process_time}
GENERATION_METHODS = {"ours": "_generate_completions", "trl": "_generate_single_turn"}
ROLLOUT_METHODS = {"ours": "_roll_out", "trl": "_generate_and_score_completions"}


def resident_bytes(peak: bool = False) -> int:
    """Memory of this process now, or the most it ever held."""
    if peak:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def read_clocks() -> dict[str, float]:
    """What each clock of `CLOCKS` shows."""
    return {unit: clock() for unit, clock in CLOCKS.items()}


class StepByStep(TrainerCallback):
    """Waits for a line before each step and answers with the seconds it took, by part.

    Args:
        answers: Stream that the answers are written to.
    """

    def __init__(self, answers: TextIO) -> None:
        self.answers = answers
        self.spent: dict[str, float] = {}
        self.before = 0

    def watch(self, trainer: Any, method: str, part: str) -> None:
        """Add up what a method of the trainer takes."""
        original: Callable[..., Any] = getattr(trainer, method)

        def timed(*args: Any, **kwargs: Any) -> Any:
            started = read_clocks()
            result = original(*args, **kwargs)
            self.add(part, started)
            return result

        setattr(trainer, method, timed)

    def add(self, part: str, started: dict[str, float]) -> None:
        """Add what has passed on each clock."""
        for unit, now in read_clocks().items():
            name = f"{part} {unit}"
            self.spent[name] = self.spent.get(name, 0.0) + now - started[unit]

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Note what the process holds with the models loaded."""
        self.before = resident_bytes()

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Wait, then start the clocks."""
        if not sys.stdin.readline():
            raise SystemExit("standard input has ended, so nobody waits for an answer")
        self.spent = {}
        self.started = read_clocks()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Answer: the step, sampling, the roll-out with sampling in it, and the rest, which is the update."""
        self.add("step", self.started)
        for unit in CLOCKS:
            self.spent[f"update {unit}"] = self.spent[f"step {unit}"] - self.spent.get(f"rollout {unit}", 0.0)
        peak = resident_bytes(peak=True)
        print(json.dumps({**self.spent, "rss": peak, "rss_net": peak - self.before}), file=self.answers, flush=True)


def check_lengths(trainer: Any, side: str, length: int) -> None:
    """Stop where completions were not as long as asked for."""
    name = "completion_length" if side == "ours" else "completions/mean_length"
    found = [line[name] for line in trainer.state.log_history if name in line]
    if not found or any(value != length for value in found):
        raise RuntimeError(f"completions of {side} have {found} tokens, not {length}: the end token was sampled")


if __name__ == "__main__":
    side, measure, words, steps = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    setting = Setting(**json.loads(words))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as scratch:
        if measure == "time":
            clock = StepByStep(answers)
            trainer = make_trainer(side, setting, Path(scratch), steps, [clock])
            clock.watch(trainer, GENERATION_METHODS[side], "generation")
            clock.watch(trainer, ROLLOUT_METHODS[side], "rollout")
            trainer.train()
            check_lengths(trainer, side, setting.max_completion_length)
        else:

            def work() -> None:
                """Load the model, and train to the last step."""
                trainer = make_trainer(side, setting, Path(scratch), steps, [])
                trainer.train()
                check_lengths(trainer, side, setting.max_completion_length)

            print(json.dumps({"peak": peak_tensor_bytes(work)}), file=answers, flush=True)
