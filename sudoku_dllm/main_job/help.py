"""What `sudoku-dllm train --help` prints, kept in help.txt, since the arguments' classes take seconds to import.

python -m sudoku_dllm.main_job.help

writes it anew after a change of the arguments.
"""

from pathlib import Path
from typing import Any

from llm_rl.training.command_line import help_text
from sudoku_dllm.main_job import command
from sudoku_dllm.main_job.arguments import DATA, RecipeArguments, ScriptArguments

HELP = Path(__file__).with_name("help.txt")


def current_help() -> str:
    """The text of the arguments as they are, the same on every machine."""
    return help_text(
        ScriptArguments, RecipeArguments, description=command.__doc__, prog="sudoku-dllm train", shown=_shown
    )


def _shown(option: str, default: Any) -> Any:
    if option == "use_cpu":
        return "True where there is none"
    if isinstance(default, list):
        return [_shown(option, one) for one in default]
    return default.replace(str(DATA), "sudoku_dllm/data") if isinstance(default, str) else default


if __name__ == "__main__":
    HELP.write_text(current_help(), encoding="utf-8")
