"""What README and pages say can be done: code compiles and names what is there, commands and links lead somewhere."""

import ast
import importlib
import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "data" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TOLD_LATER = {"log.md"}
"""Pages that keep what was once run, whose commands may be gone."""
OURS = ("sudoku_env", "dllm_rl", "llm_rl", "sudoku_dllm", "scripts")
ADAPTERS = "sudoku_env.integrations"
"""Modules that need packages of their own, whose examples run where those are (`make test-integrations`)."""
TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_examples_compile_and_import_what_is_there(page: Path) -> None:
    for block in blocks(page):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in OURS:
                if node.module.startswith(ADAPTERS):
                    place = ROOT / node.module.replace(".", "/")
                    assert place.is_dir() or place.with_suffix(".py").is_file()
                    continue
                module = importlib.import_module(node.module)
                assert not [name.name for name in node.names if not hasattr(module, name.name)], node.module


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in TOLD_LATER], ids=page_id)
def test_commands_are_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    modules = set(re.findall(rf"-m ((?:{'|'.join(OURS)})(?:\.\w+)*)", text))
    assert not [name for name in modules if importlib.util.find_spec(name) is None]
    files = set(re.findall(r"(?<![\w/])((?:scripts|examples|configs)/[\w/.-]+\.(?:py|yaml|ipynb|sh))\b", text))
    assert not [name for name in files if not (ROOT / name).is_file()]
    targets = set(re.findall(r"`make ([a-z0-9-]+)", text)) | set(re.findall(r"^make ([a-z0-9-]+)", text, re.MULTILINE))
    assert targets <= TARGETS


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_to_files_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text(encoding="utf-8"))
    made = {"api/sudoku_env.md", "api/dllm_rl.md", "api/llm_rl.md", "api/formulas.md"}
    assert not [link for link in links if link not in made and not (page.parent / link).exists()]


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs" / "index.md"], ids=page_id)
def test_the_first_example_runs_as_it_stands(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    block = next(block for block in blocks(page) if "SudokuUnmask-v0" in block and "PromptPool" in block)
    exec(compile(block, str(page), "exec"), {})
    said = capsys.readouterr().out
    for claimed in re.findall(r"^print\(reward.*\)  # ([\d.]+ (?:True|False).*)$", block, re.MULTILINE):
        assert claimed in said
