"""What is refused: a call and what its error says, in a line."""

from collections.abc import Callable

import pytest


def refused(message: str, call: Callable[[], object], error: type[Exception] = ValueError) -> None:
    """Fails unless a call raises an error whose text holds `message`, a pattern."""
    with pytest.raises(error, match=message):
        call()
