"""What the commands of comparisons have in common: which jobs are left, how they go on, and how a stop is told."""

import json
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_rl.training.command_line import INTERRUPTED, USER_ERRORS, fail, need_reports, on_command_line, user_errors
from llm_rl.training.output_folder import LAST, RECORD, RunFolder
from llm_rl.training.processes import first_says, is_first
from llm_rl.training.quiet import quiet_libraries
from sudoku_dllm.trials.jobs import in_processes, in_this_process
from sudoku_dllm.trials.record import RESULT
from sudoku_env.errors import SudokuError

if TYPE_CHECKING:
    from sudoku_dllm.trials.trial import Trial

CHANGEABLE = {
    "arms", "seeds", "jobs", "output_dir", "overwrite_output_dir", "resume_from_checkpoint", "resume_with_changes",
    "disable_tqdm", "save_steps", "save_total_limit", "report_to", "logging_dir",
}  # fmt: skip
"""Arguments that a run may be resumed with others of."""


def check_same(run: Path, given: Mapping[str, object]) -> None:
    """End the program if a run is resumed with arguments that its other arms were not trained with."""
    kept = json.loads((run / RECORD).read_text(encoding="utf-8"))
    now = json.loads(json.dumps(given, default=str))
    if changed := sorted(name for name in {*kept, *now} - CHANGEABLE if kept.get(name) != now.get(name)):
        words = ", ".join(f"{name} was {kept.get(name)!r} and is {now.get(name)!r}" for name in changed)
        fail(f"--resume_from_checkpoint: the run in {run} had other arguments: {words}; give the same, or a new folder")


def compare(
    load: Callable[[], "Trial"], args: Any, recorded: Callable[[], Mapping[str, Any]], inputs: Sequence[str] = ()
) -> None:
    """Train and judge what has no result yet, then report; a stop ends the program with the command that goes on.

    Args:
        load: Makes what is compared, once the folder is known to be free.
        args: Arguments that name the run folder, and the run to be resumed.
        recorded: All arguments, as `arguments.json` holds them.
        inputs: Files and folders that are read.
    """
    need_reports()
    if (checkpoint := args.resume_from_checkpoint) not in (None, LAST):
        fail(
            f"--resume_from_checkpoint {checkpoint}: arms have checkpoints of their own, so a run is "
            f"resumed as a whole: give {LAST}, and the run's folder as --output_dir"
        )
    folder = first_says(lambda: RunFolder(args, inputs=inputs))
    args.output_dir = str(folder.path)
    quiet_libraries()
    with user_errors(*USER_ERRORS, SudokuError, ValueError):
        compared = load()
    resume, processes = args.resume_from_checkpoint is not None, compared.processes
    run = first_says(lambda: folder.open(recorded()))
    if resume and is_first():
        check_same(run, recorded())
    try:
        # What has a result stays, and of the others each goes on from its last checkpoint.
        for jobs in compared.rounds():
            found = [job for job in jobs if resume and (job.folder(run) / RESULT).is_file()]
            there = first_says(lambda found=found: found)  # type: ignore[misc]
            left = [job for job in jobs if job not in there]
            print(f"\n{compared.plan(jobs, left)}")
            print(f"{len(there)} of {len(jobs)} results are there already.\n" if there else "", flush=True)
            if left and not processes:
                in_this_process(compared, run, left, resume=resume)
            elif left and (failed := in_processes(compared, run, left, processes, resume=resume)):
                fail(
                    f"{len(failed)} of {len(jobs)} did not finish; mend what is said above and go on with {again(run)}"
                )
        if is_first():
            compared.report(run, jobs)
    except KeyboardInterrupt:
        print(file=sys.stderr)
        fail(f"stopped. What ended is kept, the rest goes on from its last checkpoint: {again(run)}", INTERRUPTED)


def again(run: Path) -> str:
    """The command that goes on with the run in a folder: the words of this one, and where to go on."""
    words = [word for word in sys.argv[1:] if word != "--overwrite_output_dir"]
    if not on_command_line("resume_from_checkpoint"):
        place = [] if on_command_line("output_dir") else ["--output_dir", str(run)]
        words += [*place, "--resume_from_checkpoint", LAST]
    return f"{sys.argv[0]} {shlex.join(words)}"  # a program's name and the setting are words of their own
