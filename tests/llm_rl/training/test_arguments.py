"""What every run's arguments refuse, before anything is loaded."""

from pathlib import Path

import pytest

from dllm_rl import SftArguments, UnmaskArguments
from llm_rl import DPOArguments, GRPOArguments, PPOArguments, RAROArguments, VAPORArguments
from llm_rl.core._checks import check_rate
from llm_rl.training.arguments import LARGEST_SEED, check_seed
from tests.helpers.refusals import refused

DIFFUSION = (UnmaskArguments, SftArguments)
CAUSAL = (GRPOArguments, PPOArguments, DPOArguments, VAPORArguments, RAROArguments)


@pytest.mark.parametrize("kind", [GRPOArguments, DPOArguments])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("learning_rate", -1e-3),
        ("learning_rate", float("nan")),
        ("weight_decay", float("inf")),
        ("max_grad_norm", float("nan")),
        ("seed", -1),
        ("data_seed", 2**32),
        ("per_device_train_batch_size", 0),
        ("gradient_accumulation_steps", 0),
        ("max_steps", 0),
        ("max_steps", -5),
    ],
)
def test_every_trainers_arguments_name_the_number_that_they_refuse(
    kind: type, name: str, value: float, tmp_path: Path
) -> None:
    refused(f"{name}={value} must be a", lambda: kind(str(tmp_path), use_cpu=True, report_to="none", **{name: value}))


@pytest.mark.parametrize("kind", [*DIFFUSION, *CAUSAL])
def test_every_trainer_logs_every_ten_steps_by_default(kind: type, tmp_path: Path) -> None:
    args = kind(str(tmp_path), use_cpu=True, report_to="none")
    assert args.logging_steps == 10 and not args.dataloader_pin_memory


def test_the_ends_of_the_ranges_are_taken() -> None:
    for value in (0.0, 1e-300, 1e300, None):
        check_rate("learning_rate", value)
    for seed in (0, LARGEST_SEED, None):
        check_seed("seed", seed)
    for wrong in (0.5, "1", LARGEST_SEED + 1):
        with pytest.raises(ValueError, match=f"seed={wrong} must be a whole number from 0 to {LARGEST_SEED}"):
            check_seed("seed", wrong)
