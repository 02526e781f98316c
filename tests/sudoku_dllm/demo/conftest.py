"""The exported page, and node to run its modules."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest

from sudoku_dllm.demo.export import export

DRIVER = Path(__file__).parent / "node.mjs"


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page with the shipped models, as `make demo-build` writes it."""
    folder = tmp_path_factory.mktemp("demo")
    export(folder)
    (folder / "package.json").write_text('{"type": "module"}')  # node takes .js for modules only if told so
    return folder


@pytest.fixture(scope="session")
def node(page: Path) -> Iterator[Callable[..., Any]]:
    """`node(ask, **content)`: what a module of the page answers, all in one process."""
    program = shutil.which("node")
    if program is None:
        pytest.skip("node is not installed, which runs the modules of the page (Debian: apt-get install nodejs)")

    with Popen([program, str(DRIVER)], stdin=PIPE, stdout=PIPE, text=True) as process:

        def ask(what: str, **content: Any) -> Any:
            print(json.dumps({"ask": what, "page": str(page), **content}), file=process.stdin, flush=True)
            return json.loads(process.stdout.readline())  # empty where node has ended and said why on standard error

        yield ask
