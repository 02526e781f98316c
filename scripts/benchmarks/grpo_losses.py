"""The loss of `llm_rl` and that of TRL, and their gradients, on the same tensors that no roll-out made."""

from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, get_args

import torch
from torch import Tensor, nn

from llm_rl import RolloutBatch
from llm_rl.core import LossType, loss_counts
from llm_rl.training import load_pandas

if TYPE_CHECKING:
    import pandas as pd

TOLERANCE = 1e-4
"""Largest gradient error, in float32, where both sides mean the same."""


@dataclass(frozen=True)
class Tensors:
    """What both losses are functions of, beside the weights; N rows of P and T tokens.

    Attributes:
        prompt_ids: int64 `(N, P)`, padded on the left.
        prompt_mask: bool `(N, P)`, false at padding.
        completion_ids: int64 `(N, T)`, padded on the right.
        completion_mask: bool `(N, T)`: what was sampled.
        loss_mask: bool `(N, T)`: what counts.
        advantages: float32 `(N,)`, one a completion.
        old_logps: float32 `(N, T)`, log-probabilities at sampling.
        ref_logps: float32 `(N, T)`, log-probabilities under the reference.
    """

    prompt_ids: Tensor
    prompt_mask: Tensor
    completion_ids: Tensor
    completion_mask: Tensor
    loss_mask: Tensor
    advantages: Tensor
    old_logps: Tensor
    ref_logps: Tensor


@dataclass(frozen=True)
class Comparison:
    """Two losses, and how far their gradients are apart.

    Attributes:
        ours: Our loss.
        trl: TRL's loss.
        gradient_error: Norm of the difference of the gradients over the norm of TRL's.
        cosine: Cosine between the gradients.
        norm_ratio: Norm of our gradient over TRL's.
    """

    ours: float
    trl: float
    gradient_error: float
    cosine: float
    norm_ratio: float


@torch.no_grad()
def make_tensors(model: nn.Module, seed: int = 0) -> Tensors:
    """Four rows of different length whose ratios lie on both sides of the clip range.

    The old and reference log-probabilities are the model's own, by a whole log-softmax, with noise.
    """
    generator = torch.Generator().manual_seed(seed)
    vocabulary = model.get_input_embeddings().weight.shape[0]  # type: ignore[operator]
    prompt_ids = torch.randint(vocabulary, (4, 6), generator=generator)
    completion_ids = torch.randint(vocabulary, (4, 8), generator=generator)
    prompt_mask = torch.arange(6) >= torch.tensor([0, 2, 3, 1])[:, None]
    completion_mask = torch.arange(8) < torch.tensor([8, 7, 3, 2])[:, None]
    mask = torch.cat([prompt_mask, completion_mask], 1).long()
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    logits = model(torch.cat([prompt_ids, completion_ids], 1), attention_mask=mask, position_ids=positions).logits
    logps = logits[:, 5:-1].log_softmax(-1).gather(-1, completion_ids.unsqueeze(-1)).squeeze(-1)
    noise = torch.randn(2, 4, 8, generator=generator) * 0.4
    advantages = torch.tensor([1.2, -0.7, -1.1, 0.6])
    return Tensors(
        prompt_ids,
        prompt_mask,
        completion_ids,
        completion_mask,
        completion_mask,
        advantages,
        logps + noise[0],
        logps + noise[1],
    )


def drop_row(tensors: Tensors, row: int) -> Tensors:
    """The tensors with one completion of which no token counts."""
    mask = tensors.loss_mask.clone()
    mask[row] = False
    return replace(tensors, loss_mask=mask)


def loss_table(ours: Any, trl: Any) -> "pd.DataFrame":
    """Every loss type in one batch, and the cases in which the two have other conventions.

    - "two micro-batches": ours is normalized over the whole step; TRL's "bnpo" over each micro-batch.
    - "a row without tokens": ours leaves it out of the mean; TRL's "grpo" and "dr_grpo" divide by all rows.
    - "TRL's default divergence": TRL multiplies k3 by the importance ratio unless `use_bias_correction_kl=False`.

    Args:
        ours: Our trainer, as `compare` takes it.
        trl: TRL's trainer, as `compare` takes it, with `use_bias_correction_kl=False`.

    Returns:
        A row a case: its name, loss type and β, the fields of `Comparison`, and `same`: whether both sides mean the
        same, so that their gradients must agree.
    """
    tensors = make_tensors(ours.model)
    without_row = drop_row(tensors, 1)
    rows = []
    for loss_type in get_args(LossType):
        cases = [
            ("one batch", 0.0, tensors, 1, True),
            ("one batch", 0.05, tensors, 1, True),
            ("two micro-batches", 0.0, tensors, 2, loss_type != "bnpo"),
            ("a row without tokens", 0.0, without_row, 1, loss_type in ("bnpo", "dapo")),
        ]
        for case, kl_weight, given, parts, same in cases:
            found = compare(ours, trl, given, loss_type, kl_weight, parts)
            rows.append({"case": case, "loss_type": loss_type, "kl_weight": kl_weight, "same": same, **asdict(found)})
    trl.args.use_bias_correction_kl = True
    found = compare(ours, trl, tensors, "grpo", 0.05)
    trl.args.use_bias_correction_kl = False
    rows.append(
        {"case": "TRL's default divergence", "loss_type": "grpo", "kl_weight": 0.05, "same": False, **asdict(found)}
    )
    return load_pandas().DataFrame(rows)


