"""Hooks of mkdocs: pages of the public names and of the formulas, and links to files that are no part of the site.

The public names of each package are listed in its stub, with the modules that they live in. The functions that
`sources.md` names beside a formula have a page too, and there the names become links. Both are made when the site is
built, so that they cannot be out of date. A link from a page to a file of the repository, which has its place on a code
host but none on the site, becomes the file's path. TeX becomes MathML, which a browser sets by itself.
"""

import ast
import re
from html import unescape
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

PACKAGES = ("sudoku_env", "dllm_rl", "llm_rl")
OUTSIDE = re.compile(r"\[([^\]]*)\]\(\.\./([^)#]*)\)")
"""A Markdown link that leaves the folder of the pages: its text and its path from the root of the repository."""
INTERVALS = re.compile(r"(?<=\d\])(\s)(?=\[[+−-]?\d)")
"""Between two intervals, which Markdown takes for a link and loses the space of."""
FORMULAS = "sources.md"
NAMED = re.compile(r"`((?:" + "|".join(PACKAGES) + r")(?:\.\w+)+)`")
"""A name of ours with its package, between backticks."""
FORMULA = re.compile(r"<(span|div) class=\"arithmatex\">\\[(\[](.*?)\\[)\]]</\1>", re.DOTALL)
"""A formula as arithmatex leaves it: in a line or as a block, and its TeX."""


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the public names, and of the functions beside the formulas."""
    for package in PACKAGES:
        files.append(File.generated(config, f"api/{package}.md", content=api_page(package)))
    text = (Path(config["docs_dir"]) / FORMULAS).read_text(encoding="utf-8")
    files.append(File.generated(config, "api/formulas.md", content=formulas_page(text)))
    return files


def homes(module: ModuleType) -> dict[str, str]:
    """The public names of a package, each with the module that it lives in, as its stub says."""
    stub = ast.parse(Path(module.__path__[0], "__init__.pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    return {each.name: f"{module.__name__}.{node.module}" for node in imports for each in node.names}


def api_page(package: str) -> str:
    """A page that lists the public names of a package, each from the module that it lives in."""
    module = import_module(package)
    names = sorted(homes(module).items(), key=lambda each: each[0].lower())
    return f"# {package}\n\n{module.__doc__}\n\n" + "\n\n".join(f"::: {home}.{name}" for name, home in names) + "\n"


def place(name: str) -> str | None:
    """Where a dotted name lives, as `module.name`; None for a module, which has no place of its own on the site.

    Raises:
        AttributeError: There is no such name.
        ModuleNotFoundError: There is no such module.
    """
    before, _, last = name.rpartition(".")
    module = import_module(before)
    if isinstance(getattr(module, last, None), ModuleType) or not hasattr(module, last):
        import_module(name)
        return None
    return f"{homes(module).get(last, before)}.{last}" if before in PACKAGES else name


def formulas_page(text: str) -> str:
    """The functions and classes that a page names and that no package offers by itself, in their order."""
    public = {f"{home}.{name}" for package in PACKAGES for name, home in homes(import_module(package)).items()}
    found = dict.fromkeys(place(name) for name in NAMED.findall(text))
    names = "\n\n".join(f"::: {name}" for name in found if name is not None and name not in public)
    return f"# Functions of the formulas\n\nThose that [the page of formulas](../{FORMULAS}) names.\n\n{names}\n"


def on_page_markdown(markdown: str, *, page: Any = None, **context: Any) -> str:
    """Replace links that leave the site by their text and the path; link the functions beside formulas.

    The second of two intervals in a row is escaped.
    """

    def told(link: re.Match[str]) -> str:
        text, path = link.groups()
        return text if text == path else f"{text} (`{path}`)"

    def linked(name: re.Match[str]) -> str:
        where = place(name.group(1))
        return name.group() if where is None else f"[{name.group()}][{where}]"

    markdown = INTERVALS.sub(r"\1\\", OUTSIDE.sub(told, markdown))
    return NAMED.sub(linked, markdown) if page is not None and page.file.src_uri == FORMULAS else markdown


def on_page_content(html: str, **context: Any) -> str:
    """Set the formulas."""

    def as_mathml(formula: re.Match[str]) -> str:
        tag, tex = formula.groups()
        shown = convert(unescape(tex), display="block" if tag == "div" else "inline")
        return f'<{tag} class="arithmatex">{shown}</{tag}>'

    return FORMULA.sub(as_mathml, html)
