"""Arguments of a script from dataclasses, a YAML file first and the command line over it, and how a user's error ends.

Every script parses with `parse` and nothing else: options are not abbreviated, so that a word that is misspelt never
means another one. What the user can mend ends the program with one sentence on stderr and exit status 2.
"""

import os
import re
import sys
from argparse import (
    SUPPRESS,
    Action,
    ArgumentDefaultsHelpFormatter,
    ArgumentParser,
    ArgumentTypeError,
    RawDescriptionHelpFormatter,
)
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from inspect import get_annotations
from pathlib import Path
from typing import Any, NoReturn, cast

import yaml
from transformers import HfArgumentParser

from llm_rl.training.errors import CheckpointError
from llm_rl.training.reports import missing_library

USER_ERROR, INTERRUPTED = 2, 130
"""Exit statuses; the second one is what a shell gives for Ctrl-C."""
USER_ERRORS = (OSError, CheckpointError)
"""What files and checkpoints of a user's raise."""
MODEL_FILE = "config.json"
HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
"""A model's name on the hub, owner/model."""


def fail(message: str, status: int = USER_ERROR) -> NoReturn:
    """End the program with one line on stderr."""
    print(f"{Path(sys.argv[0]).name}: {' '.join(message.split())}", file=sys.stderr)
    exec("")  # nosec B102 # `python -m` ends by this status, as in sudoku_dllm.__main__
    raise SystemExit(status)


@contextmanager
def user_errors(*kinds: type[Exception]) -> Iterator[None]:
    """Turn errors of these kinds inside the block, by default `USER_ERRORS`, into the end of the program.

    Put it around what a user's words, files and folders decide; other errors are the program's and keep their
    traceback.
    """
    expected = kinds or USER_ERRORS
    try:
        yield
    except expected as error:
        fail(str(error) or type(error).__name__)


def need_file(option: str, path: str | Path) -> None:
    """End the program unless there is such a file."""
    if not Path(path).is_file():
        fail(f"--{option}: there is no file {path}")


def need_model(option: str, path: str | Path) -> None:
    """End the program unless this is the folder of a saved model, or may be a model's name on the hub."""
    if not Path(path).is_dir() and HUB_NAME.fullmatch(str(path)):
        return  # only loading it can tell
    if not Path(path).is_dir():
        fail(f"--{option}: there is no folder {path}, and a name on the hub is owner/model")
    if not (Path(path) / MODEL_FILE).is_file():
        fail(f"--{option}: the folder {path} holds no model, {MODEL_FILE} is missing")


def need_writable(option: str, folder: str | Path) -> None:
    """End the program if this folder could not be made or written to."""
    place = Path(folder).absolute()
    while not place.exists():
        place = place.parent
    if not place.is_dir():
        fail(f"--{option}: {folder} cannot be a folder, {place} is a file")
    if not os.access(place, os.W_OK | os.X_OK):
        fail(f"--{option}: {place} cannot be written to; choose another folder")


def need_reports() -> None:
    """End the program unless the libraries of tables and pictures are installed, before it has any to make."""
    if missing := missing_library():
        fail(missing)


def on_command_line(option: str) -> bool:
    """Whether the command line itself, not a recipe, gives an option; there are no abbreviations of it."""
    words = (word.partition("=")[0] for word in sys.argv[1:] if word.startswith("--"))
    return option in [word.removeprefix("--").replace("-", "_") for word in words]


class _HelpFormatter(ArgumentDefaultsHelpFormatter, RawDescriptionHelpFormatter):
    """Defaults behind each option, the description as it is written, one spelling of each option."""

    def _format_action_invocation(self, action: Action) -> str:
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        return f"{action.option_strings[0]} {self._format_args(action, action.dest.upper())}"


class _HelpAll(Action):
    """Prints every option, those of transformers too, and ends the program."""

    def __call__(self, parser: ArgumentParser, *_: Any) -> None:
        print(cast(_Parser, parser).format_help(everything=True), end="")
        parser.exit()


class _Parser(HfArgumentParser):
    """Options in full and, in --help, under the class that defines them; an error is one line."""

    rest: Sequence[str] = ("transformers",)

    def error(self, message: str) -> NoReturn:
        """End the program."""
        fail(message)

    def format_help(self, everything: bool = False) -> str:
        """What --help prints: all options, or all but those of the packages `rest`."""
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        shown = {action.dest: action for action in reversed(self._actions)}  # the first, not its --no_ form
        for kind in dict.fromkeys(base for one in self.dataclass_types for base in cast(type, one).__mro__):
            own = [name for name in shown if self._owner(name) is kind]
            if own and (everything or kind.__module__.partition(".")[0] not in self.rest):
                formatter.start_section(re.split(r"[.;]\s", f"{kind.__doc__ or kind.__name__}\n")[0])
                formatter.add_arguments([shown[name] for name in reversed(own)])
                formatter.end_section()
        formatter.start_section("help")
        formatter.add_arguments([shown["help"], shown["help_all"]])
        formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def _owner(self, name: str) -> type | None:
        """The most derived class that defines an option, its default or its help."""
        bases = (base for one in self.dataclass_types for base in cast(type, one).__mro__)
        return next((base for base in bases if name in get_annotations(base)), None)


