"""A copy of this tree in which every seed that a test writes down is another: the dialect `other_seeds`.

A test asserts what follows from the mathematics, so it holds with any seed; and one that holds with other seeds holds
on a processor that rounds otherwise, where roll-outs are drawn differently. Seeds are the numbers that are written

- behind `seed=`, `seeds=` or `…_seed=`, as such a parameter's default, and as such an entry of a dictionary,
- as arguments of `manual_seed`, `default_rng`, `SeedSequence`, `RandomState`, `Random`, `seed` and `set_seed`,
- as values of a parameter of that name alone in `pytest.mark.parametrize`.

What one seed gives digit for digit can be asserted of that seed only: a seed stays where its line ends with the comment
`# golden` (and the reason, if it is not plain).
"""

import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SEEDED = r"\b(?:manual_seed|default_rng|SeedSequence|RandomState|Random|seed|set_seed)\("
NAMED = r"seeds?(?:(?:: int)? ?= ?|[\"']: |[\"'], (?=\[))"
NUMBERS = re.compile(rf"((?:{SEEDED}|{NAMED})[(\[]*)(\d+(?:, \d+)*)\b(?![.*])")
GOLDEN = re.compile(r"#.*\bgolden\b")


def shifted(source: str, by: int) -> str:
    """The source of a module with its seeds shifted.

    Args:
        source: A module.
        by: What is added to each seed.
    """

    def moved(found: re.Match[str]) -> str:
        return found[1] + ", ".join(str(int(seed) + by) for seed in found[2].split(", "))

    lines = source.splitlines(keepends=True)
    return "".join(line if GOLDEN.search(line) else NUMBERS.sub(moved, line) for line in lines)


def copy_shifted(folder: Path, by: int) -> None:
    """Write what git knows or would take of this tree to a folder, with the seeds of its tests shifted.

    Args:
        folder: Where the copy goes.
        by: What is added to each seed.
    """
    listed = subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, text=True)
    for name in listed.splitlines():
        source, target = ROOT / name, folder / name
        if source.exists():  # git lists what was deleted since
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
            if name.startswith("tests/") and name.endswith(".py"):
                target.write_text(shifted(source.read_text(encoding="utf-8"), by), encoding="utf-8")
