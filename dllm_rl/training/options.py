"""One field of a class of arguments, with what `--help` says of it."""

from dataclasses import field
from typing import Any


def option(default: Any, help: str) -> Any:
    """A field with its default, which is copied where it is a list, and its help, as `HfArgumentParser` reads it."""
    metadata = {"help": help}
    if isinstance(default, list):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)
