"""The documentation as a site: every public name, no dead link, nothing from other hosts."""

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="the site needs mkdocs: pip install 'sudoku-dllm[docs]'")
pytest.importorskip("mkdocstrings", reason="the site needs mkdocstrings: pip install 'sudoku-dllm[docs]'")

from scripts.site.hooks import PACKAGES, on_page_markdown

ROOT = Path(__file__).parents[2]
LOADED = re.compile(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=\"(https?:)?//", re.IGNORECASE)


def test_links_that_leave_the_site_become_paths() -> None:
    text = "See [the examples](../examples), [a/b.py](../a/b.py) and [here](objective.md#x)."
    assert on_page_markdown(text) == "See the examples (`examples`), a/b.py and [here](objective.md#x)."


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 25 and not [page for page in pages if LOADED.search(page.read_text(encoding="utf-8"))]
    for package in PACKAGES:
        text = (tmp_path / "api" / f"{package}.html").read_text(encoding="utf-8")
        module = import_module(package)
        homes = {name: module._HOMES.get(name) or getattr(module, name).__module__ for name in module.__all__}
        assert not [name for name, home in homes.items() if f'id="{home}.{name}"' not in text]
