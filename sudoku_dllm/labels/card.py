"""The card of a model that the comparison of labels trained: README.md in its folder."""

import math
from pathlib import Path

from safetensors import safe_open

from llm_rl.training.storage import write_text_whole
from sudoku_dllm.labels.arm import MODEL
from sudoku_dllm.labels.report import Outcomes, column
from sudoku_dllm.model_card import Figure, card_head
from sudoku_dllm.trials.arguments import BASE
from sudoku_dllm.trials.jobs import Job

WHAT = {
    "sft": "masked-diffusion SFT at random masks",
    "sft_definite": "masked-diffusion SFT whose loss counts definite cells alone",
    "ce": "masked cross-entropy at the states that the policy visits",
    "placebo": "the objective with every cell called definite, which leaves its label without meaning",
    "objective": "the objective of decoding order, at the states that the policy visits",
}
"""What an arm is, in a phrase."""
CARD = """# {name}

{subject}, for {size}×{size} Sudoku, after {what}.

- **Trained on** {prompts:,} puzzles of `{data}`: {updates:,} updates on {seen:,} puzzles drawn from them,
  {seconds:.0f} CPU seconds, seed {seed}; {machine}.
- **Made by** `sudoku-dllm train --setting labels`, arm `{arm}`; `arguments.json` of the run holds every setting.
- **Limits**: it knows the wording of its prompts and {size}×{size} only.

Solved, per cent, decoded by {strategy} at so many tokens a step; one seed:

| puzzles | {columns} |
|---|{dashes}
{rows}

Licence: Apache-2.0, as the project.
"""


def write_card(outcomes: Outcomes, job: Job, run: Path) -> None:
    """Write the card of the model that a job left; the base has its own.

    Raises:
        OSError: It cannot be written.
    """
    if job.arm == BASE:
        return
    setting, result = outcomes.setting, outcomes.results[job]
    script, base = setting.script, Path(setting.script.model).name
    name, strategy, steps = f"{base}-{job.arm}", script.strategies[0], script.eval_tokens
    solved = {
        (puzzles, k): 100 * float(outcomes.outcomes[job][column((puzzles, strategy, k))].mean())
        for puzzles in setting.tests
        for k in steps
    }
    figures = [Figure(puzzles, f"solved by {strategy}, {k} a step", rate) for (puzzles, k), rate in solved.items()]
    rows = [
        f"| {puzzles} ({len(setting.tests[puzzles]):,}) | {' | '.join(f'{solved[puzzles, k]:.1f}' for k in steps)} |"
        for puzzles in setting.tests
    ]
    folder = job.folder(run) / MODEL
    adapter, size = (folder / "adapter_config.json").is_file(), _parameters(folder)
    subject = f"{base}, a masked-diffusion language model of {size:,} parameters"
    if adapter:
        subject = f"An adapter (PEFT) of {size:,} parameters to {base}, a masked-diffusion language model"
    text = CARD.format(
        name=name,
        subject=subject,
        size=next(iter(setting.tests.values()))[0].layout.size,
        what=WHAT[job.arm],
        prompts=len(setting.train),
        data=Path(script.data).name,
        updates=result["updates"],
        seen=result["puzzles_seen"],
        seconds=result["cpu_seconds"],
        seed=job.seed,
        machine=result["machine"],
        arm=job.arm,
        strategy=strategy,
        columns=" | ".join(map(str, steps)),
        dashes="---|" * len(steps),
        rows="\n".join(rows),
    )
    write_text_whole(folder / "README.md", card_head(name, figures, "peft" if adapter else "transformers") + text)


def _parameters(folder: Path) -> int:
    """How many numbers the files of weights in a folder hold."""
    count = 0
    for path in folder.glob("*.safetensors"):
        with safe_open(path, framework="pt") as file:
            count += sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())
    return count
