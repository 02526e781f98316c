"""The page in headless Chromium, where it is installed."""

import importlib.util
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@contextmanager
def chromium() -> Iterator["Browser"]:
    """Headless Chromium by Playwright; skips the test, saying why, where one of them is missing."""
    if importlib.util.find_spec("playwright") is None:
        pytest.skip("playwright is not installed (pip install playwright)")
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed (Debian: apt-get install chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Chromium refuses to sandbox itself for root, as whom containers often run.
        sandbox = os.geteuid() != 0
        browser = playwright.chromium.launch(executable_path=CHROMIUM, chromium_sandbox=sandbox, timeout=120_000)
        yield browser
        browser.close()


@contextmanager
def visit(browser: "Browser", address: str, fragment: str = "", decodes: int = 0, **context: Any) -> Iterator["Page"]:
    """A visit, after so many decodes; fails if the page wrote an error to the console or asked another host."""
    with browser.new_context(**context) as visitor:
        page = visitor.new_page()
        page.set_default_timeout(120_000)
        faults: list[str] = []
        page.on("console", lambda said: faults.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda request: None if ours(request.url, address) else faults.append(request.url))
        page.goto(f"{address}/{fragment}")
        page.wait_for_selector("[data-cell]")
        if decodes:
            wait_for_decodes(page, decodes)
        yield page
        assert not faults


def ours(url: str, address: str) -> bool:
    return url.startswith((f"{address}/", "data:"))


def wait_for_decodes(page: "Page", count: int = 1) -> None:
    """Until so many boards have been decoded to the end."""
    page.wait_for_function("count => document.querySelectorAll('.panel[data-done]').length === count", arg=count)
