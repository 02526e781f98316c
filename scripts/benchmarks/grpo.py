"""GRPO beside TRL: seconds of a step and of its update, and peak memory.

Both sides train the same model on the same prompts with completions of the same length, one core each. Every side has
a process of its own; steps alternate, and so does who goes first, so that a busy machine slows both alike. Seconds on a
core ("CPU s") leave out what other programs took. The update is the step without roll-out and reference. Memory is the
exact peak of live tensor memory from loading the model to the end of the second step, beside the most that the process
ever held.

    pip install 'sudoku-dllm[trl]'
    python -m scripts.benchmarks.grpo [--model tiny] [--kl_weight 0.04] [--max_completion_length 64 --template compact]
    python -m scripts.benchmarks.grpo --trainer ppo
    VLLM_CPU_KVCACHE_SPACE=1 python -m scripts.benchmarks.grpo --lora_r 16 --vllm PYTHON --measures time
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from llm_rl.core._options import option
from llm_rl.training import fail, load_pandas, need_reports, need_writable, parse
from scripts.benchmarks.grpo_contenders import NO_TRL, SIDES, Setting, model_folder, prompt_lengths, trl_installed
from scripts.benchmarks.work import ROOT
from sudoku_dllm.machine import machine

PACKAGES = ("torch", "transformers", "trl")
TIMED = ("step s", "step CPU s", "generation s", "generation CPU s", "update s", "update CPU s")
MEASURES = ("time", "memory")
WORKER = ROOT / "scripts" / "benchmarks" / "grpo_contenders.py"
ENVIRONMENT = {
    **os.environ,
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
}


@dataclass
class BenchmarkArguments:
    """What to measure; what to train is a `Setting`."""

    rounds: int = option(4, "Timed steps of each side, after one that is not counted.")
    measures: list[str] = option(list(MEASURES), f"What, of {MEASURES}.")
    output_dir: str = option(str(ROOT / "runs" / "benchmark_grpo"), "Tables.")

    def __post_init__(self) -> None:
        if (unknown := sorted(set(self.measures) - set(MEASURES))) or not self.measures:
            raise ValueError(f"unknown measures {unknown}; choose from {MEASURES}")


class Side:
    """A process that trains one side step by step.

    Args:
        name: "ours" or "trl".
        measure: "time" or "memory".
        setting: What to train.
        steps: How many steps.
        errors: File for what the process says.
    """

    def __init__(self, name: str, measure: str, setting: Setting, steps: int, errors: Path) -> None:
        self.name, self.errors = name, errors
        command = [sys.executable, str(WORKER), name, measure, json.dumps(asdict(setting)), str(steps)]
        with errors.open("w") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=ENVIRONMENT
            )

    def answer(self, ask: bool = False) -> dict[str, Any]:
        """What the process says next, after one more step if `ask`."""
        assert self.process.stdin is not None and self.process.stdout is not None
        with suppress(BrokenPipeError):  # it has failed: there is no line to read either
            self.process.stdin.write("\n" * ask)
            self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            self.close()
        return json.loads(line)

    def close(self) -> None:
        """Wait until it has ended.

        Raises:
            SystemExit: It failed.
        """
        if self.process.wait():
            raise SystemExit(f"the process of {self.name!r} stopped:\n{self.errors.read_text()[-3000:]}")


def times(setting: Setting, rounds: int, scratch: Path) -> dict[str, dict[str, float]]:
    """Medians of the seconds, and the largest resident sizes, of each side."""
    sides = {name: Side(name, "time", setting, rounds + 1, scratch / f"{name}.log") for name in SIDES}
    answers: dict[str, list[dict[str, float]]] = {name: [] for name in SIDES}
    for number in range(rounds + 1):
        for name in SIDES[:: -1 if number % 2 else 1]:  # whoever goes second finds the machine in another state
            answers[name].append(sides[name].answer(ask=True))
    for side in sides.values():
        side.close()
    found = {}
    for name, given in answers.items():
        seconds = {what: statistics.median(answer[what] for answer in given[1:]) for what in TIMED}
        held = {"resident MiB": given[-1]["rss"] / 2**20, "resident, net MiB": given[-1]["rss_net"] / 2**20}
        found[name] = {**seconds, **held}
    return found


def peaks(setting: Setting, scratch: Path) -> dict[str, dict[str, float]]:
    """Peak of live tensor memory of each side over two steps."""
    found = {}
    for name in SIDES:
        side = Side(name, "memory", setting, 2, scratch / f"{name}.log")
        found[name] = {"tensors MiB": side.answer()["peak"] / 2**20}
        side.close()
    return found


if __name__ == "__main__":
    args, asked = parse(BenchmarkArguments, Setting, description=__doc__)
    need_writable("output_dir", args.output_dir)
    need_reports()
    if not trl_installed():
        fail(NO_TRL)
    folder = Path(args.output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    print(f"{asked}\n{machine()}, {', '.join(f'{name} {version(name)}' for name in PACKAGES)}")
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        setting = replace(asked, model=str(model_folder(asked.model, scratch)))
        shortest, longest = prompt_lengths(setting)
        print(f"prompts of {shortest} to {longest} tokens, completions of {asked.max_completion_length}")
        found = [
            *([times(setting, args.rounds, scratch)] if "time" in args.measures else []),
            *([peaks(setting, scratch)] if "memory" in args.measures else []),
        ]
        pd = load_pandas()
        table = pd.concat([pd.DataFrame(part) for part in found])
        table["ours / trl"] = table["ours"] / table["trl"]
        table.to_csv(folder / "cost.csv", index_label="what")
        print(table.to_string(float_format=lambda value: f"{value:,.3f}"))
