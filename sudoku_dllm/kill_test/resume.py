"""The kill test: is a run that was killed and resumed the same, bit for bit, as one that was left alone?

    python -m sudoku_dllm.kill_test --kills 20 --output_dir runs/kill_test -- python my_train.py --output_dir {folder}

The command is any program that writes folders `checkpoint-<step>` to `{folder}` and, started again with the same words,
goes on from the last one. docs/reliability.md shows reports.
"""

import argparse
import json
import logging
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from sudoku_dllm.kill_test.comparison import compare_runs
from sudoku_dllm.kill_test.kills import KilledRun
from sudoku_dllm.kill_test.moments import Rhythm, checkpoints, draw_moments, observe
from sudoku_dllm.kill_test.processes import Program, Started, check_command
from sudoku_dllm.kill_test.report import ResumeReport

_logger = logging.getLogger(__name__)


class ResumeTestError(RuntimeError):
    """The test cannot be made: the program fails without any kill."""


def check_resume(
    program: Program,
    folder: str | Path,
    *,
    kills: int = 20,
    seed: int = 0,
    timeout: float = 3600.0,
    ignore: Sequence[str] = (),
) -> ResumeReport:
    """Run a training once alone and once with kills, and compare what came out.

    The kills come at moments drawn over the time that the run takes alone; about half of them then wait for the next
    checkpoint that is being written. They are SIGKILL, to all processes that the program has started. A start that
    fails is made again without the last checkpoint and spoils the verdict. Compared are weights, optimizer, schedule,
    random states, logs and completions in all files that the run left, its checkpoints included; not the fields of
    `comparison.TIMES`. If there is a difference, the run is made alone once more, to know whether it repeats itself.

    Args:
        program: A command, one of whose arguments holds `{folder}`, or a picklable function of the folder, which runs
            in a new process each time; a script that passes one needs `if __name__ == "__main__":`.
        folder: A new folder for the runs (`reference`, `killed`), what they print (`*.log`), `report.txt` and
            `report.json`.
        kills: How often the run is killed.
        seed: Seed of the moments.
        timeout: Seconds that one start may take.
        ignore: Patterns of further fields that may differ, such as "train_loss".

    Returns:
        The report; `str` gives the table, `passed` the verdict.

    Raises:
        ValueError: The command names no `{folder}`, `kills` is not positive, or the run writes no checkpoint.
        FileExistsError: The folder holds a test already.
        ResumeTestError: The program fails although nothing kills it.
    """
    folder = Path(folder).resolve()
    if kills < 1:
        raise ValueError(f"kills is {kills}; ask for at least 1")
    if not callable(program):
        check_command(program)
    if (folder / "reference.log").exists():
        raise FileExistsError(f"{folder} holds a kill test already; name a new folder or delete it")
    folder.mkdir(parents=True, exist_ok=True)
    reference, killed = folder / "reference", folder / "killed"
    rhythm = _leave_alone(program, reference, timeout)
    _logger.info("the run takes %.1f s when it is left alone", rhythm.seconds)
    run = KilledRun(program, killed, folder / "killed.log", rhythm, timeout)
    finished = run.play(draw_moments(rhythm, kills, seed))
    comparison = compare_runs(reference, killed, ignore) if finished else None
    repeated = None
    if comparison is not None and comparison.first is not None:
        _leave_alone(program, folder / "reference_again", timeout)
        repeated = compare_runs(reference, folder / "reference_again", ignore)
    name = getattr(program, "__qualname__", repr(program)) if callable(program) else " ".join(program)
    report = ResumeReport(
        program=name,
        seed=seed,
        asked=kills,
        reference_seconds=rhythm.seconds,
        steps=(_steps(reference), _steps(killed)),
        kills=tuple(run.kills),
        failures=tuple(run.failures),
        finished=finished,
        comparison=comparison,
        repeated=repeated,
    )
    report.save(folder)
    return report


def _leave_alone(program: Program, folder: Path, timeout: float) -> Rhythm:
    log = folder.with_suffix(".log")
    process, began = Started(program, folder, log), time.monotonic()
    try:
        rhythm = observe(folder, lambda: process.exit_code() is not None or time.monotonic() > began + timeout)
    finally:
        code = process.exit_code()
        process.kill()
        if code != 0:
            ended = f"did not end within {timeout:g} s" if code is None else f"ended with exit code {code}"
            raise ResumeTestError(f"left alone, the program {ended}; {log} has what it printed")
    return rhythm


def _steps(folder: Path) -> int | None:
    found = checkpoints(folder)
    for path in (folder, *(found[step] for step in sorted(found, reverse=True))):
        if (path / "trainer_state.json").exists():
            return json.loads((path / "trainer_state.json").read_text(encoding="utf-8"))["global_step"]
    return max(found, default=None)


def main(words: Sequence[str] | None = None) -> int:
    """Run the test from a command line; returns 0 if it passed, 1 if not, 2 if it could not be made."""
    words = sys.argv[1:] if words is None else words
    cut = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(
        "python -m sudoku_dllm.kill_test",
        usage="%(prog)s [options] -- COMMAND with {folder} in the place of its folder",
        description=__doc__.splitlines()[0] if __doc__ else None,
        allow_abbrev=False,
    )
    parser.add_argument("--output_dir", default="runs/kill_test", help="a new folder (default: %(default)s)")
    parser.add_argument("--kills", type=int, default=20, help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments (default: %(default)s)")
    parser.add_argument("--timeout", type=float, default=3600.0, help="seconds a start may take (default: %(default)s)")
    parser.add_argument("--ignore", nargs="+", default=[], help="patterns of further fields that may differ")
    given = parser.parse_args(words[:cut])
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        report = check_resume(
            words[cut + 1 :],
            given.output_dir,
            kills=given.kills,
            seed=given.seed,
            timeout=given.timeout,
            ignore=given.ignore,
        )
    except (ValueError, OSError, ResumeTestError) as error:
        parser.exit(2, f"{error}\n")
    sys.stdout.write(f"{report}\n")
    return 0 if report.passed else 1
