"""The objects that environments are made of, and the keywords that stand for their arguments."""

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

from sudoku_env.errors import SudokuError


def parts_of(shortcuts: Mapping[str, Any], **parts: tuple[Callable[..., Any], Any]) -> tuple[Any, ...]:
    """Each part of an environment as it was given, or made of those keywords that are its arguments.

    Args:
        shortcuts: Keywords of an environment.
        parts: For each part its class, and what was given for it: one of these, or a mapping of its arguments, as a
            spec that went through JSON has it. None: the keywords make it.

    Raises:
        SudokuError: A part is something else, or was given together with keywords of its own.
        TypeError: A keyword is no argument of any part.
    """
    taken = {name: signature(kind).parameters for name, (kind, _) in parts.items()}
    if unknown := set(shortcuts).difference(*taken.values()):
        known = "; ".join(f"{name} takes {', '.join(arguments)}" for name, arguments in taken.items())
        raise TypeError(f"unexpected keyword argument {min(unknown)!r}; {known}")
    return tuple(
        _part(name, *part, {key: value for key, value in shortcuts.items() if key in taken[name]})
        for name, part in parts.items()
    )


def _part(name: str, kind: Any, given: Any, own: dict[str, Any]) -> Any:
    if given is None:
        return kind(**own)
    if own:
        raise SudokuError(f"{name} was given, and so was {', '.join(own)}, which belongs in it; pass one or the other")
    if isinstance(given, Mapping):
        return kind(**given)
    if not isinstance(given, kind):
        raise SudokuError(
            f"{name} must be {kind.__name__} or a mapping of its arguments, got {type(given).__name__}; these are "
            f"keywords of the environment too: {', '.join(signature(kind).parameters)}"
        )
    return given
