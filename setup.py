"""The page of the distribution: README.md, whose links and pictures lead to the files of the release's tag.

All else is in pyproject.toml.
"""

import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def absolute(text: str) -> str:
    """Markdown with its links to files as addresses of the tagged files; pictures as those of their bytes."""

    def link(found: re.Match[str]) -> str:
        kind = "raw" if found["picture"] else "blob"
        address = f"{PROJECT['urls']['Repository']}/{kind}/v{PROJECT['version']}/{found['path']}"
        return f"{found['picture']}[{found['text']}]({address})"

    return re.sub(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?!\w+:|#)(?P<path>[^)\s]+)\)", link, text)


setup(
    long_description=absolute((ROOT / "README.md").read_text(encoding="utf-8")),
    long_description_content_type="text/markdown",
)
