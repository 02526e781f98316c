"""The picture of README: one board filled by one model, every cell offered at each pass, without a check and with one.

python -m scripts.several_answers.picture docs/images/passes.svg
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from dllm_rl.decoding import Decode, Decoding, decode
from dllm_rl.models.shipped import load
from dllm_rl.sudoku import PuzzleBatch, SudokuTask
from dllm_rl.task import UnmaskBatch
from llm_rl.training.storage import write_text_whole
from sudoku_dllm.answers import shortest_answer
from sudoku_env.board import geometry, parse_board
from sudoku_env.envs.rendering import trace_views
from sudoku_env.prompts.text import build_prompt

MODEL, BOARD, PASSES = "llada-sudoku6x6-converged", "..............1.....................", 3
CELL, GAP, TOP = 26, 34, 30
STYLE = (
    "text{font:16px sans-serif;text-anchor:middle}.n{fill:#1f2933}.o{fill:#7b8794}.w{fill:#c81e2b}.l{font-size:14px}"
)
Struck = dict[tuple[int, int], int]
"""Pass and cell → the digit that was refused there."""


def main() -> None:
    """Decode both ways and draw them, one below the other."""
    model, tokenizer = load(MODEL)
    puzzle = shortest_answer(tokenizer, build_prompt(parse_board(BOARD), "compact"), 6, answers="any")
    problems = SudokuTask(tokenizer.pad_token_id, tokenizer.eos_token_id, "prefill").batch([puzzle])
    places, digits = list(problems.layout.cell_positions), list(problems.layout.digit_ids)
    tried: list[tuple[list[int], bool]] = []

    def watched(_: UnmaskBatch, states: Tensor, of: Tensor) -> Tensor:
        holds = problems.completable(states, of)
        tried.extend(zip(states[:, places].tolist(), holds.tolist(), strict=True))
        return holds

    rows = []
    ways = {
        "twelve cells a pass, without a check": Decoding("margin", tokens_per_step=36 // PASSES),
        "all cells offered at each pass; a solver refuses what cannot be completed": Decoding(
            "margin", tokens_per_step=36, guard=watched
        ),
    }
    for title, how in ways.items():
        record = decode(model, problems, how)
        rows.append(_row(title, problems, record, _struck(tried, digits, problems)))
    width, height = PASSES * (6 * CELL + GAP) + GAP, 6 * CELL + TOP + GAP
    body = "".join(f'<g transform="translate(0 {at * height})">{row}</g>' for at, row in enumerate(rows))
    size = f'width="{width}" height="{len(rows) * height}" viewBox="0 0 {width} {len(rows) * height}"'
    paper = '<rect width="100%" height="100%" fill="#fff"/>'
    text = f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{STYLE}</style>{paper}{body}</svg>\n'
    write_text_whole(Path(sys.argv[1]), text)


def _struck(tried: list[tuple[list[int], bool]], digits: Sequence[int], problems: PuzzleBatch) -> Struck:
    """What was refused, of all that a check was asked in its order: a pass offers every open cell, the surest first."""
    mask, cells = problems.mask_id, problems.responses[0, list(problems.layout.cell_positions)].tolist()
    struck, number, seen, offered = Struck(), 1, set[int](), cells.count(mask)
    for state, holds in tried:
        if len(seen) == offered:
            number, seen, offered = number + 1, set(), cells.count(mask)
        cell = next(at for at in range(36) if state[at] != cells[at])
        seen.add(cell)
        if holds:
            cells = state
        elif state[cell] in digits:
            struck[number, cell] = 1 + digits.index(state[cell])
    return struck


def _row(title: str, problems: PuzzleBatch, record: Decode, struck: Struck) -> str:
    """Boards after each pass, side by side."""
    views = trace_views(problems.boards(record.states_of(0)), None)
    parts = [f'<text class="n l" x="{GAP}" y="20" style="text-anchor:start">{title}</text>']
    for number in range(1, PASSES + 1):
        left = GAP + (number - 1) * (6 * CELL + GAP)
        if number >= len(views):
            break
        view, cells = views[number], []
        for cell in range(36):
            row, column = divmod(cell, 6)
            x, y = left + column * CELL + CELL / 2, TOP + row * CELL + CELL / 2 + 6
            digit, kind = int(view.board[cell]), "w" if view.wrong[cell] else "n"
            if view.givens[cell]:
                cells.append(f'<rect x="{x - 12:g}" y="{y - 18:g}" width="24" height="24" fill="#e9ecf1"/>')
            elif view.order[cell] < number and kind == "n":
                kind = "o"
            if digit > 0:
                cells.append(f'<text class="{kind}" x="{x:g}" y="{y:g}">{digit}</text>')
            elif (number, cell) in struck:
                cells.append(f'<text class="w" x="{x:g}" y="{y:g}">{struck[number, cell]}</text>')
                cells.append(
                    f'<path d="M{x - 8:g} {y + 1:g}L{x + 8:g} {y - 13:g}" stroke="#c81e2b" stroke-width="1.5"/>'
                )
        parts.append("".join(cells) + _lines(left))
        done = not (view.wrong.any() or (view.board <= 0).any())
        told = f"pass {number}{': right' * done}"
        parts.append(f'<text class="o l" x="{left + 3 * CELL:g}" y="{TOP + 6 * CELL + 20}">{told}</text>')
    return "".join(parts)


def _lines(left: int) -> str:
    shape, paths = geometry(6), []
    for at in range(7):
        for vertical, box in ((True, shape.box_columns), (False, shape.box_rows)):
            width = 1.6 if at % box == 0 else 0.5
            ends = f"M{left + at * CELL} {TOP}v{6 * CELL}" if vertical else f"M{left} {TOP + at * CELL}h{6 * CELL}"
            paths.append(f'<path d="{ends}" stroke="#7b8794" stroke-width="{width}"/>')
    return "".join(paths)


if __name__ == "__main__":
    main()
