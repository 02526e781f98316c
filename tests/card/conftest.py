from collections.abc import Iterator
from contextlib import suppress

import pytest
import torch

from tests.card.pretence import CANNOT, forget_what_is_there, load, pretended_card

if not CANNOT:
    # When tests are collected, before one of another folder goes backward. What fails here fails in `card` too.
    with suppress(RuntimeError):
        load()


@pytest.fixture
def card() -> Iterator[None]:
    """One CUDA device is there while the test runs: the machine's own, or one that is pretended."""
    if torch.version.cuda and torch.cuda.is_available():
        forget_what_is_there()
        torch.use_deterministic_algorithms(True, warn_only=True)
        yield
        torch.use_deterministic_algorithms(False)
        forget_what_is_there()
    elif CANNOT:
        pytest.skip(f"a pretended card {CANNOT}")
    else:
        with pretended_card():
            yield
