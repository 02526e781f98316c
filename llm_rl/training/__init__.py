"""What every trainer of both families shares: arguments of a run, checkpoints that continue it, processes.

The names here are loaded when they are first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llm_rl.training.arguments import RunArguments as RunArguments
    from llm_rl.training.budget import UNLIMITED_STEPS as UNLIMITED_STEPS
    from llm_rl.training.budget import Budget as Budget
    from llm_rl.training.budget import BudgetCallback as BudgetCallback
    from llm_rl.training.budget import rows_after as rows_after
    from llm_rl.training.budget import train_to_budget as train_to_budget
    from llm_rl.training.budget import trapezoid as trapezoid
    from llm_rl.training.callbacks import MetricsWriter as MetricsWriter
    from llm_rl.training.callbacks import write_json_lines as write_json_lines
    from llm_rl.training.checkpoint import CheckpointError as CheckpointError
    from llm_rl.training.command_line import USER_ERRORS as USER_ERRORS
    from llm_rl.training.command_line import fail as fail
    from llm_rl.training.command_line import need_file as need_file
    from llm_rl.training.command_line import need_model as need_model
    from llm_rl.training.command_line import need_reports as need_reports
    from llm_rl.training.command_line import need_writable as need_writable
    from llm_rl.training.command_line import parse as parse
    from llm_rl.training.command_line import user_errors as user_errors
    from llm_rl.training.logs import read_json_lines as read_json_lines
    from llm_rl.training.lora import add_lora as add_lora
    from llm_rl.training.output_folder import LAST as LAST
    from llm_rl.training.output_folder import RECORD as RECORD
    from llm_rl.training.output_folder import RunFolder as RunFolder
    from llm_rl.training.quiet import quiet_libraries as quiet_libraries
    from llm_rl.training.reports import load_pandas as load_pandas
    from llm_rl.training.reports import load_pyplot as load_pyplot
    from llm_rl.training.storage import load_record as load_record
    from llm_rl.training.storage import save_arrays as save_arrays
    from llm_rl.training.storage import save_figure as save_figure
    from llm_rl.training.storage import save_record as save_record
    from llm_rl.training.storage import whole_folder as whole_folder
    from llm_rl.training.storage import write_text_whole as write_text_whole

_HOMES = {
    "Budget": "llm_rl.training.budget",
    "BudgetCallback": "llm_rl.training.budget",
    "CheckpointError": "llm_rl.training.checkpoint",
    "LAST": "llm_rl.training.output_folder",
    "MetricsWriter": "llm_rl.training.callbacks",
    "RECORD": "llm_rl.training.output_folder",
    "RunArguments": "llm_rl.training.arguments",
    "RunFolder": "llm_rl.training.output_folder",
    "UNLIMITED_STEPS": "llm_rl.training.budget",
    "USER_ERRORS": "llm_rl.training.command_line",
    "add_lora": "llm_rl.training.lora",
    "fail": "llm_rl.training.command_line",
    "load_pandas": "llm_rl.training.reports",
    "load_pyplot": "llm_rl.training.reports",
    "load_record": "llm_rl.training.storage",
    "need_file": "llm_rl.training.command_line",
    "need_model": "llm_rl.training.command_line",
    "need_reports": "llm_rl.training.command_line",
    "need_writable": "llm_rl.training.command_line",
    "parse": "llm_rl.training.command_line",
    "quiet_libraries": "llm_rl.training.quiet",
    "read_json_lines": "llm_rl.training.logs",
    "rows_after": "llm_rl.training.budget",
    "save_arrays": "llm_rl.training.storage",
    "save_figure": "llm_rl.training.storage",
    "save_record": "llm_rl.training.storage",
    "train_to_budget": "llm_rl.training.budget",
    "trapezoid": "llm_rl.training.budget",
    "user_errors": "llm_rl.training.command_line",
    "whole_folder": "llm_rl.training.storage",
    "write_json_lines": "llm_rl.training.callbacks",
    "write_text_whole": "llm_rl.training.storage",
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
