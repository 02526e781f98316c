"""Supervised fine-tuning on expert answers: the start that reinforcement learning needs, and its control.

The loss is the cross-entropy of the answer's tokens and the end token; the prompt's tokens count nothing, and no logits
are computed for most of them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn
from torch.utils.data import Dataset
from transformers import TrainingArguments

from llm_rl.rollout.data import check_row, encode_answer, encode_prompt, pad
from llm_rl.rollout.pictures import PicturedPrompt, Pictures, beside_tokens, check_takes, reads_pictures, tokenizer_of
from llm_rl.rollout.scoring import causal_model
from llm_rl.rollout.shared_prompts import inputs_of
from llm_rl.rollout.symptoms import warn_of_text_prompts
from llm_rl.training.checkpoint import ExactTrainer

IGNORED = -100


class SupervisedDataset(Dataset[dict[str, list[int]]]):
    """Rows as tokens, with labels on the answer alone.

    A row has a "prompt" (text or messages), encoded as trainers do (`llm_rl.rollout.data.encode_prompt`), and in
    "chosen" the answer, a text. An item is {"input_ids": prompt, answer and end token, "labels": the same with −100 at
    the prompt}. A processor's input ids are a `PicturedPrompt`, whose pictures are read when the item is taken.

    Raises:
        ValueError: There are no rows, a row has no prompt or no such text, or the tokenizer has no end token.
    """

    def __init__(self, rows: Sequence[Mapping[str, Any]], tokenizer: Any) -> None:
        if not len(rows):
            raise ValueError("there are no rows to learn from; pass one at least")
        if tokenizer_of(tokenizer).eos_token_id is None:
            raise ValueError("the tokenizer has no end token; set tokenizer.eos_token")
        self._rows, self._tokenizer = rows, tokenizer
        self.items = [self._encode(row) for row in rows]
        warn_of_text_prompts(rows, tokenizer, {})

    def _encode(self, row: Mapping[str, Any]) -> dict[str, list[int]]:
        prompt = encode_prompt(check_row(row)["prompt"], self._tokenizer, {})
        tokenizer, answer = tokenizer_of(self._tokenizer), row.get("chosen")
        if not isinstance(answer, str):
            raise ValueError(f"'chosen' of a row is {answer!r}; it must be a text, the answer to its prompt")
        answer_ids = encode_answer(answer, tokenizer, tokenizer.eos_token_id)
        return {"input_ids": prompt + answer_ids, "labels": [IGNORED] * len(prompt) + answer_ids}

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> dict[str, list[int]]:
        item = self.items[index]
        if reads_pictures(self._tokenizer):
            prompt = encode_prompt(self._rows[index]["prompt"], self._tokenizer, {})
            if isinstance(prompt, PicturedPrompt):
                return {**item, "input_ids": PicturedPrompt(item["input_ids"], prompt.tensors)}
        return item


class AnswerCollator:
    """Pads items on the left, so that all answers end together, and asks for the logits of the longest answer alone.

    Args:
        tokenizer: Has the padding token, or else the end token pads; the mask tells.
        model: Whose forward pass takes the batch: {"input_ids", "attention_mask", "labels"}, and "position_ids" and
            "logits_to_keep" where it knows them, and the pictures' tensors. Labels are as long as the logits.
    """

    def __init__(self, tokenizer: Any, model: nn.Module) -> None:
        tokenizer = tokenizer_of(tokenizer)
        self._pad_id = tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id
        self._causal = causal_model(model)
        self._keeps = "logits_to_keep" in inputs_of(self._causal.__class__)

    def __call__(self, items: Sequence[Mapping[str, list[int]]]) -> dict[str, Any]:
        """The batch of some items of `SupervisedDataset`; `ValueError` where the model does not take their pictures."""
        for item in items:
            check_takes(self._causal, item["input_ids"])
        ids, mask = pad([item["input_ids"] for item in items], self._pad_id, "left")
        labels, _ = pad([item["labels"] for item in items], IGNORED, "left")
        batch: dict[str, Any] = {"input_ids": ids, "attention_mask": mask.long(), "labels": labels}
        batch |= beside_tokens(self._causal, mask, Pictures.of([item["input_ids"] for item in items]))
        if self._keeps:
            # The logits before an answer's first token predict it.
            first = int((labels != IGNORED).int().argmax(1).min())
            kept = min(labels.shape[1] - first + 1, labels.shape[1])
            batch |= {"labels": labels[:, -kept:], "logits_to_keep": kept}
        return batch


def supervised_trainer(
    model: nn.Module,
    args: TrainingArguments,
    rows: Sequence[Mapping[str, Any]] | SupervisedDataset,
    tokenizer: Any,
    *,
    callbacks: list[Any] | None = None,
) -> ExactTrainer:
    """An `ExactTrainer` on `SupervisedDataset`; its arguments and errors are those of both.

    Rows may be such a data set already, as `llm_rl.tools.trajectories.TrajectoryDataset` is one.
    """
    return ExactTrainer(
        model=model,
        args=args,
        train_dataset=rows if isinstance(rows, SupervisedDataset) else SupervisedDataset(rows, tokenizer),
        data_collator=AnswerCollator(tokenizer, model),
        callbacks=callbacks,
    )
