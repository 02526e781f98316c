"""Masked-diffusion supervised fine-tuning, as published for LLaDA (arXiv:2502.09992, algorithm 2)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import Dataset
from transformers import TrainingArguments

from dllm_rl.batch_check import check_batch
from dllm_rl.corruption import Corruption, with_own_mistakes
from dllm_rl.task import Learned, UnmaskBatch
from llm_rl.core._checks import check_choice
from llm_rl.training.arguments import RunArguments
from llm_rl.training.checkpoint import ExactTrainer

MIN_MASK_RATIO = 1e-3
MaskOrder = Literal["random", "left_to_right"]


def mask_tokens(
    input_ids: Tensor,
    maskable: Tensor,
    mask_id: int,
    generator: torch.Generator | None = None,
    order: MaskOrder = "random",
) -> tuple[Tensor, Tensor, Tensor]:
    """Corrupt sequences: a mask ratio t for each, then every maskable position is masked with probability t.

    Args:
        input_ids: int64 `(B, L)`.
        maskable: bool `(B, L)`, the positions that may be masked.
        mask_id: The mask token.
        generator: Source of randomness on the tensors' device; None is the global one.
        order: "random" (LLaDA), or "left_to_right": the last ⌈t·n⌉ of n maskable positions are masked, the states that
            decoding from left to right visits.

    Returns:
        The corrupted ids `(B, L)`, which positions were masked, bool `(B, L)`, and t `(B, 1)` in [0.001, 1).
    """
    shape = input_ids.shape
    ratio = torch.rand(shape[0], 1, generator=generator, device=input_ids.device)
    ratio = MIN_MASK_RATIO + (1 - MIN_MASK_RATIO) * ratio
    if order == "random":
        level = torch.rand(shape, generator=generator, device=input_ids.device)
    else:
        behind = maskable.flip(1).cumsum(1).flip(1) - 1
        level = behind / maskable.sum(1, keepdim=True).clamp_min(1)
    masked = (level < ratio) & maskable
    return input_ids.masked_fill(masked, mask_id), masked, ratio


def weighted_masked_loss(
    logits: Tensor, targets: Tensor, ratio: Tensor, lengths: Tensor, weights: Tensor | None = None
) -> Tensor:
    """Mean over B sequences of 1/length · Σ over masked positions of weight · cross-entropy / t.

    Args:
        logits: `(M, V)` at the masked positions of all sequences.
        targets: int64 `(M,)`.
        ratio: fp32 `(M,)`, t of the sequence of each masked position.
        lengths: `(M,)`, number of maskable positions of that sequence, times B.
        weights: `(M,)`, further weights; None is 1.
    """
    losses = F.cross_entropy(logits.float(), targets, reduction="none") / (ratio * lengths)
    return losses.sum() if weights is None else (weights * losses).sum()


def planner_weights(logits: Tensor, targets: Tensor, sequence: Tensor, temperature: float) -> Tensor:
    """How likely a planner that goes by the answer's probability fills each masked position next.

    w_i = softmax over the masked positions i of a sequence of log p(y_i) / τ, the weights of planner-aware path
    learning (PAPL, arXiv:2509.23405) for a planner that is sure of the answer where the model is.

    Args:
        logits: `(M, V)` at the masked positions of all sequences.
        targets: int64 `(M,)`, the answers' tokens.
        sequence: int64 `(M,)`, the sequence of each position.
        temperature: τ.

    Returns:
        fp32 `(M,)`, without gradient; they add up to 1 in each sequence.
    """
    score = -F.cross_entropy(logits.detach().float(), targets, reduction="none") / temperature
    count = int(sequence.max()) + 1 if len(sequence) else 0
    largest = score.new_full((count,), float("-inf")).scatter_reduce(0, sequence, score, "amax")
    weights = (score - largest[sequence]).exp()
    return weights / weights.new_zeros(count).index_add(0, sequence, weights)[sequence]


def masked_diffusion_loss(
    model: nn.Module,
    input_ids: Tensor,
    maskable: Tensor,
    mask_id: int,
    *,
    attention_mask: Tensor | None = None,
    generator: torch.Generator | None = None,
    order: MaskOrder = "random",
    learned: Callable[[Tensor, Tensor], Tensor] | None = None,
    planner_weight: float = 0.0,
    planner_temperature: float = 1.0,
    corruption: Corruption | None = None,
) -> Tensor:
    """Masked-diffusion SFT loss of a batch, an upper bound on the negative log-likelihood per maskable position.

    With `corruption` some of the positions that are not masked hold the model's own mistakes, and the cross-entropy at
    all of these positions is added, 1/length · Σ weight · cross-entropy, which bounds nothing.

    Args:
        model: Takes `(input_ids, attention_mask, logits_mask)`, as `LladaForMaskedLM` does.
        input_ids: int64 `(B, L)`, prompt and complete response.
        maskable: bool `(B, L)`, positions of the response that may be masked; at least one in each sequence.
        mask_id: The mask token.
        attention_mask: `(B, L)`, or None without padding.
        generator: Source of randomness; None is the global one.
        order: Which positions `mask_tokens` masks.
        learned: Given the corrupted ids `(B, L)` and the masked positions, bool `(B, L)`, those that the loss counts;
            None is all, and with fewer the loss bounds nothing.
        planner_weight: α; the loss of a position counts 1 + α w_i times (`planner_weights`), and with α above 0 it
            bounds nothing either.
        planner_temperature: τ of these weights.
        corruption: How positions that are not masked are corrupted; None leaves them right and out of the loss.
    """
    corrupted, masked, ratio = mask_tokens(input_ids, maskable, mask_id, generator, order)
    filled = torch.zeros_like(masked)
    if corruption is not None:
        filled = maskable & ~masked
        corrupted, _ = with_own_mistakes(
            model, corrupted, filled, mask_id, corruption, attention_mask=attention_mask, generator=generator
        )
    if learned is not None:
        masked = learned(corrupted, masked)
    seen = masked | filled
    logits = model(input_ids=corrupted, attention_mask=attention_mask, logits_mask=seen).logits
    per_sequence = torch.cat([ratio, maskable.sum(1, keepdim=True) * float(len(input_ids))], dim=1)
    if corruption is not None:
        at_filled, lengths = filled[seen], per_sequence[filled.nonzero()[:, 0], 1]
        unweighted = weighted_masked_loss(logits[at_filled], input_ids[filled], torch.ones_like(lengths), lengths)
        added = corruption.weight * unweighted
        logits = logits[~at_filled]
    sequence, targets = masked.nonzero()[:, 0], input_ids[masked]
    per_token = per_sequence[sequence]
    weights = None
    if planner_weight > 0:
        weights = 1 + planner_weight * planner_weights(logits, targets, sequence, planner_temperature)
    loss = weighted_masked_loss(logits, targets, per_token[:, 0], per_token[:, 1], weights)
    return loss if corruption is None else loss + added


class SftDataset(Dataset[dict[str, Tensor]]):
    """Problems with their answers as training sequences.

    Args:
        problems: Problems whose whole answer is known.
        mask_prefilled: Let every response position be masked, as for a general text; by default only those that are
            open at the start, since the others are never masked when decoding.

    Raises:
        ValueError: The answer is not known at some open position, or the problems are not what `UnmaskBatch` says
            (`check_batch`).
    """

    def __init__(self, problems: UnmaskBatch, *, mask_prefilled: bool = False) -> None:
        check_batch(problems, definite=False)
        answers = torch.where(problems.responses == problems.mask_id, problems.answers, problems.responses)
        if (answers == problems.mask_id).any():
            raise ValueError("the answer is not known at some open position; for Sudoku give the task a tail_id")
        mask, no_prompt = problems.prompt_mask, torch.zeros_like(problems.prompt_ids, dtype=torch.bool)
        maskable = torch.ones_like(answers, dtype=torch.bool)
        if not mask_prefilled:
            maskable = problems.responses == problems.mask_id
        self.problems = problems
        self.input_ids = torch.cat([problems.prompt_ids, answers], dim=1).int()
        self.maskable = torch.cat([no_prompt, maskable], dim=1)
        self.attention_mask = torch.cat([~no_prompt if mask is None else mask, torch.ones_like(maskable)], dim=1)

    def __len__(self) -> int:
        return len(self.input_ids)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {
            "problem": (self.problems, index),
            "input_ids": self.input_ids[index],
            "maskable": self.maskable[index],
            "attention_mask": self.attention_mask[index],
        }


@dataclass
class SftArguments(RunArguments):
    """Arguments of `SftTrainer`, beside those that any `transformers.TrainingArguments` give it."""

    mask_order: MaskOrder = field(
        default="random", metadata={"help": "Which positions are masked: random (LLaDA), or left_to_right."}
    )
    ce_on: Learned = field(
        default="masked",
        metadata={"help": "The loss counts all masked positions, or definite ones and the tail."},
    )
    planner_weight: float = field(
        default=0.0,
        metadata={"help": "alpha of planner-aware path learning: positions that the model is sure of count more."},
    )
    planner_temperature: float = field(
        default=1.0, metadata={"help": "tau of planner-aware path learning; small: the surest position alone."}
    )
    corruption: float = field(
        default=0.0,
        metadata={
            "help": "Largest share of the filled positions that hold the model's own mistakes, for decodes that take "
            "tokens back; the share of a sequence is uniform below it. 0: none."
        },
    )
    corruption_temperature: float = field(
        default=1.0, metadata={"help": "Temperature at which these mistakes are drawn."}
    )
    corruption_weight: float = field(
        default=1.0, metadata={"help": "Factor of the cross-entropy at filled positions, with corruption."}
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("mask_order", self.mask_order, MaskOrder)
        check_choice("ce_on", self.ce_on, Learned)
        if not self.planner_weight >= 0 or not self.planner_temperature > 0:
            raise ValueError(
                f"planner_weight={self.planner_weight} must be at least 0 and planner_temperature="
                f"{self.planner_temperature} above 0"
            )
        if self.corruption != 0 and self.ce_on != "masked":
            raise ValueError(
                f"corruption={self.corruption} does not go with ce_on={self.ce_on!r}: nothing is definite beside a "
                "wrong token; use ce_on=masked"
            )
        self.made_corruption()

    def made_corruption(self) -> Corruption | None:
        """How states are corrupted, or None.

        Raises:
            ValueError: A number is out of range.
        """
        if self.corruption == 0:
            return None
        return Corruption(self.corruption, self.corruption_temperature, self.corruption_weight)


def collate(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Rows of one `SftDataset` as a batch: tensors `(B, L)`, and the problems."""
    problems = rows[0]["problem"][0]
    batch = {name: torch.stack([row[name] for row in rows]) for name in rows[0] if name != "problem"}
    return {**batch, "problems": problems.select(torch.tensor([row["problem"][1] for row in rows]))}


