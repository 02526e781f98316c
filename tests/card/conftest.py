from collections.abc import Iterator

import pytest

from tests.card.pretence import CANNOT, pretended_card


@pytest.fixture
def card() -> Iterator[None]:
    """One CUDA device is there while the test runs."""
    if CANNOT:
        pytest.skip(f"a pretended card {CANNOT}")
    with pretended_card():
        yield