def parse(
    *classes: Any,
    description: str | None = None,
    places: Sequence[str] = (),
    one_of: Sequence[str] = (),
    rest: Sequence[str] = ("transformers",),
) -> tuple[Any, ...]:
    """Instances of dataclasses from the command line, over those of a YAML file if the first word names one.

    Whatever is wrong with the words, the file or a value that a class refuses with a `ValueError` ends the program.
    Where a class keeps a set `told`, the options that were given, whatever their values, come to it.

    Args:
        classes: Dataclasses; all fields are options.
        description: What --help says first, the script's docstring.
        places: Options that the first words give, in this order and without a name, in place of a YAML file; the last
            one takes all that are left if it is a list.
        one_of: Options of which one alone has a say: the command line and the file give one of them at most, and where
            the command line gives one, the file's is left out.
        rest: Packages whose classes' options --help_all alone prints.
    """
    parser = _parser_of(classes, description, places, rest)
    words = _named(sys.argv[1:], places, parser) if places else sys.argv[1:]
    recipe = {}
    if not places and words and words[0].endswith((".yaml", ".yml")):
        recipe = _recipe(Path(words.pop(0)), parser)
    parser.set_defaults(**_without_rivals(recipe, one_of, parser))
    for word in words:
        name = word.partition("=")[0]
        if name.startswith("--") and name not in parser._option_string_actions and not set(name) & set(" \n"):
            parser.error(_unknown(name, parser._option_string_actions))
    if left := parser.parse_known_args(words)[1]:
        parser.error(f"{left[0]} is no option and belongs to none; see --help")
    try:
        found = parser.parse_args_into_dataclasses(words, look_for_args_file=False)
    except (ImportError, ValueError) as error:
        parser.error(str(error))
    for one in found:
        if hasattr(one, "told"):
            one.told |= {*recipe, *filter(on_command_line, vars(one))}
    return found


def help_text(
    *classes: Any, description: str | None, prog: str, rest: Sequence[str], shown: Callable[[str, Any], Any]
) -> str:
    """What --help prints after `parse` of these dataclasses, 80 columns wide, to be kept where importing them is slow.

    `shown` gives, from an option's name and default, the default that is printed, where it depends on the machine.
    """
    parser = _parser_of(classes, description, (), rest)
    parser.prog, parser.formatter_class = prog, partial(_HelpFormatter, width=78)  # argparse leaves two columns free
    for action in parser._actions:
        action.default = shown(action.dest, action.default)
    return parser.format_help()


def _parser_of(classes: Sequence[Any], description: str | None, places: Sequence[str], rest: Sequence[str]) -> _Parser:
    first = " ".join(places) if places else "[options.yaml]"
    parser = _Parser(
        classes,
        usage=f"%(prog)s {first} [--option value ...]",
        description=description,
        epilog="A YAML file may set any option; the command line wins. --no_x is --x false." if not places else None,
        allow_abbrev=False,
        formatter_class=_HelpFormatter,
    )
    parser.rest = rest
    parser.add_argument(
        "--help_all",
        action=_HelpAll,
        nargs=0,
        default=SUPPRESS,
        help="Show all options, those of the trainer too, and exit.",
    )
    return parser


def _without_rivals(recipe: dict[str, Any], one_of: Sequence[str], parser: HfArgumentParser) -> dict[str, Any]:
    """The recipe without the options that one of the command line takes the place of."""
    told = [name for name in one_of if on_command_line(name)]
    for given in (told, [name for name in one_of if recipe.get(name) is not None]):
        if len(given) > 1:
            parser.error(f"{' and '.join(f'--{name}' for name in given)} exclude each other; give one of them")
    return {name: value for name, value in recipe.items() if not told or name not in one_of}


def _unknown(name: str, known: Sequence[str] | Mapping[str, Any]) -> str:
    full = {"--lr": "--learning_rate", "lr": "learning_rate"}.get(name, name)
    nearest = get_close_matches(full, list(known), n=1)
    return f"{name} is unknown; " + (f"did you mean {nearest[0]}?" if nearest else "see --help")


def _named(words: Sequence[str], places: Sequence[str], parser: HfArgumentParser) -> list[str]:
    """The words with the names of the options that the first ones give."""
    count = next((index for index, word in enumerate(words) if word.startswith("-")), len(words))
    takes_rest = bool(parser._option_string_actions[f"--{places[-1]}"].nargs)
    if count > len(places) and not takes_rest:
        parser.error(f"{words[len(places)]} is one word too many; the first words are {', '.join(places)}")
    named = [part for place, word in zip(places, words[:count], strict=False) for part in (f"--{place}", word)]
    return [*named, *words[len(places) : count], *words[count:]]


def _recipe(path: Path, parser: HfArgumentParser) -> dict[str, Any]:
    """The options of a YAML file, each as the command line would read it."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        parser.error(f"the recipe {path} cannot be read: {error.strerror}")
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        parser.error(f"the recipe {path} is not YAML: {error}")
    content = {} if content is None else content
    if not isinstance(content, dict):
        parser.error(f"the recipe {path} must map options to values, one `option: value` a line")
    actions = {action.dest: action for action in reversed(parser._actions)}  # the first, not its --no_ form
    for key in content:
        if key not in actions or key in ("help", "help_all"):
            parser.error(
                f"the recipe {path}: {_unknown(str(key), [name for name in actions if not name.startswith('help')])}"
            )
    return {key: _value(path, actions[key], value, parser) for key, value in content.items()}


def _value(path: Path, action: Action, value: Any, parser: HfArgumentParser) -> Any:
    """A recipe's value, of the option's type; null and mappings are as they are."""
    wrong = f"the recipe {path}: {action.dest}: {value!r} is not what it takes; see --help"
    if isinstance(value, list):
        if action.nargs not in ("+", "*") and action.type in (int, float):
            parser.error(wrong)
        return [_value(path, action, one, parser) for one in value]
    if value is None or isinstance(value, dict) or not callable(action.type):
        return value
    try:
        found = action.type(str(value))
    except (ArgumentTypeError, TypeError, ValueError):
        parser.error(wrong)
    if action.choices is not None and found not in action.choices:
        parser.error(f"{wrong}, one of {', '.join(map(str, action.choices))}")
    return found