class SftTrainer(ExactTrainer):
    """An `ExactTrainer` with the masked-diffusion loss, for a `SftDataset`.

    Args:
        args: `SftArguments`, or any `TrainingArguments` for random masks.
        kwargs: The other arguments of `transformers.Trainer`.

    Raises:
        ValueError: The model's configuration does not say which token is the mask, or the problems have another one
            or tokens that it does not know (`check_batch`).
    """

    def __init__(self, *, args: TrainingArguments, **kwargs: Any) -> None:
        args.remove_unused_columns = False  # rows are problems, of which no model's forward pass knows
        super().__init__(args=args, **{"data_collator": collate, **kwargs})
        config = getattr(self.model, "config", None)
        mask_id = getattr(config, "mask_token_id", None)
        if mask_id is None:
            raise ValueError(
                f"{type(config).__name__} has no mask_token_id; set model.config.mask_token_id to that of the tokenizer"
            )
        own = isinstance(args, SftArguments)
        self.mask_order: MaskOrder = args.mask_order if own else "random"
        self.ce_on: Learned = args.ce_on if own else "masked"
        self.planner_weight = args.planner_weight if own else SftArguments.planner_weight
        self.planner_temperature = args.planner_temperature if own else SftArguments.planner_temperature
        self.corruption = args.made_corruption() if own else None
        if isinstance(self.train_dataset, SftDataset):
            problems = self.train_dataset.problems
            check_batch(problems, model=self.model, definite=self.ce_on != "masked")
            if problems.mask_id != mask_id:
                raise ValueError(
                    f"the problems' mask_id is {problems.mask_id}, the model's mask_token_id {mask_id}; "
                    "make them with the model's own tokenizer"
                )

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Tensor:
        """The loss of a batch, `masked_diffusion_loss`.

        Raises:
            ValueError: The model's outputs are asked for, which this loss does not keep.
        """
        if return_outputs:
            raise ValueError("the masked-diffusion loss keeps no outputs; evaluate with dllm_rl.evaluate instead")
        attention_mask = inputs["attention_mask"]
        return masked_diffusion_loss(
            model,
            inputs["input_ids"].long(),
            inputs["maskable"],
            self.accelerator.unwrap_model(model).config.mask_token_id,
            attention_mask=None if bool(attention_mask.all()) else attention_mask,
            order=self.mask_order,
            learned=None if self.ce_on == "masked" else partial(_learned, inputs["problems"], self.ce_on),
            planner_weight=self.planner_weight,
            planner_temperature=self.planner_temperature,
            corruption=self.corruption,
        )


def _learned(problems: UnmaskBatch, on: Learned, corrupted: Tensor, masked: Tensor) -> Tensor:
    """bool `(B, L)`: the masked positions of corrupted sequences `(B, L)`, one a problem, that the loss counts."""
    prompt, of = problems.prompt_ids.shape[1], torch.arange(len(problems), device=masked.device)
    states, open_ = corrupted[:, prompt:], masked[:, prompt:]
    counted = problems.learned(open_, of, problems.definite(states, of), on)
    return torch.cat([torch.zeros_like(masked[:, :prompt]), counted], dim=1)
