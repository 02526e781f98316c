"""The documentation as a site: every public name, no dead link, nothing from other hosts, search from its folder."""

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="the site needs mkdocs: pip install 'sudoku-dllm[docs]'")
pytest.importorskip("mkdocstrings", reason="the site needs mkdocstrings: pip install 'sudoku-dllm[docs]'")
pytest.importorskip("latex2mathml", reason="the site needs latex2mathml: pip install 'sudoku-dllm[docs]'")

from scripts.site.hooks import PACKAGES, homes, on_page_markdown
from tests.sudoku_dllm.demo.browser import chromium

ROOT = Path(__file__).parents[2]
LOADED = re.compile(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=\"(https?:)?//", re.IGNORECASE)

BLOCKS = "article :is(pre > code, table, div.arithmatex, p, li, img)"
FAULTS = r"""([blocks, narrow]) => [...document.querySelectorAll(blocks)].filter(block => {
  const scrolls = narrow && block.matches('table, div'), prose = block.cloneNode(true)
  const edge = narrow ? innerWidth : document.querySelector('article').getBoundingClientRect().right
  const hidden = block.matches('code, div') ? block.scrollWidth - block.clientWidth : 0
  prose.querySelectorAll('code, pre').forEach(code => code.remove())
  const command = /(^|\s)(python -m|sudoku-dllm [a-z]|pip install|--[a-z]|\$\$)/.test(prose.textContent)
  return !scrolls && Math.max(hidden, block.getBoundingClientRect().right - edge) > 1
    || block.matches('p, li') && command
}).map(block => block.textContent.slice(0, 80))"""
"""What stands over the edge of its column (of a narrow screen, where tables and formulas scroll), and code as prose."""


def test_links_that_leave_the_site_become_paths() -> None:
    text = "See [the examples](../examples), [a/b.py](../a/b.py) and [here](objective.md#x)."
    assert on_page_markdown(text) == "See the examples (`examples`), a/b.py and [here](objective.md#x)."


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built without a warning."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.slow
def test_the_site_has_every_public_name_and_loads_nothing_from_other_hosts(site) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 25 and not [page for page in pages if LOADED.search(page.read_text(encoding="utf-8"))]
    for package in PACKAGES:
        text = (site / "api" / f"{package}.html").read_text(encoding="utf-8")
        found = homes(module := import_module(package))
        assert {*found} == {*module.__all__}
        assert not [name for name, home in found.items() if f'id="{home}.{name}"' not in text]
        assert not re.search(r"\boption(</span>)?(<[^>]*>)*\(", text)  # signatures have the default alone


@pytest.mark.slow
@pytest.mark.parametrize("start", ["index.html", "api/sudoku_env.html"])
def test_the_site_is_searched_in_a_browser_that_opened_its_folder(site, start) -> None:
    with chromium() as browser:
        page = browser.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto((site / start).as_uri())
        page.locator("input[name=query]").click()
        page.get_by_text("Type to start searching").wait_for(timeout=60_000)  # the index is loaded
        page.locator("input[name=query]").press_sequentially("distinct state")
        found = page.locator(".md-search-result__link[href*='concepts.html']").first
        found.wait_for(timeout=60_000)
        found.click()
        page.wait_for_url("**/concepts.html*")
        assert "Concepts" in page.title()
    assert [url for url in asked if not url.startswith(("file:", "data:", "about:"))] == []


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_no_block_of_a_page_is_wider_than_its_column_and_no_paragraph_is_a_command(site, width) -> None:
    faults = {}
    with chromium() as browser:
        page = browser.new_page(viewport={"width": width, "height": 900})
        for file in sorted(site.rglob("*.html")):
            page.goto(file.as_uri())
            faults[file.name] = page.evaluate(FAULTS, [BLOCKS, width < 500])
            assert page.evaluate("document.documentElement.scrollWidth") <= width, file
    assert not {name: found for name, found in faults.items() if found}
