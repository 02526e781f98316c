"""The page in a browser: it looks nothing up elsewhere, decodes as Python does, and can be used without a mouse."""

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest

from dllm_rl import Decoding
from sudoku_dllm.demo.serve import page_server
from sudoku_env import count_solutions, default_puzzles, to_string
from sudoku_env.board import conflicts
from tests.sudoku_dllm.demo.browser import chromium, visit, wait_for_decodes
from tests.sudoku_dllm.demo.reference import MODELS, NINE, boards, load, of_trajectories, problems, python_steps

FOUR, NINE_BY_NINE = (to_string(default_puzzles(size).boards[0]) for size in (4, 9))
SIX = "31.5244521.3......1.42...6....2.1..."


@pytest.fixture(scope="module")
def address(page: Path) -> Iterator[str]:
    with page_server(page, 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@pytest.mark.parametrize(
    ("name", "count"), [(MODELS[0], 2), *(pytest.param(name, 60, marks=pytest.mark.slow) for name in MODELS)]
)
def test_decodes_in_the_page_are_those_of_python(browser, address, name, count) -> None:
    """By the modules that the page has loaded, and in Python in double precision."""
    model, tokenizer = load(name)
    batch = problems(tokenizer, count)
    with visit(browser, address) as page:
        found = page.evaluate(
            """async ([name, puzzles]) => {
              const [{ Models }, { Layout }, { decode }] = await Promise.all(
                ["models", "layout", "decode"].map((file) => import(`/${file}.js`)));
              const models = await Models.load();
              const layout = new Layout(models.entries.get(name).layout);
              const options = { strategy: "margin", policy: models.policy };
              const llada = await models.get(name);
              return puzzles.map((puzzle) => [...decode(llada, layout, puzzle, options)].map((step) =>
                step.choices.map(({ position, token }) => [position, token])));
            }""",
            [name, boards(batch)],
        )
    expected: list[list[Any]] = [[] for _ in range(count)]
    for step in python_steps(model.double(), batch, Decoding("margin")):
        for row, choices, _ in of_trajectories(step):
            expected[row].append(choices)
    assert found == expected


def test_two_models_decode_one_puzzle_side_by_side(browser, address) -> None:
    with visit(browser, address, f"#puzzle={SIX}&model={MODELS[0]}&other={MODELS[1]}&step=3", decodes=2) as page:
        assert [title.split(",")[0] for title in page.locator(".panel h2").all_inner_texts()] == list(MODELS)
        assert all(text.startswith("3 of ") for text in page.locator(".passes").all_inner_texts())
        assert page.locator(".heat").count() > 0


def test_keys_step_write_and_erase(browser, address) -> None:
    with visit(browser, address, f"#puzzle={SIX}", decodes=1) as page:
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowLeft")
        page.wait_for_function("() => location.hash.includes('step=1')")
        assert page.locator("#passes").inner_text().startswith("1 /")

        # In the board: to row 1, column 3, which is blank.
        page.locator('[data-cell="0"]').focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("1")
        assert page.locator("#verdict").inner_text().startswith("Invalid")
        assert "wrong" in page.locator('[data-cell="2"]').get_attribute("aria-label")
        page.keyboard.press("Backspace")
        assert page.locator("#verdict").inner_text().startswith("A puzzle")
        page.wait_for_function("() => !location.hash.includes('step')")
        assert page.locator("#puzzle").input_value() == SIX


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("31.5|245", "No board: 7 cells"),
        (SIX.replace(".", "3", 1), "Invalid"),
        ("." * 36, "Ambiguous"),
        ("123...456..." + "." * 24, "Ambiguous"),
        ("12345......6" + "." * 24, "Unsolvable"),
        (FOUR, "A puzzle: there is exactly one solution. The page has no model for 4×4"),
    ],
)
def test_a_pasted_puzzle_is_judged_at_once(browser, address, text, verdict) -> None:
    with visit(browser, address) as page:
        page.locator("#puzzle").fill(text)
        assert page.locator("#verdict").inner_text().startswith(verdict)


def test_a_pasted_9x9_puzzle_is_decoded_by_the_model_for_it(browser, address) -> None:
    with visit(browser, address, "#tokens=8") as page:
        page.locator("#puzzle").fill(NINE_BY_NINE)
        page.wait_for_function("() => document.querySelectorAll('[data-cell]').length === 81")
        wait_for_decodes(page)
        assert page.locator(".panel h2, .panel h3").first.inner_text().startswith("llada-sudoku9x9")


