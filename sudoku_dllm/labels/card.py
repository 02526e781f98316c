"""The card of a model that the comparison of labels trained: README.md in its folder."""

import math
from pathlib import Path

from safetensors import safe_open

from sudoku_dllm.labels.report import Outcomes, column
from sudoku_dllm.model_card import Figure, save_card
from sudoku_dllm.trials.jobs import Job
from sudoku_dllm.trials.training import MODEL

WHAT = {
    "sft": "masked-diffusion SFT at random masks",
    "sft_definite": "masked-diffusion SFT whose loss counts definite cells alone",
    "ce": "masked cross-entropy at the states that the policy visits",
    "placebo": "the objective with every cell called definite, which leaves its label without meaning",
    "objective": "the objective of decoding order, at the states that the policy visits",
    "source": "both terms of the objective of decoding order, with its source's hyperparameters",
}
"""What an arm is, in a phrase."""


def write_card(outcomes: Outcomes, job: Job, run: Path) -> None:
    """Write the card of the model that a job trained."""
    setting, script = outcomes.setting, outcomes.setting.script
    base, strategy, steps = Path(script.model).name, script.strategies[0], script.eval_tokens
    figures, rows = [], []
    for name, puzzles in setting.tests.items():
        found = (outcomes.outcomes[job][column((name, strategy, k))] for k in steps)
        rates = [100 * float(solved.mean()) for solved in found]
        rows.append(f"| {name} ({len(puzzles):,}) | {' | '.join(f'{rate:.1f}' for rate in rates)} |")
        figures += [
            Figure(name, f"solved by {strategy}, {k} a step", rate) for k, rate in zip(steps, rates, strict=True)
        ]
    folder = job.folder(run) / MODEL
    adapter, size = (folder / "adapter_config.json").is_file(), _parameters(folder)
    subject = f"{base}, a masked-diffusion language model of {size:,} parameters"
    if adapter:
        subject = f"An adapter (PEFT) of {size:,} parameters to {base}, a masked-diffusion language model"
    about = {
        "name": f"{base}-{job.arm}",
        "subject": subject,
        "size": next(iter(setting.tests.values()))[0].layout.size,
        "what": WHAT[job.arm],
        "prompts": len(setting.train),
        "data": Path(script.data).name,
        "result": outcomes.results[job],
        "job": job,
        "strategy": strategy,
        "columns": " | ".join(map(str, steps)),
        "dashes": "---|" * len(steps),
        "rows": "\n".join(rows),
    }
    save_card(folder, Path(__file__).with_suffix(".md"), figures, about, "peft" if adapter else "transformers")


def _parameters(folder: Path) -> int:
    """How many numbers the files of weights in a folder hold."""
    count = 0
    for path in folder.glob("*.safetensors"):
        with safe_open(path, framework="pt") as file:
            count += sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())
    return count
