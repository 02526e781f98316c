"""A copy of this tree in which every seed that a test names is another: `python -m tests.helpers.shift_seeds FOLDER`.

A test asserts what follows from the mathematics, so it holds with any seed; and one that holds with other seeds holds
on a processor that rounds otherwise, where roll-outs are drawn differently. Seeds are the integers that are written

- as an argument `seed`, `seeds` or `…_seed` of a call, such an entry of a dictionary, or such a parameter's default,
- as arguments of `manual_seed`, `default_rng`, `SeedSequence`, `RandomState`, `Random`, `random.seed` and `set_seed`,
- as values of a parameter of that name in `pytest.mark.parametrize`.

What one seed gives digit for digit can be asserted of that seed only: a seed stays where its line, or the line with the
`def` of the function around it, ends with the comment `# golden` (and the reason, if it is not plain).
"""

import argparse
import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SEEDED = {"manual_seed", "default_rng", "SeedSequence", "RandomState", "Random", "seed", "set_seed"}
"""Functions and classes whose arguments are seeds."""
NAME = re.compile(r"(.*_)?seeds?")
GOLDEN = re.compile(r"#.*\bgolden\b")


def integers(node: ast.expr) -> Iterator[ast.Constant]:
    """The integers written in an expression, those in lists, tuples and arithmetic included, but in no other call."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield node
    elif isinstance(node, ast.List | ast.Tuple | ast.BinOp | ast.IfExp):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                yield from integers(child)


def parametrized(call: ast.Call) -> Iterator[ast.expr]:
    """The values that a call of `pytest.mark.parametrize` gives to parameters that are seeds."""
    names, values = call.args[:2]
    if not (isinstance(names, ast.Constant) and isinstance(values, ast.List | ast.Tuple)):
        return
    columns = [name.strip() for name in str(names.value).split(",")]
    for value in values.elts:
        row = value.elts if len(columns) > 1 and isinstance(value, ast.Tuple) else [value]
        yield from (item for name, item in zip(columns, row, strict=False) if NAME.fullmatch(name))


def seeds(node: ast.AST) -> Iterator[ast.expr]:
    """The expressions directly below a node that are seeds."""
    if isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in SEEDED:
            yield from node.args
        if called == "parametrize" and len(node.args) > 1:
            yield from parametrized(node)
        yield from (word.value for word in node.keywords if word.arg and NAME.fullmatch(word.arg))
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str) and NAME.fullmatch(key.value):
                yield value
    elif isinstance(node, ast.arguments):
        positional = [*node.posonlyargs, *node.args]
        defaults = zip(positional[len(positional) - len(node.defaults) :], node.defaults, strict=True)
        keywords = zip(node.kwonlyargs, node.kw_defaults, strict=True)
        yield from (value for name, value in [*defaults, *keywords] if value and NAME.fullmatch(name.arg))


def shifted(source: str, by: int) -> str:
    """The source of a module with its seeds shifted.

    Args:
        source: A module.
        by: What is added to each seed.
    """
    lines = source.splitlines(keepends=True)
    found: dict[tuple[int, int], ast.Constant] = {}

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.FunctionDef) and GOLDEN.search(lines[node.lineno - 1]):
            return
        for expression in seeds(node):
            found.update({(item.lineno, item.col_offset): item for item in integers(expression)})
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(source))
    for (row, column), item in sorted(found.items(), reverse=True):
        line = lines[row - 1].encode()
        if not GOLDEN.search(lines[row - 1]):
            lines[row - 1] = (line[:column] + str(item.value + by).encode() + line[item.end_col_offset :]).decode()
    return "".join(lines)


def copy_shifted(folder: Path, by: int) -> int:
    """Write what git knows or would take of this tree to a folder, with the seeds of its tests shifted.

    Args:
        folder: Where the copy goes; what lies there is replaced.
        by: What is added to each seed.

    Returns:
        How many modules of tests changed.
    """
    shutil.rmtree(folder, ignore_errors=True)
    listed = subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, text=True)
    changed = 0
    for name in listed.splitlines():
        source, target = ROOT / name, folder / name
        if not source.is_symlink() and not source.is_file():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():  # to a folder, or to a file
            target.symlink_to(source.readlink())
        elif name.startswith("tests/") and name.endswith(".py") and source != Path(__file__).resolve():
            text = source.read_text(encoding="utf-8")
            target.write_text(moved := shifted(text, by), encoding="utf-8")
            changed += moved != text
        else:
            shutil.copy2(source, target)
    return changed


def main() -> None:
    """Make the copy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the copy goes")
    parser.add_argument("--by", type=int, default=1, help="what is added to each seed (default: 1)")
    args = parser.parse_args()
    changed = copy_shifted(args.folder.resolve(), args.by)
    print(f"{changed} modules of tests with their seeds shifted by {args.by} in {args.folder}")
    sys.exit(0 if changed else 1)


if __name__ == "__main__":
    main()