def test_a_new_puzzle_is_drawn_and_decoded(browser, address) -> None:
    with visit(browser, address, f"#puzzle={SIX}") as page:
        drawn = set()
        for _ in range(3):
            page.locator("#draw").click()
            assert page.locator("#verdict").inner_text().startswith("A puzzle: there is exactly one solution")
            drawn.add(page.locator("#puzzle").input_value())
        assert len(drawn) == 3 and all(len(puzzle) == 36 for puzzle in drawn)
        wait_for_decodes(page)


def test_the_total_of_passes_stands_still_and_the_strip_tells_what_was_filled(browser, address) -> None:
    with visit(browser, address, f"#puzzle={SIX}", decodes=1) as page:
        page.evaluate(
            "() => { window.told = new Set(); const shown = document.querySelector('#passes');"
            "new MutationObserver(() => told.add(shown.textContent)).observe(shown, { childList: true }); }"
        )
        page.locator("#draw").click()
        wait_for_decodes(page)
        waiting, total = page.evaluate("[...told]")
        assert waiting == "0 / …" and total == page.locator("#passes").inner_text()

        # What is still to come is not in the strip; the first remark is about a cell.
        assert page.locator(".order li").count() == 0 and page.locator(".panel .hint").inner_text() == ""
        assert re.search(r"row \d, column \d", page.locator(".why li").first.inner_text(), re.IGNORECASE)
        for _ in range(6):
            page.locator("#forward").click()
            filled = int(re.search(r"(\d+) cells", page.locator(".passes").inner_text())[1])
            assert page.locator(".order li").count() == filled
            explained = set(re.findall(r"(?<=[:,] )[NHLB–✗](?= )", page.locator(".panel .hint").inner_text()))
            assert explained == set(page.locator(".order li small").all_inner_texts())


def test_a_board_that_is_pasted_shows_its_beginning(browser, address) -> None:
    with visit(browser, address, permissions=["clipboard-read", "clipboard-write"]) as page:
        rows = "\n".join(NINE_BY_NINE[start : start + 9] for start in range(0, 81, 9))
        page.evaluate("rows => navigator.clipboard.writeText(rows)", rows)
        page.locator("#puzzle").fill("")
        page.locator("#puzzle").press("Control+v")
        assert page.locator("#puzzle").input_value() == rows and page.locator("[data-cell]").count() == 81
        page.evaluate("() => new Promise(requestAnimationFrame)")
        assert page.locator("#puzzle").evaluate("text => text.scrollTop") == 0


def test_a_fragment_restores_what_was_sent(browser, address) -> None:
    fragment = f"#puzzle={SIX}&model={MODELS[1]}&strategy=probability&tokens=&threshold=-0.01&seed=4&step=2"
    with visit(browser, address, fragment, decodes=1) as page:
        expected = {"model": MODELS[1], "strategy": "probability", "tokens": "", "threshold": "-0.01", "seed": "4"}
        assert {key: page.locator(f"#{key}").input_value() for key in expected} == expected
        assert page.locator("#passes").inner_text().startswith("2 /")
        page.locator("#bound").fill("0.1")
        page.locator("#bound").press("Enter")
        assert "leave one out" in page.locator(".passes").inner_text()


def test_a_model_that_solves_its_puzzle_opens_the_page(browser, address) -> None:
    with visit(browser, address, "#step=999", decodes=1) as page:
        assert "Solved." in page.locator(".passes").inner_text()
        page.locator("#puzzle").fill(NINE_BY_NINE)
        page.locator("#puzzle").fill(SIX)
        assert page.locator("#model").input_value() == "llada-sudoku6x6-converged"


def test_an_ambiguous_board_shows_clashes_and_counts_valid_grids(browser, address) -> None:
    """The page's words and colors are held against the grids that it shows."""
    shown = """() => [...document.querySelectorAll('.panel')].map((panel) => ({
      grid: [...panel.querySelectorAll('[data-cell]')].map((cell) => Number(cell.textContent) || 0),
      wrong: [...panel.querySelectorAll('[data-cell].wrong')].map((cell) => Number(cell.dataset.cell)),
      said: panel.querySelector('.passes').textContent }))"""
    ways = {"puzzle": "." * 36, "model": MODELS[0], "other": MODELS[1], "tokens": 9, "step": 36, "strategy": "policy"}
    with visit(browser, address, f"#{urlencode(ways)}") as page:
        valid = [0, 0]
        for total in (1, 2, 3):
            wait_for_decodes(page, 2)
            told = f"Of {total} decodes" if total > 1 else "valid grid."
            ready = "told => [...document.querySelectorAll('.passes')].every((text) => text.textContent.includes(told))"
            page.wait_for_function(ready, arg=told)
            for at, panel in enumerate(page.evaluate(shown)):
                board = np.array(panel["grid"], dtype=np.uint8)
                clash = np.flatnonzero(conflicts(board[None])[0])
                good = bool(board.all()) and not len(clash)
                valid[at] += good
                blank = np.flatnonzero(board == 0)
                assert panel["wrong"] == sorted([*clash.tolist(), *blank.tolist()])
                told = f"{len(clash)} clash" + (f", {len(blank)} got no digit." if len(blank) else ".")
                assert told in panel["said"]
                assert (" A valid grid." if good else " No valid grid.") in panel["said"]
                assert total == 1 or f"Of {total} decodes {valid[at]} are valid." in panel["said"]
            page.locator("#another").click()
        assert page.locator("#strategy").input_value() == "policy" and page.locator("#seed").input_value() == "3"


