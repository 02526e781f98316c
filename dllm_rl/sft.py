"""Masked-diffusion supervised fine-tuning, as published for LLaDA (arXiv:2502.09992, algorithm 2)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import Dataset
from transformers import TrainingArguments

from dllm_rl.batch_check import check_batch
from dllm_rl.decoding.noise import puzzle_noise
from dllm_rl.task import Learned, UnmaskBatch
from llm_rl.core._checks import check_choice
from llm_rl.core._options import option
from llm_rl.training.arguments import RunArguments
from llm_rl.training.checkpoint import ExactTrainer

MIN_MASK_RATIO = 1e-3


def mask_tokens(
    input_ids: Tensor, maskable: Tensor, mask_id: int, uniforms: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Corrupt sequences: a mask ratio t for each, then every maskable position is masked with probability t.

    Args:
        input_ids: int64 `(B, L)`.
        maskable: bool `(B, L)`, the positions that may be masked.
        mask_id: The mask token.
        uniforms: `(B, 1 + L)` in [0, 1), for t and for each position; None draws them from torch's global generator.

    Returns:
        The corrupted ids `(B, L)`, which positions were masked, bool `(B, L)`, and t `(B, 1)` in [0.001, 1).
    """
    if uniforms is None:
        rows, length = input_ids.shape
        uniforms = torch.rand(rows, 1 + length, device=input_ids.device)
    ratio = MIN_MASK_RATIO + (1 - MIN_MASK_RATIO) * uniforms[:, :1]
    masked = (uniforms[:, 1:] < ratio) & maskable
    return input_ids.masked_fill(masked, mask_id), masked, ratio


def weighted_masked_loss(logits: Tensor, targets: Tensor, ratio: Tensor, lengths: Tensor) -> Tensor:
    """Mean over B sequences of 1/length · Σ over masked positions of cross-entropy / t.

    Args:
        logits: `(M, V)` at the masked positions of all sequences.
        targets: int64 `(M,)`.
        ratio: fp32 `(M,)`, t of the sequence of each masked position.
        lengths: `(M,)`, number of maskable positions of that sequence, times B.
    """
    return (F.cross_entropy(logits.float(), targets, reduction="none") / (ratio * lengths)).sum()


