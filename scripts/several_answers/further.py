"""The comparison of docs/several_answers.md on other boards, and with more time: how it is run, and its tables."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap

from scripts.several_answers.outcome_tables import STUDIED, minus_others, outcomes_in, studied, ways_table
from sudoku_dllm.several.arguments import ARMS, UPDATES, ScriptArguments
from sudoku_dllm.several.report import Outcomes
from sudoku_dllm.trials.arguments import BASE

START_4X4 = "runs/base4x4/no_answers/4x4/grids5000/updates1/start/seed0/model"


@dataclass(frozen=True)
class Further:
    """A comparison that differs in its boards or its budget.

    Attributes:
        name: Its folder in that of the study.
        title: What it differs in.
        size: Size of the boards.
        clues: Fewest and most clues.
        eval_tokens: Cells a pass in decoding.
        options: Other options of `scripts/train_sudoku.py` by name; those of the recipe alone.
        model: The base, a shipped one or a folder.
    """

    name: str
    title: str
    size: int
    clues: tuple[int, int]
    eval_tokens: tuple[int, ...]
    options: dict[str, int]
    model: str = ScriptArguments.model

    @property
    def script(self) -> ScriptArguments:
        """The boards and how they are decoded."""
        return studied(model=self.model, size=self.size, clues=list(self.clues), eval_tokens=list(self.eval_tokens))

    def outcomes(self, folder: Path) -> Outcomes:
        """The results in the folder of the study."""
        return outcomes_in(folder, self.name, self.script, **self.options)


FURTHER = (
    Further(
        "4x4", "4×4, 0 to 4 clues", 4, (0, 4), (1, 2, 4, 8, 12, 16), {"num_mini_batches": 4, "max_steps": 1605},
        START_4X4,
    ),
    Further(
        "9x9", "9×9, 0 to 20 clues", 9, (0, 20), (1, 2, 4, 8, 12, 16), {"num_mini_batches": 18, "max_steps": 600},
        "data/start9x9",
    ),
    Further("longer", "6×6, four times the time", 6, (1, 8), (1, 2, 4, 6, 9), {"max_steps": 12840}),
)  # fmt: skip


def command_of(outcomes: Outcomes, options: Mapping[str, object], name: str = "") -> str:
    """What makes a comparison, as an indented block of a page."""
    asked = {
        "arms": " ".join(arm for arm in outcomes.arms if arm in ARMS),
        "seeds": " ".join(str(seed) for seed in sorted({job.seed for job in outcomes.results if job.arm != BASE})),
        **{name: _words(value) for name, value in {**STUDIED, "max_steps": UPDATES["judged"], **options}.items()},
        "output_dir": f"runs/several_answers/{name}".rstrip("/"),
    }
    words = " ".join(["python scripts/train_sudoku.py", *(f"--{option} {value}" for option, value in asked.items())])
    return " \\\n        ".join(wrap(words, 108, break_long_words=False, break_on_hyphens=False, initial_indent="    "))


def _words(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def commands_in(folder: Path) -> Iterator[str]:
    """What makes the comparisons that lie in the folder of the study."""
    for further in FURTHER:
        outcomes = further.outcomes(folder)
        if outcomes.arms:
            boards = {name: getattr(further, name) for name in ("model", "size", "clues", "eval_tokens")}
            yield command_of(outcomes, boards | further.options, further.name)


def sections(folder: Path) -> Iterator[tuple[str, str]]:
    """Titles and tables of those that lie in the folder of the study."""
    for further in FURTHER:
        outcomes = further.outcomes(folder)
        if outcomes.arms:
            yield further.title, ways_table(outcomes)
            yield f"{further.title}: differences", minus_others(outcomes)
