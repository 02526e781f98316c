"""The picture of README strikes out what a check refused."""

from types import SimpleNamespace

import torch

from scripts.several_answers.picture import _struck


def test_what_was_refused_belongs_to_the_pass_that_offered_it() -> None:
    """Three cells, 0 the mask, tokens 7 and 8 digits: the surest cell is refused once and then takes an 8."""
    problems = SimpleNamespace(
        mask_id=0, responses=torch.zeros(1, 3, dtype=torch.long), layout=SimpleNamespace(cell_positions=(0, 1, 2))
    )
    first = [([0, 7, 0], False), ([0, 8, 0], True), ([8, 8, 0], False), ([0, 8, 9], False)]
    second = [([0, 8, 7], True), ([7, 8, 7], True)]
    assert _struck([*first, *second], [7, 8], problems) == {(1, 1): 1, (1, 0): 2}
