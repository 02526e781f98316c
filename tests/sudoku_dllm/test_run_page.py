"""The page of a run: what it holds, and what a browser makes of it."""

import html
import json
import re
import shutil
import subprocess
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from dllm_rl import SudokuTask, load
from dllm_rl.decoding import Decoding
from sudoku_dllm.__main__ import main
from sudoku_dllm.run_page.curves import loss_curve
from sudoku_dllm.run_page.page import Curve, Page, Replay, Table, read_replays
from sudoku_dllm.run_page.replays import chosen, replays_of
from sudoku_env import definite_cells, parse_board, pre_fill, read_prompts
from tests.scripts.helpers.page_data import page_data
from tests.sudoku_dllm.demo.browser import chromium

ROOT = Path(__file__).parents[2]
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
REPLAY = Replay(
    title="one",
    size=4,
    boards=[[1, 0, 0, 4, *[0] * 12], [1, 2, 0, 4, *[0] * 12]],
    solution=[1, 2, 3, 4, 3, 4, 1, 2, 2, 1, 4, 3, 4, 3, 2, 1],
    definite=[[1], [2]],
    boxes=(2, 2),
)
PAGE = Page(
    title="a run </script><b>& more",
    facts={"machine": "one & only"},
    arguments={"learning_rate": 1e-3},
    tables=[Table("solved", ["arm", "1 token"], [["base", "18.0 ± 2.4"]], "a note")],
    curves=[Curve("loss", "updates", {"sft": [(0, 1.5), (1, 0.5)], "none": []})],
    replays=[REPLAY],
)


def test_the_page_is_one_file_that_fetches_nothing(tmp_path) -> None:
    text = PAGE.write(tmp_path / "report.html").read_text(encoding="utf-8")
    assert page_data(tmp_path / "report.html")["title"] == PAGE.title and "<b>& more" not in text
    assert not re.findall(r"(?:src|href)=", text) and "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_no_path_of_the_machine_is_in_the_page(tmp_path) -> None:
    facts = {
        "base": "/home/me/my models/llada",
        "command": "python -m run '/home/me/a.yaml' --out=/tmp/here/runs, 1/2 of it; see data/x.jsonl",
    }
    arguments = {
        "data": Path("/home/me/train.jsonl"),
        "eval_data": ["/home/me/few.jsonl", "data/test.jsonl"],
        "report": "['/home/me/log']",
        "arms": {"sft": {"output_dir": "/srv/runs/sft/", "learning_rate": 1e-3, "steps": None}},
    }
    data = page_data(Page("a run", facts, arguments).write(tmp_path / "report.html"))
    command = "python -m run 'a.yaml' --out=runs, 1/2 of it; see data/x.jsonl"
    assert data["facts"] == {"base": "llada", "command": command}
    assert data["arguments"] == {
        "data": "train.jsonl",
        "eval_data": ["few.jsonl", "data/test.jsonl"],
        "report": "['log']",
        "arms": {"sft": {"output_dir": "sft", "learning_rate": 1e-3, "steps": None}},
    }


WIDE = replace(
    PAGE,
    facts={"versions": "package-of-some-length 1.2.3, " * 8, "base": "a" * 80},
    tables=[
        Table("solved", ["arm", *("tokens a step" for _ in range(8))], [["an arm", *["18.0 ± 2.4"] * 8]], "a note")
    ],
    curves=[
        Curve("small", "updates", {"sft": [(1.4, 2.09e-4), (97, 0.6)]}),
        Curve("tiny", "updates", {"sft": [(0, 1.5e-7), (3e6, 2.5e-7)]}),
        Curve("large", "updates", {"sft": [(0, -123456.7), (1, 7654321.0)]}),
        Curve("level", "updates", {"sft": [(0, 0.0), (1, 0.0)]}),
        Curve("one point", "updates", {"sft": [(5, 3.0)]}),
    ],
    replays=[replace(REPLAY, title="an arm of some length, sudoku6x6_few_test: 12 clues, 27 passes, 11 cells wrong")],
)
SIZES = """() => {
  const drawings = [...document.querySelectorAll("svg")].map((svg) => {
    const [texts, of] = [[...svg.querySelectorAll("text")], svg.getBoundingClientRect()];
    const boxes = [...texts, ...svg.querySelectorAll("path")].map((each) => each.getBoundingClientRect());
    const fits = ({ left, right, top, bottom }) =>
      left >= of.left && right <= of.right && top >= of.top && bottom <= of.bottom;
    const scale = of.width / svg.viewBox.baseVal.width;
    return { labels: texts.length, whole: boxes.every(fits),
      size: parseFloat(getComputedStyle(texts[0]).fontSize) * scale };
  });
  return { width: document.documentElement.scrollWidth, drawings };
}"""
"""How wide a page is, and of each drawing whether its labels and lines lie within it and how large its text is."""


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_is_as_wide_as_the_screen_and_shows_its_labels_whole(tmp_path, width) -> None:
    page = WIDE.write(tmp_path / "report.html")
    with chromium() as browser:
        visitor = browser.new_page(viewport={"width": width, "height": 844}, is_mobile=width < 500)
        visitor.goto(page.as_uri())
        found = visitor.evaluate(SIZES)
    assert found["width"] == width and len(found["drawings"]) == len(WIDE.curves)
    for drawing in found["drawings"]:
        assert drawing["whole"] and drawing["labels"] >= 4 and drawing["size"] >= 11, drawing


