"""A run of few updates of each trainer, in float64, that a change of the code must leave as it is."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import nn

from dllm_rl import SftArguments, SftDataset, SftTrainer
from llm_rl import Chord, EntropyBonus, ImportanceCorrection
from tests.dllm_rl.helpers import tiny_training as unmask
from tests.llm_rl.helpers import tiny_dpo, tiny_grpo, tiny_ppo, tiny_raro, tiny_vapor

Kind = TypeVar("Kind", bound=nn.Module)
STEPS: dict[str, Any] = {"max_steps": 3, "learning_rate": 0.1, "max_grad_norm": 1.0, "optim": "sgd"}
"""Plain gradient descent: Adam makes whole steps of differences in rounding where a gradient is near 0."""


class Golden(NamedTuple):
    """What came of a run.

    Attributes:
        losses: The loss at each update.
        norms: The norm of the gradient at each update.
        squares: The sum of squares of each weight tensor after the last, by name.
        digest: SHA-256 of all weights, which is the same on the same machine alone.
    """

    losses: list[float]
    norms: list[float]
    squares: dict[str, float]
    digest: str


def golden(run: Any) -> Golden:
    """Train, and take what came of it."""
    run.train()
    lines = [line for line in run.state.log_history if "loss" in line]
    weights = {name: value.detach() for name, value in run.model.state_dict().items()}
    digest = hashlib.sha256()
    for name, value in sorted(weights.items()):
        digest.update(name.encode() + value.contiguous().numpy().tobytes())
    return Golden(
        [line["loss"] for line in lines],
        [line["grad_norm"] for line in lines],
        {name: float(value.double().square().sum()) for name, value in weights.items()},
        digest.hexdigest(),
    )


def fixed(model: Kind) -> Kind:
    """The model in float64, its matrices the same on every processor: torch draws normal numbers in its own dialect."""
    generator = np.random.default_rng(0)
    with torch.no_grad():
        for parameter in model.double().parameters():
            if parameter.dim() > 1:
                parameter.copy_(torch.from_numpy(0.2 * generator.standard_normal(parameter.shape)))
    return model


def _unmask(folder: Path, **changes: Any) -> Any:
    return unmask.trainer(folder, fixed(unmask.new_model()), **{**STEPS, **changes})


def _sft(folder: Path) -> Any:
    data = SftDataset(unmask.sudoku_task(with_tail=True).batch(unmask.puzzles(16)))
    chosen = unmask.arguments(folder, **STEPS).to_dict()
    names = ("output_dir", "lr_scheduler_type", "report_to", "disable_tqdm", "use_cpu", "seed", "logging_steps", *STEPS)
    args = SftArguments(save_strategy="no", **{name: chosen[name] for name in names})
    mask_id = unmask.tokenizer().mask_token_id
    assert mask_id is not None
    return SftTrainer(model=fixed(unmask.new_model()), args=args, train_dataset=data)


def _causal() -> nn.Module:
    return fixed(tiny_grpo.new_model())


RUNS: dict[str, Callable[[Path], Any]] = {
    "unmask_source": lambda folder: _unmask(
        folder, num_iterations=2, rl_learning_rate=0.1, sft_learning_rate=0.04, position_temperature_end=0.5
    ),
    "unmask_main": lambda folder: _unmask(
        folder, policy_weight=0.0, f_form="log", ce_weight=1.0, ce_on="definite", gradient_accumulation_steps=2
    ),
    "unmask_several": lambda folder: _unmask(
        folder, tokens_per_step=2, on_error="correct", state_fraction=0.7, ce_weight=0.5
    ),
    "sft": _sft,
    "grpo": lambda folder: tiny_grpo.trainer(folder, _causal(), kl_weight=0.1, num_iterations=2, **STEPS),
    "grpo_chord": lambda folder: tiny_grpo.trainer(
        folder,
        _causal(),
        given={"extensions": [EntropyBonus(0.01), ImportanceCorrection(), Chord(tiny_grpo.EXPERTS)]},
        **STEPS,
    ),
    "ppo": lambda folder: tiny_ppo.trainer(folder, _causal(), kl_weight=0.1, num_ppo_epochs=2, **STEPS),
    "dpo": lambda folder: tiny_dpo.trainer(folder, _causal(), **STEPS),
    "vapor": lambda folder: tiny_vapor.trainer(folder, fixed(tiny_vapor.tag_model()), **STEPS),
    "raro": lambda folder: tiny_raro.trainer(folder, fixed(tiny_raro.raro_model()), **STEPS),
}
"""By name: a trainer that has not begun. Options may be renamed here; what comes out may not change."""
