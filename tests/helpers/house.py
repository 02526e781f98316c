"""Who imports whom among the rooms of the packages, read from the sources; prints the diagrams of CONTRIBUTING.md.

A room is a folder of a package, or a file beside them; what is imported in a function or for types alone counts too.

    python -m tests.helpers.house
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("sudoku_env", "llm_rl", "dllm_rl", "sudoku_dllm", "scripts")


def room_of(module: str) -> str:
    """PACKAGE.ROOM of a module's dotted name; the package itself where the name is its `__init__`."""
    return ".".join(module.split(".")[:2])


def imported(path: Path) -> Iterator[str]:
    """The modules of ours that a file imports, names of a package resolved to the modules that define them."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            if (ROOT / node.module.replace(".", "/")).is_dir() and "." not in node.module:
                yield from (defined_in(node.module, name.name) for name in node.names)
            else:
                yield node.module


@cache
def defined_in(package: str, name: str) -> str:
    """The module behind a public name of a package, as its `__init__` says."""
    if any((ROOT / package / f"{name}{end}").exists() for end in ("", ".py")):
        return f"{package}.{name}"
    for node in ast.walk(ast.parse((ROOT / package / "__init__.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and name in {one.asname or one.name for one in node.names}:
            return node.module
    return package


@cache
def arrows() -> frozenset[tuple[str, str]]:
    """All pairs of a room and another that it imports from."""
    found = set()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            here = room_of(".".join(parts))
            if parts[1:] == ("__init__",):
                continue  # what a package offers is no room of its own
            for module in imported(path):
                there = room_of(module)
                if module.split(".")[0] in PACKAGES and there != here:
                    found.add((here, there))
    return frozenset(found)


def between_packages() -> set[tuple[str, str]]:
    """The arrows between packages."""
    pairs = {(here.split(".")[0], there.split(".")[0]) for here, there in arrows()}
    return {(here, there) for here, there in pairs if here != there}


def within(package: str) -> set[tuple[str, str]]:
    """The arrows between rooms of one package."""
    start = f"{package}."
    return {
        (here.removeprefix(start), there.removeprefix(start))
        for here, there in arrows()
        if here.startswith(start) and there.startswith(start)
    }


def circle(pairs: set[tuple[str, str]]) -> list[str]:
    """The rooms from which imports lead into a circle; an empty list where there is none."""
    left = {room for pair in pairs for room in pair}
    while free := {room for room in left if not any(here == room and there in left for here, there in pairs)}:
        left -= free
    return sorted(left)


def needed(pairs: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """The arrows that say more than the others together."""

    def reached(room: str, without: tuple[str, str]) -> set[str]:
        found, waiting = set[str](), [room]
        while waiting:
            here = waiting.pop()
            after = {there for one, there in pairs - {without} if one == here} - found
            found |= after
            waiting += after
        return found

    return {pair for pair in pairs if pair[1] not in reached(pair[0], pair)}


def diagram(pairs: set[tuple[str, str]]) -> str:
    """A diagram in Mermaid, an arrow from a room to each that it builds on; what follows from others is left out."""
    lines = [f"  {here} --> {there}" for here, there in sorted(needed(pairs))]
    return "\n".join(["```mermaid", "graph TD", *lines, "```"])


if __name__ == "__main__":
    for title, pairs in {"packages": between_packages(), **{name: within(name) for name in PACKAGES[:-1]}}.items():
        print(f"{title}: {len(pairs)} arrows, in a circle: {circle(pairs)}\n\n{diagram(pairs)}\n")