@pytest.mark.parametrize("check", ["rules", "solver"])
def test_what_a_check_refuses_is_struck_out_and_told(browser, address, check) -> None:
    shown = """() => [...document.querySelectorAll('[data-cell]')].map((cell) =>
      [cell.querySelector('s')?.textContent ?? null, cell.querySelector('.heat, s') ? 0 : Number(cell.textContent),
       cell.getAttribute('aria-label').includes('refused')])"""
    ways = {"puzzle": "." * 36, "model": MODELS[1], "tokens": "", "check": check, "step": 1}
    with visit(browser, address, f"#{urlencode(ways)}", decodes=1) as page:
        struck, digits, said = zip(*page.evaluate(shown), strict=True)
        assert said == tuple(one is not None for one in struck) == tuple(digit == 0 for digit in digits)
        caption, board = page.locator(".passes").inner_text(), np.array(digits, dtype=np.uint8)
        assert f" checks, {sum(said)} cells refused." in caption
        for cell in (at for at, one in enumerate(struck) if one not in (None, "?")):
            tried = board.copy()
            tried[cell] = int(struck[cell])
            assert conflicts(tried[None])[0, cell] if check == "rules" else not count_solutions(tried)

        # At the end the grid is valid or, by the rules alone, at a dead end.
        page.locator("#step").evaluate("step => { step.value = step.max; step.dispatchEvent(new Event('input')); }")
        full = all(digit for _, digit, _ in page.evaluate(shown))
        assert full or check == "rules"
        end = " A valid grid." if full else " A dead end: the check refuses every digit in row"
        assert end in page.locator(".passes").inner_text()


def test_another_decode_is_shown_to_its_end(browser, address) -> None:
    """At one token a step there are more passes than cells, since the tokens behind the grid are decoded too."""
    ways = {"puzzle": "." * 36, "model": MODELS[0], "other": MODELS[1], "strategy": "policy"}
    with visit(browser, address, f"#{urlencode(ways)}") as page:
        page.locator("#another").click()
        wait_for_decodes(page, 2)
        now, steps = page.locator("#passes").inner_text().split(" / ")
        assert now == steps and int(steps) > 36
        assert all("alid grid." in said for said in page.locator(".passes").all_inner_texts())


def test_a_link_opens_a_blank_board_filled_in_four_passes_by_two_models(browser, address) -> None:
    with visit(browser, address) as page:
        page.locator("#comparison a").click()
        wait_for_decodes(page, 2)
        assert page.locator("#ignored").inner_text() == ""
        titles = [text.split(",")[0] for text in page.locator(".panel h2").all_inner_texts()]
        assert titles == ["llada-sudoku6x6-converged-sft", "llada-sudoku6x6-converged-judged"]
        assert all(text.startswith("4 of 4 forward passes") for text in page.locator(".passes").all_inner_texts())


