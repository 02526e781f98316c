"""What `sudoku-dllm train --help` prints, kept in help.txt, since the arguments' classes take seconds to import.

python -m sudoku_dllm.trials.help

writes it anew for every setting after a change of the arguments.
"""

from importlib import import_module
from pathlib import Path
from typing import Any

from llm_rl.training.command_line import help_text
from sudoku_dllm.__main__ import SETTINGS, help_of
from sudoku_dllm.trials.arguments import REST

PACKAGE = Path(__file__).parents[1]


def current_help(setting: str) -> str:
    """The text of a setting's arguments as they are, the same on every machine."""
    command = import_module(SETTINGS[setting])
    classes = (command.ScriptArguments, command.RecipeArguments)
    return help_text(*classes, description=command.__doc__, prog="sudoku-dllm train", rest=REST, shown=_shown)


def _shown(option: str, default: Any) -> Any:
    if option == "use_cpu":
        return "True where there is none"
    if isinstance(default, list):
        return [_shown(option, one) for one in default]
    return default.replace(str(PACKAGE), PACKAGE.name) if isinstance(default, str) else default


if __name__ == "__main__":
    for setting in SETTINGS:
        help_of(setting).write_text(current_help(setting), encoding="utf-8")
