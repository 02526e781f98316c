"""The card of a model that the comparison on several right answers trained: README.md in its folder."""

from pathlib import Path

from sudoku_dllm.model_card import Figure, save_card
from sudoku_dllm.several.report import TITLES, Outcomes, valid
from sudoku_dllm.trials.arguments import BASE
from sudoku_dllm.trials.jobs import Job
from sudoku_dllm.trials.training import MODEL


def write_card(outcomes: Outcomes, job: Job, run: Path) -> None:
    """Write the card of the model that a job left; the base has its own.

    Raises:
        OSError: It cannot be written.
    """
    if job.arm == BASE:
        return
    script, found = outcomes.script, outcomes.outcomes[job]
    base, steps = Path(script.model).name, script.eval_tokens
    free, apart = ([100 * float(found[valid(k, way)].mean()) for k in steps] for way in (False, True))
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
        "free": " | ".join(f"{rate:.1f}" for rate in free),
        "apart": " | ".join(f"{rate:.1f}" for rate in apart),
    }
    figures = [Figure(boards, f"valid by margin, {k} cells a pass", rate) for k, rate in zip(steps, free, strict=True)]
    save_card(job.folder(run) / MODEL, Path(__file__).with_suffix(".md"), figures, about)
