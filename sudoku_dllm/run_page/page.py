"""Writes the page: data as JSON inside a template of HTML, styles and script."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

TEMPLATE = Path(__file__).with_name("template.html")
PLACE = "<!-- data -->"
PAGE = "report.html"
"""Its name in the folder of a run."""
ABSOLUTE = re.compile(r"(?<![^\s'\"=(\[{,])(?:/[^\s/'\",;:)\]}]+){2,}/?")
"""An absolute path within a text."""


@dataclass(frozen=True)
class Table:
    """A table of cells as they are shown, with a note below it."""

    title: str
    header: Sequence[str]  # names of the columns; the first names the rows
    rows: Sequence[Sequence[str]]
    note: str = ""


@dataclass(frozen=True)
class Curve:
    """Lines over one axis of the name `x`: name → points (x, y)."""

    title: str
    x: str
    lines: Mapping[str, Sequence[tuple[float, float]]]


@dataclass(frozen=True)
class Replay:
    """One decode of a puzzle of n rows, board by board.

    Attributes:
        title: Which puzzle and model, and how it ended.
        size: n.
        boards: The puzzle and the board after each pass, packed: n² digits, 0 for a blank.
        solution: The n² digits.
        definite: For each board its definite cells.
        boxes: Rows and columns of a box.
    """

    title: str
    size: int
    boards: Sequence[Sequence[int]]
    solution: Sequence[int]
    definite: Sequence[Sequence[int]]
    boxes: tuple[int, int]


@dataclass(frozen=True)
class Page:
    """What a page shows.

    Attributes:
        title: The name of the run.
        facts: Name → value: command, versions, machine, seeds, duration …; see `arguments` for paths in them.
        arguments: The arguments of the run, folded away. The page is made to be passed on: of an absolute path it
            shows the last part alone.
        tables: Tables, the most important first.
        curves: Curves.
        replays: Decodes.
    """

    title: str
    facts: Mapping[str, str]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    tables: Sequence[Table] = ()
    curves: Sequence[Curve] = ()
    replays: Sequence[Replay] = ()

    def write(self, path: Path) -> Path:
        """Write it, whole or not at all."""
        from llm_rl.training.storage import write_text_whole  # imports torch, which reading a page does without

        # A "<" in the data must not end the element that holds it.
        content = asdict(self) | {"facts": without_places(self.facts), "arguments": without_places(self.arguments)}
        data = json.dumps(content, default=str, allow_nan=False).replace("<", "\\u003c")
        element = f'<script type="application/json" id="data">{data}</script>'
        write_text_whole(path, TEMPLATE.read_text(encoding="utf-8").replace(PLACE, element))
        return path


def without_places(value: Any) -> Any:
    """A value as JSON has it whose texts show the last part alone of each absolute path."""
    if isinstance(value, Mapping):
        return {key: without_places(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [without_places(one) for one in value]
    if isinstance(value, Path):
        value = str(value)
    if not isinstance(value, str):
        return value
    return Path(value).name if Path(value).is_absolute() else ABSOLUTE.sub(lambda path: Path(path[0]).name, value)


def read_replays(path: Path) -> list[Replay]:
    """The decodes of a page that `Page.write` wrote; a ValueError for another file."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', path.read_text(encoding="utf-8"))
    if found is None:
        raise ValueError(f"{path} is no page of a run")
    return [Replay(**{**one, "boxes": tuple(one["boxes"])}) for one in json.loads(found[1])["replays"]]
