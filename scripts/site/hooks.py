"""Hooks of mkdocs: pages of the public names, and links to files that are no part of the site.

The public names of each package are listed in its `_HOMES`, with the modules that they live in; a page of them is made
when the site is built, so that it cannot be out of date. A link from a page to a file of the repository, which has its
place on a code host but none on the site, becomes the file's path.
"""

import re
from importlib import import_module
from typing import Any

from mkdocs.structure.files import File, Files

PACKAGES = ("sudoku_env", "dllm_rl", "llm_rl")
OUTSIDE = re.compile(r"\[([^\]]*)\]\(\.\./([^)#]*)\)")
"""A Markdown link that leaves the folder of the pages: its text and its path from the root of the repository."""


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the public names."""
    for package in PACKAGES:
        files.append(File.generated(config, f"api/{package}.md", content=api_page(package)))
    return files


def api_page(package: str) -> str:
    """A page that lists the public names of a package, each from the module that it lives in."""
    module = import_module(package)
    homes = {
        **{name: getattr(module, name).__module__ for name in module.__all__ if name not in module._HOMES},
        **module._HOMES,
    }
    names = "\n\n".join(f"::: {home}.{name}" for name, home in sorted(homes.items(), key=lambda each: each[0].lower()))
    return f"# {package}\n\n{module.__doc__}\n\n{names}\n"


def on_page_markdown(markdown: str, **context: Any) -> str:
    """Replace links that leave the site by their text and the path."""

    def told(link: re.Match[str]) -> str:
        text, path = link.groups()
        return text if text == path else f"{text} (`{path}`)"

    return OUTSIDE.sub(told, markdown)
