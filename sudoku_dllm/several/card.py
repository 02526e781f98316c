"""The card of a model that the comparison on several right answers trained: README.md in its folder."""

from pathlib import Path

from llm_rl.training.storage import write_text_whole
from sudoku_dllm.model_card import Figure, card_head
from sudoku_dllm.several.report import TITLES, Outcomes, valid
from sudoku_dllm.trials.arguments import BASE
from sudoku_dllm.trials.jobs import Job
from sudoku_dllm.trials.training import MODEL

CARD = """# {name}

{base}, a LLaDA (masked-diffusion language model), after more training on {size}×{size} boards with {low} to {high}
clues, of which every valid completion is an answer: {what}.

- **Trained by** {updates:,} updates on {seen:,} boards, {seconds:.0f} CPU seconds, seed {seed}; {machine}.
- **Made by** `sudoku-dllm train`, arm `{arm}`; `arguments.json` of the run holds every setting.
- **Limits**: it knows the wording of its prompts and {size}×{size} only, and was trained on boards with few clues.

Per cent of {boards:,} held-out boards completed validly, decoded by margin at so many cells a pass; one seed:

| | {columns} |
|---|{dashes}
| the order free | {free} |
| never two peers in a pass | {apart} |

Licence: Apache-2.0, as the project.
"""


def write_card(outcomes: Outcomes, job: Job, run: Path) -> None:
    """Write the card of the model that a job left; the base has its own.

    Raises:
        OSError: It cannot be written.
    """
    if job.arm == BASE:
        return
    script, result, found = outcomes.script, outcomes.results[job], outcomes.outcomes[job]
    base, steps = Path(script.model).name, script.eval_tokens
    free, apart = ([100 * float(found[valid(k, way)].mean()) for k in steps] for way in (False, True))
    name, boards = f"{base}-{job.arm}", f"{script.size}x{script.size}, {script.clues[0]} to {script.clues[1]} clues"
    text = CARD.format(
        name=name,
        base=base,
        size=script.size,
        low=script.clues[0],
        high=script.clues[1],
        what=TITLES[job.arm],
        updates=result["updates"],
        seen=result["puzzles_seen"],
        seconds=result["cpu_seconds"],
        seed=job.seed,
        machine=result["machine"],
        arm=job.arm,
        boards=script.test_boards,
        columns=" | ".join(map(str, steps)),
        dashes="---|" * len(steps),
        free=" | ".join(f"{rate:.1f}" for rate in free),
        apart=" | ".join(f"{rate:.1f}" for rate in apart),
    )
    figures = [Figure(boards, f"valid by margin, {k} cells a pass", rate) for k, rate in zip(steps, free, strict=True)]
    write_text_whole(job.folder(run) / MODEL / "README.md", card_head(name, figures) + text)