WRONG = {
    "puzzle": ("31.52", "5 cells do not make a board; 16, 36 or 81 do"),
    "model": ("gpt", "it must be one of llada-sudoku6x6"),
    "other": (NINE, "it solves 9×9, and the board is 6×6"),
    "strategy": ("luck", "it must be one of margin"),
    "tokens": ("-3", "it must be 1 or more"),
    "threshold": ("high", "it must be a number"),
    "bound": ("-1", "it must be 0 nats or more"),
    "check": ("luck", "it must be one of none, rules, solver"),
    "seed": ("x", "it must be a whole number"),
    "step": ("two", "it must be a whole number"),
    "tokns": ("4", "there is no such setting"),
}
"""Of each field, and of one that is none, a value that cannot be, and what is said of it."""


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_field_of_an_address_is_told_and_the_others_are_kept(browser, address, wrong) -> None:
    right = {"puzzle": SIX, "model": "llada-sudoku6x6-sft", "other": MODELS[0], "strategy": "probability"}
    right |= {"tokens": "2", "threshold": "-0.5", "bound": "", "check": "rules", "seed": "4", "step": "1"}
    text, why = WRONG[wrong]
    with visit(browser, address, f"#{urlencode({**right, wrong: text})}") as page:
        said = page.locator("#ignored li").all_inner_texts()
        assert len(said) == 1 and said[0].startswith(f"{wrong}={text}: {why}")
        for field in right.keys() - {wrong, "step"}:
            assert page.locator(f"#{field}").input_value() == right[field]
        page.locator("#strategy").select_option("margin")
        assert page.locator("#ignored").inner_text() == ""


def test_an_address_without_a_fault_says_nothing_and_a_model_brings_its_board(browser, address) -> None:
    with visit(browser, address, f"#model={NINE}&tokens=8") as page:
        assert page.locator("#ignored").inner_text() == "" and page.locator("[data-cell]").count() == 81
        assert page.locator("#model").input_value() == NINE
    with visit(browser, address, f"#puzzle={FOUR}&model={NINE}") as page:
        assert "it solves 9×9, and the board is 4×4" in page.locator("#ignored").inner_text()
        assert page.locator("#model").input_value() == "" and page.locator("[data-cell]").count() == 16


def test_beside_a_model_stand_others_of_its_size_alone(browser, address) -> None:
    def offered(page: Any) -> list[str]:
        return page.locator("#other option").all_inner_texts()

    with visit(browser, address, f"#puzzle={SIX}&model={MODELS[0]}&other={MODELS[1]}") as page:
        assert offered(page)[0] == "none" and MODELS[1] in offered(page)
        assert not {MODELS[0], NINE} & set(offered(page))
        page.locator("#model").select_option(MODELS[1])
        assert page.locator("#other").input_value() == "" and page.locator(".panel").count() == 1
        page.locator("#other").select_option(MODELS[0])
        page.locator("#model").select_option(NINE)
        assert offered(page) == ["none, no other for 9×9"] and page.locator("[data-cell]").count() == 81


@pytest.mark.parametrize("fragment", ["", f"#puzzle={NINE_BY_NINE}", f"#puzzle={SIX}&other={MODELS[0]}&step=3"])
def test_the_board_is_on_the_first_screen_of_a_phone(browser, address, fragment) -> None:
    with visit(browser, address, fragment, viewport={"width": 390, "height": 844}, is_mobile=True) as page:
        for part in ("#play", ".board"):
            box = page.locator(part).first.bounding_box()
            assert box["y"] >= 0 and box["y"] + box["height"] <= 844, part
        menus = [menu.bounding_box() for menu in page.locator("select").all()]
        assert len({(box["x"], box["width"]) for box in menus}) == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_and_nothing_is_wider_than_a_phone(browser, address, scheme) -> None:
    phone = {"viewport": {"width": 390, "height": 844}, "color_scheme": scheme}
    with visit(browser, address, f"#puzzle={SIX}&other={MODELS[1]}&step=6", decodes=2, **phone) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        for name, ratio in page.evaluate(CONTRASTS).items():
            assert ratio >= 4.5, f"{name} has a contrast of {ratio:.2f}; WCAG AA asks for 4.5"
        labels = page.evaluate(
            "[...document.querySelectorAll('button, input, select, textarea')].filter((e) =>"
            " !e.labels?.length && !e.getAttribute('aria-label') && !e.innerText.trim()).length"
        )
        assert labels == 0


CONTRASTS = """() => {
  const rgb = (color) => {
    const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d");
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const luminance = (color) => rgb(color).map((value) => value / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const probe = document.body.appendChild(document.createElement("span"));
  const value = (name) => { probe.style.color = `var(--${name})`; return getComputedStyle(probe).color; };
  const pairs = [["text", "page"], ["text", "given"], ["text", "definite"], ["text", "wrong"], ["text", "warm"],
    ["quiet", "page"], ["followed", "page"], ["refused", "page"], ["refused", "definite"]];
  return Object.fromEntries(pairs.map(([front, back]) => {
    const [a, b] = [luminance(value(front)), luminance(value(back))].sort((x, y) => y - x);
    return [`${front} on ${back}`, (a + 0.05) / (b + 0.05)];
  }));
}"""
"""WCAG 2's contrast of each pair of colours that stand on each other."""