@pytest.mark.skipif(BROWSER is None, reason="needs a browser: apt-get install chromium")
def test_a_browser_shows_all_of_it(tmp_path) -> None:
    page = PAGE.write(tmp_path / "report.html")
    words = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile"]
    command = [*words, "--dump-dom", page.as_uri()]
    dom = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    body, title = html.unescape(dom.split("<dl")[1]), dom.split("<h1>")[1].split("</h1>")[0]
    assert PAGE.title in html.unescape(title)
    for text in ("one & only", "18.0 ± 2.4", "a note", "pass 0 of 1, 1 cells definite, 0 wrong"):
        assert text in body
    board = body.split('class="board"')[1].split('class="controls"')[0]
    assert board.count('class="given"') == 2 and board.count('class="open"') == 1
    assert body.count("<path") == 1  # a line without points is none


def test_replays_are_the_decodes_of_the_model() -> None:
    model, tokenizer = load("llada-sudoku6x6-converged")
    prompts = read_prompts(ROOT / "data" / "sudoku6x6_test.jsonl")[:3]
    puzzles = [pre_fill(prompt, tokenizer, 40) for prompt in prompts]
    how = Decoding("margin", tokens_per_step=2)
    found = replays_of(model, "converged", SudokuTask(tokenizer.pad_token_id), puzzles, how)
    assert len(found) == 3
    for replay, puzzle in zip(found, (parse_board(prompt.split()[-1]) for prompt in prompts), strict=True):
        assert replay.boards[0] == puzzle.tolist() and 0 not in replay.boards[-1] and replay.boxes == (2, 3)
        for before, after in pairwise(replay.boards):
            assert sum(a != b for a, b in zip(before, after, strict=True)) <= 2
        assert replay.definite[0] == np.flatnonzero(definite_cells(puzzle)).tolist()
        assert replay.title.endswith("solved" if replay.boards[-1] == replay.solution else "wrong")


def test_failures_are_among_the_replays() -> None:
    assert chosen([True] * 20) == list(range(10))
    assert chosen([False] * 3 + [True] * 20) == [*range(3, 11), 0, 1]
    assert chosen([False] * 20 + [True]) == [20, *range(9)]
    assert chosen([True, False]) == [0, 1]


def test_losses_over_the_share_of_updates(tmp_path) -> None:
    lines = [{"step": 5, "loss": 2.0}, {"step": 5, "eval_reward": 1.0}, {"step": 10, "loss": 1.0}, {"train_loss": 1.5}]
    (tmp_path / "log").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    assert loss_curve({"sft": tmp_path / "log", "none": tmp_path / "gone"}).lines == {"sft": [(50, 2.0), (100, 1.0)]}


def test_replays_are_read_back_and_played(tmp_path, capsys) -> None:
    PAGE.write(tmp_path / "report.html")
    assert read_replays(tmp_path / "report.html") == [REPLAY]
    assert main(["replay", str(tmp_path), "--number", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "1. one" and "pass 1 of 1: row 1, column 2 is 2 (not definite yet)" in lines
    assert lines[-1] == "13 of 16 cells are wrong or blank"
    assert main(["replay", str(tmp_path), "--number", "2"]) == 2 and "decodes 1 to 1" in capsys.readouterr().err
    assert main(["replay", str(tmp_path / "nowhere")]) == 2 and "there is no" in capsys.readouterr().err
    (tmp_path / "other.html").write_text("<p>", encoding="utf-8")
    assert main(["replay", str(tmp_path / "other.html")]) == 2 and "no page of a run" in capsys.readouterr().err
