"""What README and pages say can be done: examples run from top to bottom, commands and links lead somewhere."""

import ast
import importlib
import importlib.util
import re
from pathlib import Path

import pytest

from tests.dllm_rl.helpers import tiny_text
from tests.helpers.pages import ROOT, blocks, run_page
from tests.llm_rl.helpers.tiny_grpo import new_model, tokenizer

TABLES = sorted((ROOT / "data" / "study").glob("*/tables.md"))
PAGES = [ROOT / "README.md", ROOT / "data" / "README.md", *sorted((ROOT / "docs").glob("*.md")), *TABLES]
TOLD_LATER = {"log.md"}
"""Pages that keep what was once run, whose commands may be gone."""
OURS = ("sudoku_env", "dllm_rl", "llm_rl", "sudoku_dllm", "scripts")
ADAPTERS = "sudoku_env.integrations"
"""Modules that need packages of their own, whose examples run where those are (`make test-integrations`)."""
RUN_HERE = ["data/README.md", "docs/index.md", "docs/objective.md", "docs/own_task.md"]
RUN_WITH_A_MODEL = ["README.md", "docs/tour.md"]
RUN_ELSEWHERE = {
    "docs/decoding.md": "tests/dllm_rl/models/test_adapter_training.py", "docs/dpo.md": "tests/llm_rl/test_docs.py",
    "docs/environments.md": "tests/sudoku_env/test_docs.py", "docs/grpo.md": "tests/llm_rl/test_docs.py",
    "docs/ppo.md": "tests/llm_rl/test_docs.py", "docs/raro.md": "tests/llm_rl/test_docs.py",
    "docs/tools.md": "tests/llm_rl/tools/test_docs.py", "docs/vapor.md": "tests/llm_rl/test_docs.py",
}  # fmt: skip
"""Pages whose examples need a model that only these tests have, or packages that may be missing."""
NOT_RUN = {"docs/reliability.md": "kills a training of the reader's twenty times, which takes minutes"}
WORD = r"(?:-?[\d.]+|True|False)"
COLOR = re.compile(r"\x1b\[[\d;]*m")
TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


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
    files = set(re.findall(r"(?<![\w/:])((?:scripts|examples|configs)/[\w/.-]+\.(?:py|yaml|ipynb|sh))\b", text))
    assert not [name for name in files if not (ROOT / name).is_file()]
    targets = set(re.findall(r"`make ([a-z0-9-]+)", text)) | set(re.findall(r"^make ([a-z0-9-]+)", text, re.MULTILINE))
    assert targets <= TARGETS


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_to_files_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text(encoding="utf-8"))
    made = {"api/sudoku_env.md", "api/dllm_rl.md", "api/llm_rl.md", "api/formulas.md"}
    assert not [link for link in links if link not in made and not (page.parent / link).exists()]


def claimed(page: Path) -> list[str]:
    """What a page says that its examples print: in a comment behind print, or in the block after the word "prints"."""
    text = page.read_text(encoding="utf-8")
    comments = re.findall(rf"^ *print\(.*\)  # ({WORD}(?: {WORD})*)$", text, re.MULTILINE)
    return comments + re.findall(r"```\n\nprints\n\n```\n(.*?)```", text, re.DOTALL)


def test_every_page_with_examples_is_run_or_says_why_not() -> None:
    with_examples = {page_id(page) for page in PAGES if blocks(page)}
    assert with_examples == {*RUN_WITH_A_MODEL, *RUN_HERE, *RUN_ELSEWHERE, *NOT_RUN}
    for page, test in RUN_ELSEWHERE.items():
        assert Path(page).name in (text := (ROOT / test).read_text(encoding="utf-8"))
        assert "run_page(" in text or page == "docs/environments.md"


@pytest.mark.parametrize("name", RUN_HERE)
def test_the_examples_of_a_page_run_from_top_to_bottom(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_page(ROOT / name, tmp_path, monkeypatch)
    said = COLOR.sub("", capsys.readouterr().out)
    assert all(text in said for text in claimed(ROOT / name))


@pytest.mark.slow
@pytest.mark.parametrize("name", RUN_WITH_A_MODEL)
def test_the_examples_of_a_page_run_with_a_model_and_print_what_it_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = ROOT / name
    for each in (tiny_text.text_model(), tiny_text.tokenizer()):
        each.save_pretrained(tmp_path / "my-writer")
    names = run_page(page, tmp_path, monkeypatch, model=new_model(), tokenizer=tokenizer())
    said = COLOR.sub("", capsys.readouterr().out)
    assert all(text in said for text in claimed(page))
    assert len(claimed(page)) >= (3 if name == "docs/tour.md" else 0)
    assert names["reward"](["3, surely", " 4"], ["3", "3"]) == [1.0, 0.0]
    assert all((tmp_path / "runs" / run / "checkpoint-2").is_dir() for run in ("mine", "my_order"))


def test_a_stranger_reads_readme_on_a_narrow_screen_and_to_its_end() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 110 and max(map(len, lines)) <= 120
