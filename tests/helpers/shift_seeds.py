"""A copy of this tree in which every seed that a test names is another: `python -m tests.helpers.shift_seeds FOLDER`.

A test asserts what follows from the mathematics, so it holds with any seed; and one that holds with other seeds holds
on a processor that rounds otherwise, where roll-outs are drawn differently. Seeds are the integers that are written

- as an argument `seed`, `seeds` or `…_seed` of a call, such an entry of a dictionary, or such a parameter's default,
- as arguments of `manual_seed`, `default_rng`, `SeedSequence`, `RandomState`, `Random`, `random.seed` and `set_seed`,
- as values of a parameter of that name in `pytest.mark.parametrize`,
- in the place of such a parameter, in a call of a function of the same module.

Negative ones stay: they are there to be refused.

What one seed gives digit for digit can be asserted of that seed only: a seed stays where its line, or the line with the
`def` or `class` around it, ends with the comment `# golden` (and the reason, if it is not plain).
"""

import argparse
import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SEEDED = {"manual_seed", "default_rng", "SeedSequence", "RandomState", "Random", "seed", "set_seed"}
"""Functions and classes whose arguments are seeds."""
NAME = re.compile(r"(.*_)?seeds?")
GOLDEN = re.compile(r"#.*\bgolden\b")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
MARK = ".shifted_seeds"
"""A file that says of a folder that it is such a copy, and may be replaced by another."""


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
    if not isinstance(values, ast.List | ast.Tuple):
        return
    if isinstance(names, ast.List | ast.Tuple):
        columns = [str(getattr(name, "value", "")) for name in names.elts]
    else:
        columns = [name.strip() for name in str(getattr(names, "value", "")).split(",")]
    for value in values.elts:
        if isinstance(value, ast.Call):  # pytest.param(...)
            row = value.args
        else:
            row = value.elts if len(columns) > 1 and isinstance(value, ast.Tuple) else [value]
        yield from (item for name, item in zip(columns, row, strict=False) if NAME.fullmatch(name))


def seeds(node: ast.AST, parameters: Mapping[str, Sequence[str]]) -> Iterator[ast.expr]:
    """The expressions directly below a node that are seeds.

    Args:
        node: A node.
        parameters: The positional parameters of the functions of its module.
    """
    if isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in SEEDED:
            yield from node.args
        if isinstance(node.func, ast.Name):
            places = zip(parameters.get(called, ()), node.args, strict=False)
            yield from (value for name, value in places if NAME.fullmatch(name))
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
    lines, tree = source.splitlines(keepends=True), ast.parse(source)
    found: dict[tuple[int, int], ast.Constant] = {}
    parameters = {
        node.name: [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
        for node in tree.body
        if isinstance(node, FUNCTIONS)
    }

    def visit(node: ast.AST) -> None:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)) and GOLDEN.search(lines[node.lineno - 1]):
            return
        for expression in seeds(node, parameters):
            found.update({(item.lineno, item.col_offset): item for item in integers(expression)})
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(tree)
    for (row, column), item in sorted(found.items(), reverse=True):
        line = lines[row - 1].encode()
        if not GOLDEN.search(lines[row - 1]):
            lines[row - 1] = (line[:column] + str(item.value + by).encode() + line[item.end_col_offset :]).decode()
    return "".join(lines)


def copy_shifted(folder: Path, by: int) -> int:
    """Write what git knows or would take of this tree to a folder, with the seeds of its tests shifted.

    Args:
        folder: Where the copy goes, outside this tree; an earlier copy there is replaced.
        by: What is added to each seed.

    Returns:
        How many modules of tests changed.

    Raises:
        ValueError: The folder lies in this tree, or holds anything but an earlier copy.
    """
    folder = folder.resolve()
    if folder.is_relative_to(ROOT) or ROOT.is_relative_to(folder):
        raise ValueError(f"{folder} and this tree lie one in the other; name a folder outside it")
    if (folder / MARK).is_file():
        shutil.rmtree(folder)
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} holds something that is no copy of this tree; name a new folder, or an empty one")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARK).write_text(f"seeds shifted by {by}\n", encoding="utf-8")
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
    try:
        changed = copy_shifted(args.folder, args.by)
    except ValueError as error:
        sys.exit(f"error: {error}")
    print(f"{changed} modules of tests with their seeds shifted by {args.by} in {args.folder}")
    print(f"in that folder, with PYTHONPATH={args.folder.resolve()}: python -m pytest -m '' tests/dllm_rl")


if __name__ == "__main__":
    main()
