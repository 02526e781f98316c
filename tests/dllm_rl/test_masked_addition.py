"""The example of a task of one's own."""

import runpy
from pathlib import Path

import torch

from tests.helpers.warm_process import finished

SCRIPT = Path(__file__).parents[2] / "examples" / "masked_addition.py"


def test_a_digit_is_definite_when_the_carry_into_its_column_is_known() -> None:
    example = runpy.run_path(str(SCRIPT))
    mask = example["MASK"]
    batch = example["AdditionTask"](3).batch([(123, 876), (150, 255), (191, 802)])  # 0999, 0405, 0993
    assert batch.answers.tolist() == [[0, 9, 9, 9], [0, 4, 0, 5], [0, 9, 9, 3]]
    number = torch.arange(3)
    # Nines pass carries on from the right; any other column carries or does not by itself.
    assert batch.definite(batch.responses, number).int().tolist() == [[0, 0, 0, 1], [1, 1, 1, 1], [0, 0, 1, 1]]
    written = torch.tensor([[mask, mask, 9, mask], [0, 4, mask, 5], [mask, 9, mask, mask]])
    assert batch.definite(written, number).int().tolist() == [[0, 1, 0, 1], [0, 0, 1, 0], [1, 0, 1, 1]]


def test_the_example_runs() -> None:
    done = finished(SCRIPT, ["--width", 2, "--sft_steps", 2, "--rl_steps", 2], env=None)
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == ["after SFT", "after the objective"]
