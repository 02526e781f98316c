"""The exported page, and node to run its modules."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sudoku_dllm.demo.export import Arguments, export

DRIVER = Path(__file__).parent / "node.mjs"


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page with the shipped models, as `make demo-build` writes it."""
    folder = tmp_path_factory.mktemp("demo")
    export(Arguments(output_dir=str(folder)))
    (folder / "package.json").write_text('{"type": "module"}')  # node takes .js for modules only if told so
    return folder


@pytest.fixture(scope="session")
def node(page: Path) -> Callable[..., Any]:
    """`node(ask, **content)`: what a module of the page answers."""
    program = shutil.which("node")
    if program is None:
        pytest.skip("node is not installed, which runs the modules of the page (Debian: apt-get install nodejs)")

    def ask(what: str, **content: Any) -> Any:
        request = json.dumps({"ask": what, "page": str(page), **content})
        done = subprocess.run([program, str(DRIVER)], input=request, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return ask
