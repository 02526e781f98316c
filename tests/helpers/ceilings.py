"""What the tree holds, counted, and how much of it there may be: a change that adds says what leaves for it.

    python -m tests.helpers.ceilings

prints every count beside its ceiling.
"""

import ast
import json
import re
from collections.abc import Iterable
from pathlib import Path

from sudoku_dllm.__main__ import SETTINGS, help_of
from tests.helpers.house import ROOT, within

CEILINGS = Path(__file__).with_name("ceilings.json")
SLACK = 0.03
"""A count that lies further below its ceiling asks to lower it."""
FOLDERS = ("sudoku_env", "llm_rl", "dllm_rl", "sudoku_dllm", "scripts", "examples", "tests")
SET = re.compile(r"--(\w+)|\b(\w+)\s*=(?!=)|\b(\w+):|[\"'](\w+)[\"']\s*:")
"""An option on a command line, as a keyword, in YAML or in a dictionary."""


def counts() -> dict[str, int]:
    """Every count by its name."""
    pages = {path.name: words([path]) for path in (ROOT / "docs").glob("*.md")}
    log = pages.pop("log.md")
    pairs = within("scripts")
    help_text = help_of(next(iter(SETTINGS))).read_text(encoding="utf-8")
    return {
        **{f"lines of Python in {folder}": lines(folder) for folder in FOLDERS},
        "files of Python": sum(len(python(folder)) for folder in FOLDERS),
        "words of README.md": words([ROOT / "README.md"]),
        "words of pages": sum(pages.values()),
        "words of the longest page": max(pages.values()),
        "words of generated tables": words((ROOT / "data" / "study").rglob("*.md")),
        "words of the log": log,
        "flags of make train": len(re.findall(r"^  --", help_text, re.MULTILINE)),
        "files in data/study": sum(path.is_file() for path in (ROOT / "data" / "study").rglob("*")),
        "floors of scripts": floors(pairs),
        "arrows of scripts": len(pairs),
        "options that nothing sets": len(never_set()),
    }


def python(folder: str) -> list[Path]:
    """The Python files of a folder."""
    return sorted((ROOT / folder).rglob("*.py"))


def lines(folder: str) -> int:
    """Lines of the Python files of a folder."""
    return sum(path.read_text(encoding="utf-8").count("\n") for path in python(folder))


def words(pages: Iterable[Path]) -> int:
    """Words of pages."""
    return sum(len(path.read_text(encoding="utf-8").split()) for path in pages)


def floors(pairs: set[tuple[str, str]]) -> int:
    """How many rooms stand on each other at most."""
    below: dict[str, set[str]] = {}
    for here, there in pairs:
        below.setdefault(here, set()).add(there)

    def height(room: str) -> int:
        return 1 + max(map(height, below.get(room, ())), default=0)

    return max(map(height, below), default=1)


def never_set() -> list[str]:
    """Options, fields with a help text, that no script, comparison, recipe, example or page sets."""
    options = {name for package in FOLDERS[:4] for path in python(package) for name in _options(path)}
    writers = [path for folder in ("scripts", "examples", "sudoku_dllm") for path in python(folder)]
    pages = [path for path in (ROOT / "docs").glob("*.md") if path.name != "log.md"]
    recipes = [*(ROOT / "configs").rglob("*.yaml"), ROOT / "Makefile", ROOT / "README.md"]
    given = set[str]()
    for path in (*writers, *pages, *recipes):
        text = re.sub(r"^    \w+: [^\n]*= (field|option)\(", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        given |= {"".join(found) for found in SET.findall(text)}
    return sorted(options - given)


def _options(path: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and isinstance(node.value, ast.Call):
            of_option = isinstance(node.value.func, ast.Name) and node.value.func.id == "option"
            if of_option or any(word.arg == "metadata" for word in node.value.keywords):
                found.append(node.target.id)
    return found


if __name__ == "__main__":
    allowed = json.loads(CEILINGS.read_text(encoding="utf-8"))
    for name, count in counts().items():
        print(f"{count:8,} of {allowed.get(name, 0):8,}  {name}")
    print("options that nothing sets:", ", ".join(never_set()))
