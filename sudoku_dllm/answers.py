"""How long the answer of a model is."""

from typing import Any

from sudoku_env.prompts.tokens import PreFilled, pre_fill

TAIL = 3
"""Response tokens behind the grid that the shipped models with a prompt have."""


def shortest_answer(tokenizer: Any, prompt: str, size: int, tail: int = TAIL, *, answers: str = "one") -> PreFilled:
    """The pre-filled prompt with `tail` tokens behind the grid, none in layout "bare"; `answers` as in `pre_fill`.

    Raises:
        SudokuError: `pre_fill` refuses the prompt or the tokenizer.
    """
    longest = pre_fill(prompt, tokenizer, 4 * size**2, answers=answers)
    behind = longest.map_range[1] + (0 if longest.layout.name == "bare" else tail)
    return pre_fill(prompt, tokenizer, behind, answers=answers)