def compare(
    ours: Any, trl: Any, tensors: Tensors, loss_type: str, kl_weight: float, micro_batches: int = 1
) -> Comparison:
    """The loss and gradient of one optimizer step of each trainer.

    Args:
        ours: A `llm_rl.grpo.trainer.GRPOTrainer` with a reference, which is not asked.
        trl: A `trl.GRPOTrainer` of the same weights, likewise.
        tensors: What both losses are functions of.
        loss_type: Loss type of both.
        kl_weight: Weight of the divergence in both.
        micro_batches: Into how many parts the step is cut.
    """
    bounds = list(pairwise(range(0, len(tensors.advantages) + 1, len(tensors.advantages) // micro_batches)))
    our_loss, our_gradient = _ours(ours, tensors, loss_type, kl_weight, bounds)
    trl_loss, trl_gradient = _trl(trl, tensors, loss_type, kl_weight, bounds)
    norms = our_gradient.norm(), trl_gradient.norm()
    return Comparison(
        our_loss,
        trl_loss,
        float((our_gradient - trl_gradient).norm() / norms[1]),
        float(our_gradient @ trl_gradient / (norms[0] * norms[1])),
        float(norms[0] / norms[1]),
    )


def _ours(
    trainer: Any, tensors: Tensors, loss_type: str, kl_weight: float, bounds: list[tuple[int, int]]
) -> tuple[float, Tensor]:
    trainer.args.loss_type, trainer.args.kl_weight = loss_type, kl_weight
    counts = loss_counts(tensors.loss_mask)
    trainer.model.zero_grad()
    total = 0.0
    for start, stop in bounds:
        part = {name: value[start:stop] for name, value in vars(tensors).items()}
        batch = RolloutBatch(
            prompt_ids=part["prompt_ids"],
            prompt_mask=part["prompt_mask"],
            completion_ids=part["completion_ids"],
            completion_mask=part["completion_mask"],
            truncated=torch.zeros(stop - start, dtype=torch.bool),
            loss_mask=part["loss_mask"],
            old_per_token_logps=part["old_logps"],
            ref_per_token_logps=part["ref_logps"],
            advantages=part["advantages"],
            sequences=counts.sequences,
            tokens=counts.tokens,
        )
        loss = trainer._compute_loss_and_metrics(trainer.model, batch)
        loss.backward()
        total += loss.item()
    return total, _gradient(trainer.model)


def _trl(
    trainer: Any, tensors: Tensors, loss_type: str, kl_weight: float, bounds: list[tuple[int, int]]
) -> tuple[float, Tensor]:
    trainer.loss_type, trainer.beta = loss_type, kl_weight
    trainer.current_gradient_accumulation_steps = trainer.args.steps_per_generation = len(bounds)
    trainer.model.train()
    trainer.model.zero_grad()
    total = 0.0
    for start, stop in bounds:
        part = {name: value[start:stop] for name, value in vars(tensors).items()}
        inputs = {
            "prompt_ids": part["prompt_ids"],
            "prompt_mask": part["prompt_mask"].long(),
            "completion_ids": part["completion_ids"],
            "completion_mask": part["completion_mask"].long(),
            "tool_mask": part["loss_mask"].long(),
            "advantages": part["advantages"],
            "old_per_token_logps": part["old_logps"],
            "ref_per_token_logps": part["ref_logps"],
            "num_items_in_batch": tensors.loss_mask.sum(),
        }
        loss = trainer._compute_loss(trainer.model, inputs)
        loss.backward()
        total += loss.item()
    return total, _gradient(trainer.model)


def _gradient(model: nn.Module) -> Tensor:
    """All of it as one float64 vector."""
    grads = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    return torch.cat([grad.flatten().double() for grad in grads])
