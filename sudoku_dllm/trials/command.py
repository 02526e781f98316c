"""What the commands of comparisons have in common: which jobs are left, how they go on, and how a stop is told."""

import json
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from llm_rl.training.command_line import INTERRUPTED, fail, on_command_line
from llm_rl.training.output_folder import LAST, RECORD
from sudoku_dllm.trials.jobs import Comparison, Job, in_processes, in_this_process
from sudoku_dllm.trials.record import RESULT

CHANGEABLE = {
    "arms", "seeds", "jobs", "output_dir", "overwrite_output_dir", "resume_from_checkpoint", "resume_with_changes",
    "disable_tqdm", "save_steps", "save_total_limit", "report_to", "logging_dir",
}  # fmt: skip
"""Arguments that a run may be resumed with others of."""


def need_whole_run(checkpoint: str | None) -> None:
    """End the program if a run is to be resumed from one checkpoint: its arms have some of their own."""
    if checkpoint not in (None, LAST):
        fail(
            f"--resume_from_checkpoint {checkpoint}: arms have checkpoints of their own, so a run is "
            f"resumed as a whole: give {LAST}, and the run's folder as --output_dir"
        )


def check_same(run: Path, given: Mapping[str, object]) -> None:
    """End the program if a run is resumed with arguments that its other arms were not trained with."""
    kept = json.loads((run / RECORD).read_text(encoding="utf-8"))
    now = json.loads(json.dumps(given, default=str))
    if changed := sorted(name for name in {*kept, *now} - CHANGEABLE if kept.get(name) != now.get(name)):
        words = ", ".join(f"{name} was {kept.get(name)!r} and is {now.get(name)!r}" for name in changed)
        fail(f"--resume_from_checkpoint: the run in {run} had other arguments: {words}; give the same, or a new folder")


def carry_out(
    comparison: Comparison,
    run: Path,
    jobs: Sequence[Job],
    processes: int,
    *,
    resume: bool,
    plan: Callable[[list[Job]], str],
    report: Callable[[], None],
) -> None:
    """Run the jobs that have no result yet, then report; a stop ends the program with the command that goes on.

    Args:
        comparison: What the jobs are compared on.
        run: Folder of the run.
        jobs: All jobs.
        processes: How many run at a time, a process of one thread each; 0: one after the other in this process.
        resume: Whether results and checkpoints that are there are kept.
        plan: Given the jobs that are left, what will happen.
        report: Called when all have a result.
    """
    there = [job for job in jobs if resume and (job.folder(run) / RESULT).is_file()]
    left = [job for job in jobs if job not in there]
    print(f"\n{plan(left)}")
    print(f"{len(there)} of {len(jobs)} results are there already.\n" if there else "", flush=True)
    try:
        if left and processes:
            if failed := in_processes(comparison, run, left, processes, resume=resume):
                fail(
                    f"{len(failed)} of {len(jobs)} did not finish; mend what is said above and go on with {again(run)}"
                )
        elif left:
            in_this_process(comparison, run, left, resume=resume)
        report()
    except KeyboardInterrupt:
        print(
            f"\nStopped. What ended is kept, the rest goes on from its last checkpoint: {again(run)}", file=sys.stderr
        )
        raise SystemExit(INTERRUPTED) from None


def again(run: Path) -> str:
    """The command that goes on with the run in a folder: the words of this one, and where to go on."""
    words = [word for word in sys.argv[1:] if word != "--overwrite_output_dir"]
    if not on_command_line("resume_from_checkpoint"):
        place = [] if on_command_line("output_dir") else ["--output_dir", str(run)]
        words += [*place, "--resume_from_checkpoint", LAST]
    return f"{sys.argv[0]} {shlex.join(words)}"  # a program's name and the setting are words of their own
