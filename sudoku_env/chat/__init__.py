"""Sudoku for causal language models: rows of chat data, derivations, questions and rewards.

The names here are loaded when they are first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sudoku_env.chat.expert import expert_rows as expert_rows
    from sudoku_env.chat.moves import PARAMETERS as PARAMETERS
    from sudoku_env.chat.moves import Move as Move
    from sudoku_env.chat.moves import read_move as read_move
    from sudoku_env.chat.questions import question_rows as question_rows
    from sudoku_env.chat.rewards import cells_reward as cells_reward
    from sudoku_env.chat.rewards import completion_text as completion_text
    from sudoku_env.chat.rewards import exact_reward as exact_reward
    from sudoku_env.chat.rewards import givens_reward as givens_reward
    from sudoku_env.chat.rewards import reasoning_reward as reasoning_reward
    from sudoku_env.chat.rows import REASONING_TAGS as REASONING_TAGS
    from sudoku_env.chat.rows import RESPONSE_TAGS as RESPONSE_TAGS
    from sudoku_env.chat.rows import ChatRow as ChatRow
    from sudoku_env.chat.rows import Form as Form
    from sudoku_env.chat.rows import chat_prompt as chat_prompt
    from sudoku_env.chat.rows import chat_rows as chat_rows

_HOMES = {
    "ChatRow": "sudoku_env.chat.rows",
    "Form": "sudoku_env.chat.rows",
    "Move": "sudoku_env.chat.moves",
    "PARAMETERS": "sudoku_env.chat.moves",
    "REASONING_TAGS": "sudoku_env.chat.rows",
    "RESPONSE_TAGS": "sudoku_env.chat.rows",
    "cells_reward": "sudoku_env.chat.rewards",
    "chat_prompt": "sudoku_env.chat.rows",
    "chat_rows": "sudoku_env.chat.rows",
    "completion_text": "sudoku_env.chat.rewards",
    "exact_reward": "sudoku_env.chat.rewards",
    "expert_rows": "sudoku_env.chat.expert",
    "givens_reward": "sudoku_env.chat.rewards",
    "question_rows": "sudoku_env.chat.questions",
    "read_move": "sudoku_env.chat.moves",
    "reasoning_reward": "sudoku_env.chat.rewards",
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    """The public name, from the module that it lives in."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = getattr(import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    """What the package offers."""
    return sorted({*globals(), *_HOMES})
