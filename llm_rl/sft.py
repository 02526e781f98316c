"""Supervised fine-tuning on expert answers: the start that reinforcement learning needs, and its control.

The loss is the cross-entropy of the answer's tokens and the end token; the prompt's tokens count nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn
from torch.utils.data import Dataset
from transformers import DataCollatorForSeq2Seq, Trainer, TrainingArguments

from llm_rl.data import check_row, encode_prompt

IGNORED = -100


class SupervisedDataset(Dataset[dict[str, list[int]]]):
    """Rows as tokens, with labels on the answer alone.

    An item is {"input_ids": prompt, answer and end token, "labels": the same with −100 at the prompt}.

    Args:
        rows: With a "prompt" (text or messages) and the answer, a text.
        tokenizer: Encodes prompts as trainers do (`llm_rl.data.encode_prompt`).
        column: Where the answer is.

    Raises:
        ValueError: There are no rows, a row has no prompt or no such text, or the tokenizer has no end token.
    """

    def __init__(self, rows: Sequence[Mapping[str, Any]], tokenizer: Any, column: str = "chosen") -> None:
        if not len(rows):
            raise ValueError("there are no rows to learn from; pass one at least")
        if tokenizer.eos_token_id is None:
            raise ValueError("the tokenizer has no end token; set tokenizer.eos_token")
        self.items = [self._encode(row, tokenizer, column) for row in rows]

    @staticmethod
    def _encode(row: Mapping[str, Any], tokenizer: Any, column: str) -> dict[str, list[int]]:
        prompt = encode_prompt(check_row(row)["prompt"], tokenizer, {})
        answer = row.get(column)
        if not isinstance(answer, str):
            raise ValueError(f"{column!r} of a row is {answer!r}; it must be a text, the answer to its prompt")
        answer_ids = [*tokenizer(answer, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
        return {"input_ids": prompt + answer_ids, "labels": [IGNORED] * len(prompt) + answer_ids}

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> dict[str, list[int]]:
        return self.items[index]


def supervised_trainer(
    model: nn.Module,
    args: TrainingArguments,
    rows: Sequence[Mapping[str, Any]],
    tokenizer: Any,
    *,
    column: str = "chosen",
    callbacks: list[Any] | None = None,
) -> Trainer:
    """A `transformers.Trainer` on `SupervisedDataset`; its arguments and errors are those of both."""
    return Trainer(
        model=model,
        args=args,
        train_dataset=SupervisedDataset(rows, tokenizer, column),
        data_collator=DataCollatorForSeq2Seq(tokenizer, label_pad_token_id=IGNORED),
        callbacks=callbacks,
    )
