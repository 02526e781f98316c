"""What a kill test found, as a record and as text."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from sudoku_dllm.kill_test.comparison import Comparison
from sudoku_dllm.kill_test.kills import Failure, Kill


@dataclass(frozen=True)
class ResumeReport:
    """A run that was killed, beside one that was left alone.

    Attributes:
        program: The command or function.
        seed: Seed of the moments.
        asked: Kills that were asked for; fewer happen where the run ends before.
        reference_seconds: How long the run took that was left alone.
        steps: Optimizer steps of the run left alone and of the killed one; None: not written down.
        kills: The kills of the run, in their order.
        failures: Starts that did not go on.
        finished: Whether the program ended with exit code 0 at last.
        comparison: The comparison of the two folders; None: the killed run came to no end.
        repeated: The comparison of two runs that were both left alone, made only if the killed run differs.
    """

    program: str
    seed: int
    asked: int
    reference_seconds: float
    steps: tuple[int | None, int | None]
    kills: tuple[Kill, ...]
    failures: tuple[Failure, ...]
    finished: bool
    comparison: Comparison | None
    repeated: Comparison | None

    @property
    def same(self) -> bool:
        """Whether the killed run came to its end with everything that was compared the same bit for bit."""
        return self.comparison is not None and self.comparison.first is None

    @property
    def passed(self) -> bool:
        """Whether it is the same, at least one kill happened, each start went on, and none began anew."""
        anew = any(kill.started_over for kill in self.kills)
        return self.same and bool(self.kills) and not self.failures and not anew

    @property
    def verdict(self) -> str:
        """One sentence."""
        if not self.finished:
            return f"FAILED: the run did not come to its end; {self._first_failure()}"
        if self.comparison is not None and self.comparison.first is not None:
            if self.repeated is not None and self.repeated.first is not None:
                return (
                    "UNDECIDED: two runs that were left alone differ as well, first at "
                    f"{self.repeated.first}; make the program deterministic (seeds, one thread)"
                )
            return f"FAILED: the killed run differs, first at {self.comparison.first}"
        if self.failures:
            return f"FAILED: the same bit for bit, but only with checkpoints removed by hand; {self._first_failure()}"
        if any(kill.started_over for kill in self.kills):
            return "FAILED: the same bit for bit, but a start began anew instead of going on from the last checkpoint"
        if not self.kills:
            return "UNDECIDED: the run ended before any kill; ask for more kills or train longer"
        return "PASSED: the same bit for bit"

    def _first_failure(self) -> str:
        failure = self.failures[0]
        ended = "took too long" if failure.exit_code is None else f"ended with exit code {failure.exit_code}"
        return f"the start after kill {failure.after_kills} {ended}: {failure.last_line}"

    def __str__(self) -> str:
        return "\n".join(line.rstrip() for line in self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"kill test of: {self.program}"
        yield f"seed {self.seed}; left alone the run takes {self.reference_seconds:.1f} s; {self._count()}"
        yield ""
        rows = [
            (
                str(number),
                f"{kill.seconds:.1f} s",
                kill.phase,
                "none" if kill.step is None else str(kill.step),
                ", ".join(kill.unfinished) or "-",
                self._outcome(number, kill),
            )
            for number, kill in enumerate(self.kills, start=1)
        ]
        yield from _table(("kill", "after", "while", "last whole checkpoint", "unfinished on disk", "next start"), rows)
        if self.comparison is not None:
            yield ""
            yield from self._compared(self.comparison)
        yield ""
        yield self.verdict

    def _count(self) -> str:
        phases = [kill.phase for kill in self.kills]
        counted = ", ".join(f"{phases.count(phase)} {phase}" for phase in ("starting", "training", "saving"))
        return f"{len(self.kills)} kills of {self.asked} asked for ({counted})"

    def _outcome(self, number: int, kill: Kill) -> str:
        failed = [failure for failure in self.failures if failure.after_kills == number]
        if failed:
            removed = ", ".join(failure.removed for failure in failed if failure.removed)
            return f"failed{f'; went on without {removed}' if removed else ''}"
        if kill.started_over:
            return "began anew"
        return "killed" if number < len(self.kills) and self.kills[number].phase == "starting" else "went on"

    def _compared(self, comparison: Comparison) -> Iterator[str]:
        rows = []
        for name, part in comparison.parts.items():
            first = "same" if part.first is None else str(part.first)
            largest = "-" if part.largest is None else f"{part.largest:.3g}"
            rows.append((name, str(part.files), str(part.different), largest, first))
        yield from _table(("part", "files", "different", "largest difference", "first: alone | killed"), rows)
        yield f"steps: {self.steps[0]} | {self.steps[1]}"
        yield f"left over: {', '.join(comparison.left_over) or 'nothing'}"
        yield f"not compared: {', '.join(comparison.not_compared) or 'nothing'}"

    def save(self, folder: Path) -> None:
        """Write `report.txt` and `report.json`."""
        (folder / "report.txt").write_text(f"{self}\n", encoding="utf-8")
        record = {"verdict": self.verdict, "passed": self.passed, **asdict(self)}
        (folder / "report.json").write_text(json.dumps(record, indent=1), encoding="utf-8")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    for row in [head, *rows]:
        yield "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True))