def masked_diffusion_loss(
    model: nn.Module,
    input_ids: Tensor,
    maskable: Tensor,
    mask_id: int,
    *,
    attention_mask: Tensor | None = None,
    uniforms: Tensor | None = None,
    learned: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> Tensor:
    """Masked-diffusion SFT loss of a batch, an upper bound on the negative log-likelihood per maskable position.

    Args:
        model: Takes `(input_ids, attention_mask, logits_mask)`, as `LladaForMaskedLM` does.
        input_ids: int64 `(B, L)`, prompt and complete response.
        maskable: bool `(B, L)`, positions of the response that may be masked; at least one in each sequence.
        mask_id: The mask token.
        attention_mask: `(B, L)`, or None without padding.
        uniforms: `(B, 1 + L)`, see `mask_tokens`.
        learned: Given the corrupted ids `(B, L)` and the masked positions, bool `(B, L)`, those that the loss counts;
            None is all, and with fewer the loss bounds nothing.
    """
    corrupted, masked, ratio = mask_tokens(input_ids, maskable, mask_id, uniforms)
    if learned is not None:
        masked = learned(corrupted, masked)
    logits = model(input_ids=corrupted, attention_mask=attention_mask, logits_mask=masked).logits
    per_sequence = torch.cat([ratio, maskable.sum(1, keepdim=True) * float(len(input_ids))], dim=1)
    at = masked.nonzero(as_tuple=True)
    per_token = per_sequence[at[0]]
    return weighted_masked_loss(logits, input_ids[at], per_token[:, 0], per_token[:, 1])


class SftDataset(Dataset[dict[str, Tensor]]):
    """Problems with their answers as training sequences.

    Args:
        problems: Problems whose whole answer is known. Only positions that are open at the start may be masked, since
            the others are never masked when decoding.

    Raises:
        ValueError: The answer is not known at some open position, or the problems are not what `UnmaskBatch` says
            (`check_batch`).
    """

    def __init__(self, problems: UnmaskBatch) -> None:
        check_batch(problems, definite=False)
        maskable = problems.responses == problems.mask_id
        answers = torch.where(maskable, problems.answers, problems.responses)
        if (answers == problems.mask_id).any():
            raise ValueError("the answer is not known at some open position; for Sudoku give the task a tail_id")
        mask, no_prompt = problems.prompt_mask, torch.zeros_like(problems.prompt_ids, dtype=torch.bool)
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

    ce_on: Learned = option("masked", "The loss counts all masked positions, or definite ones and the tail.")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("ce_on", self.ce_on, Learned)


def collate(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Rows of one `SftDataset` as a batch: tensors `(B, L)`, no attention mask without padding, and the problems."""
    problems = rows[0]["problem"][0]
    batch = {name: torch.stack([row[name] for row in rows]) for name in rows[0] if name != "problem"}
    if bool(batch["attention_mask"].all()):
        del batch["attention_mask"]
    return {**batch, "problems": problems.select(torch.tensor([row["problem"][1] for row in rows]))}


class SftTrainer(ExactTrainer):
    """An `ExactTrainer` with the masked-diffusion loss, for a `SftDataset`.

    An optimizer step takes the mean over the sequences of its global batch, each masked by uniforms of its own, which
    depend on the seed, the step and its number in the global batch alone, however these are dealt to micro-batches and
    processes. (Several processes take as many sequences each: accelerate fills up an epoch's last batch.)

    Args:
        args: `SftArguments`, or any `TrainingArguments` for a loss that counts all masked positions.
        kwargs: The other arguments of `transformers.Trainer`.

    Raises:
        ValueError: The model's configuration does not say which token is the mask, or the problems have another one
            or tokens that it does not know (`check_batch`); an option is set that does nothing here; or one process
            comes with several devices.
    """

    def __init__(self, *, args: TrainingArguments, **kwargs: Any) -> None:
        idle = {
            "torch_compile": "compiles the model again for every number of masked positions",
            "label_smoothing_factor": "has no part in the masked-diffusion loss",
        }
        for name, why in idle.items():
            if value := getattr(args, name):
                raise ValueError(f"{name}={value} {why}; leave it out")
        args.remove_unused_columns = False  # rows are problems, of which no model's forward pass knows
        super().__init__(args=args, **{"data_collator": collate, **kwargs})
        config = getattr(self.model, "config", None)
        mask_id = getattr(config, "mask_token_id", None)
        if mask_id is None:
            raise ValueError(
                f"{type(config).__name__} has no mask_token_id; set model.config.mask_token_id to that of the tokenizer"
            )
        self.ce_on: Learned = args.ce_on if isinstance(args, SftArguments) else "masked"
        if isinstance(self.train_dataset, SftDataset):
            problems = self.train_dataset.problems
            check_batch(problems, model=self.model, definite=self.ce_on != "masked")
            if problems.mask_id != mask_id:
                raise ValueError(
                    f"the problems' mask_id is {problems.mask_id}, the model's mask_token_id {mask_id}; "
                    "make them with the model's own tokenizer"
                )

    def get_batch_samples(self, *args: Any, **kwargs: Any) -> tuple[list[dict[str, Any]], Any]:
        """The micro-batches of an optimizer step, with the number of each sequence and what a micro-batch weighs."""
        batches, items = super().get_batch_samples(*args, **kwargs)
        sizes, world = [len(batch["input_ids"]) for batch in batches], self.args.world_size
        for slot, (batch, size) in enumerate(zip(batches, sizes, strict=True)):
            first = (slot * world + self.args.process_index) * self.args.train_batch_size
            # The trainer takes the mean over micro-batches, of which an epoch's last may be short.
            batch.update(numbers=range(first, first + size), share=size * len(sizes) / sum(sizes))
        return batches, items

    def uniforms(self, inputs: dict[str, Any]) -> Tensor:
        """What the sequences of a batch are masked by, fp32 `(B, 1 + L)` in [0, 1]."""
        rows, length = inputs["input_ids"].shape
        numbers = inputs.get("numbers", range(rows))
        drawn = puzzle_noise(self.args.seed, self.state.global_step, numbers, 1, length // 2 + 1)  # (B, 1 + L//2, 2)
        return drawn.flatten(1)[:, : 1 + length].float().to(inputs["input_ids"].device)

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Tensor:
        """The loss of a micro-batch, `masked_diffusion_loss`, by what it weighs in its optimizer step.

        Raises:
            ValueError: The model's outputs are asked for, which this loss does not keep.
        """
        if return_outputs:
            raise ValueError("the masked-diffusion loss keeps no outputs; evaluate with dllm_rl.evaluate instead")
        loss = masked_diffusion_loss(
            model,
            inputs["input_ids"].long(),
            inputs["maskable"],
            self.accelerator.unwrap_model(model).config.mask_token_id,
            attention_mask=inputs.get("attention_mask"),
            uniforms=self.uniforms(inputs),
            learned=None if self.ce_on == "masked" else partial(_learned, inputs["problems"], self.ce_on),
        )
        return loss * inputs.get("share", 1.0)


def _learned(problems: UnmaskBatch, on: Learned, corrupted: Tensor, masked: Tensor) -> Tensor:
    """bool `(B, L)`: the masked positions of corrupted sequences `(B, L)`, one a problem, that the loss counts."""
    prompt, of = problems.prompt_ids.shape[1], torch.arange(len(problems), device=masked.device)
    states, open_ = corrupted[:, prompt:], masked[:, prompt:]
    counted = problems.learned(open_, of, problems.definite(states, of), on)
    return torch.cat([torch.zeros_like(masked[:, :prompt]), counted], dim=1)
