"""Text with marks: which tokens of a sample are trained on."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from llm_rl.rollout.data import RolloutBatch

MARKS = ("⟦", "⟧")


def marked_text(token_ids: Sequence[int], supervised: Sequence[bool], tokenizer: Any) -> str:
    """The text of tokens, special ones included, with each run of supervised tokens between `MARKS`.

    Each run is decoded for itself. `supervised` says which tokens count in the loss; `ValueError` unless it is as long.
    """
    if len(token_ids) != len(supervised):
        raise ValueError(f"there are {len(token_ids)} tokens and {len(supervised)} flags; give one for each token")
    text = ""
    for trained, pairs in groupby(zip(token_ids, supervised, strict=True), key=lambda pair: bool(pair[1])):
        run = tokenizer.decode([token for token, _ in pairs], skip_special_tokens=False)
        text += run.join(MARKS) if trained else run
    return text


def marked_row(batch: RolloutBatch, row: int, tokenizer: Any) -> str:
    """`marked_text` of one row of a batch, by the mask that its loss is taken with."""
    there = batch.completion_mask[row]
    prompt = batch.prompt_ids[row][batch.prompt_mask[row]].tolist()
    flags = [False] * len(prompt) + batch.loss_mask[row][there].tolist()
    return marked_text(prompt + batch.completion_ids[row][there].tolist(), flags, tokenizer)
