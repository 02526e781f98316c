"""How long the answer of a model is."""

from typing import Any

from sudoku_env.prompts.tokens import PreFilled, pre_fill

TAIL = 3
"""Response tokens behind the grid that the shipped models with a prompt have."""


def shortest_answer(tokenizer: Any, prompt: str, size: int, tail: int = TAIL, *, answers: str = "one") -> PreFilled:
    """What `pre_fill` gives, with `tail` tokens behind the grid, none in layout "bare"."""
    longest = pre_fill(prompt, tokenizer, 4 * size**2, answers=answers)
    behind = longest.map_range[1] + (0 if longest.layout.name == "bare" else tail)
    return pre_fill(prompt, tokenizer, behind, answers=answers)
