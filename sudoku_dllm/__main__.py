"""The command `sudoku-dllm`, or `python -m sudoku_dllm`."""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import NoReturn

COMMANDS = {
    "solve": ("sudoku_dllm.puzzles", "the solution of puzzles, or that there is none or no single one"),
    "generate": ("sudoku_dllm.puzzles", "new puzzles with one solution, by size, clues and difficulty"),
    "rate": ("sudoku_dllm.puzzles", "the hardest rule that a solution by logic needs"),
    "explain": ("sudoku_dllm.puzzles", "a solution by logic, a sentence a step"),
    "compile": (
        "sudoku_dllm.compiling",
        "what the engine computes with, once after installing, so that no first call waits",
    ),
    "check": ("sudoku_dllm.machine", "the machine, its card and the packages, to put into a report"),
    "decode": ("sudoku_dllm.decoding", "watch a masked-diffusion model fill a puzzle"),
    "replay": ("sudoku_dllm.replaying", "play the decodes that a run has kept, in the terminal"),
    "train": (
        "sudoku_dllm.several.command",
        "a small LLaDA taught to fill many cells a pass, in several ways at equal cost",
    ),
    "demo": ("sudoku_dllm.demo.command", "a page where models solve Sudoku in the browser"),
}
"""Module of each command, and what it does. A module has `add_NAME(parser)` and `NAME(args)` for its commands; that of
`train` has a `main()`, which reads the words by itself."""
SETTINGS = {"several": COMMANDS["train"][0], "labels": "sudoku_dllm.labels.command"}
"""Module of each comparison that `train --setting` names, the one without that option first."""


class Parser(argparse.ArgumentParser):
    """Words that are wrong are a `ValueError`, so that they are told as all other input is: in one line."""

    def error(self, message: str) -> NoReturn:
        """Raise it."""
        raise ValueError(f"{message.removeprefix('argument ')}; see {self.prog} --help")


def parser_for(command: str | None) -> argparse.ArgumentParser:
    """The parser, with the options of one command, so that no other one's module is imported."""
    parser = Parser(
        prog="sudoku-dllm",
        description="Sudoku by logic and by diffusion language models.",
        epilog="`sudoku-dllm COMMAND --help` shows the options of a command.",
    )
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND", required=True)
    for name, (module, what) in COMMANDS.items():
        one = commands.add_parser(name, help=what, description=f"{what[0].upper()}{what[1:]}.")
        if name == command:
            getattr(import_module(module), f"add_{name}")(one)
    return parser


def help_of(setting: str) -> Path:
    """Where the text of a setting's --help lies, which `sudoku_dllm.trials.help` writes."""
    return Path(__file__).parent.joinpath(*SETTINGS[setting].split(".")[1:-1], "help.txt")


def train(words: Sequence[str], program: str = "sudoku-dllm train") -> int:
    """Run the comparison that `--setting` chooses, whose arguments become the process's own words behind the program.

    The text of --help is kept in a file: the arguments' classes take seconds to import.
    """
    chooser = Parser(prog=Path(program).name, add_help=False, allow_abbrev=False)
    chooser.add_argument("--setting", choices=SETTINGS, default=next(iter(SETTINGS)))
    try:
        chosen, left = chooser.parse_known_args(words)
    except ValueError as error:
        print(f"{chooser.prog}: {error}", file=sys.stderr)
        return 2
    if {"-h", "--help"} & set(left):
        print(help_of(chosen.setting).read_text(encoding="utf-8"), end="")
        raise SystemExit(0)
    job = import_module(SETTINGS[chosen.setting])
    kept = sys.argv
    named = f" --setting {chosen.setting}" if len(left) < len(words) else ""
    sys.argv = [program + named, *left]
    try:
        job.main()
    finally:
        sys.argv = kept
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, by default of the process's own words, and return the exit status.

    It is 0, 1 where a puzzle has no answer of the kind asked for, 2 where the input is wrong, 130 after Ctrl-C.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    command = next((word for word in words if word in COMMANDS), None)
    try:
        if words[:1] == ["train"]:
            return train(words[1:])
        return run(words, command)
    except KeyboardInterrupt:
        print(f"sudoku-dllm{f' {command}' if command else ''}: interrupted", file=sys.stderr)
        # Where text that was being executed (a dataclass's, on import) is interrupted, Python ends `-m` by the signal
        # although it was caught; executing another text makes it forget that.
        exec("")  # nosec B102
        return 130
    except ModuleNotFoundError as error:
        name = str(error.name).split(".")[0]
        remedy = "install it with pip install 'sudoku-dllm[train]'"
        print(f"sudoku-dllm {command} needs {name}; {remedy}", file=sys.stderr)
        return 2


def run(words: Sequence[str], command: str | None) -> int:
    """Run a command whose words are read here; what a user's words and files decide is told in one line."""
    try:
        args = parser_for(command).parse_args(words)
        return int(getattr(import_module(COMMANDS[args.command][0]), args.command)(args))
    except OSError as error:
        named = error.filename is not None and error.strerror is not None
        told = f"{error.filename}: {error.strerror}" if named else str(error)
    except (ValueError, FloatingPointError, MemoryError) as error:
        told = str(error) or type(error).__name__
    print(f"sudoku-dllm: {' '.join(told.split())}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    raise SystemExit(main())
