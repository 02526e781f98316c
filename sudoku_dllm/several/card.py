"""The card of a model that the comparison on several right answers trained: README.md in its folder."""

from pathlib import Path

import numpy as np

from sudoku_dllm.model_card import Figure, save_card
from sudoku_dllm.several.judging import GUARDS
from sudoku_dllm.several.report import TITLES, Outcomes, valid
from sudoku_dllm.trials.jobs import Job
from sudoku_dllm.trials.training import MODEL
from sudoku_dllm.trials.words import percent


def write_card(outcomes: Outcomes, job: Job, run: Path) -> None:
    """Write the card of the model that a job trained."""
    script, found = outcomes.script, outcomes.outcomes[job]
    base, steps = Path(script.model).name, script.eval_tokens
    free, rules = ([float(np.mean(found.get(valid(k, guard), np.nan))) for k in steps] for guard in (None, GUARDS[0]))
    boards = f"{script.size}x{script.size}, {script.clues[0]} to {script.clues[1]} clues"
    about = {
        "name": f"{base}-{job.arm}",
        "base": base,
        "script": script,
        "what": TITLES[job.arm],
        "result": outcomes.results[job],
        "job": job,
        "columns": " | ".join(map(str, steps)),
        "dashes": "---|" * len(steps),
        "free": " | ".join(map(percent, free)),
        "rules": " | ".join(map(percent, rules)),
    }
    figures = [
        Figure(boards, f"valid by margin, {k} cells a pass", 100 * rate) for k, rate in zip(steps, free, strict=True)
    ]
    save_card(job.folder(run) / MODEL, Path(__file__).with_suffix(".md"), figures, about)
