"""What VAPOR keeps beyond a common roll-out: tagged parts of completions, and preference pairs as token batches.

Source: docs/vapor.md, 'What a step does'.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from llm_rl.rollout.data import RolloutBatch, Sample, is_conversation, plain_ids
from llm_rl.rollout.spans import Rule, find_and_map_token_indices, find_tagged_text, incremental_offsets
from llm_rl.vapor.arguments import PreferenceContext
from llm_rl.vapor.objective import VaporBatch
from llm_rl.vapor.ratios import PreferencePair, span_mask

Span = tuple[int, int]


@dataclass(frozen=True)
class VaporSample(Sample):
    """A completion, and its part of interest: the span among its tokens, and the text, tags included."""

    span: Span | None = None
    text: str = ""


class Response(NamedTuple):
    """A chosen or rejected completion of the data set, and the span of its tagged response, None without."""

    token_ids: list[int]
    span: Span | None


def find_part(
    token_ids: Sequence[int], tokenizer: Any, tags: Sequence[str], rule: Rule = "overlap"
) -> tuple[Span | None, str]:
    """The tokens and the text of the first tagged part, by decoding the ids step by step; None and "" without one."""
    start_tag, end_tag = tags
    text, offsets = incremental_offsets(token_ids, tokenizer)
    span = find_and_map_token_indices(text, offsets, start_tag, end_tag, rule=rule)
    found = find_tagged_text(text, start_tag, end_tag)
    return (None, "") if span is None or found is None else (span, text[found[0] : found[1]])


def encode_response(row: Mapping[str, Any], name: str, tokenizer: Any, tags: Sequence[str], rule: Rule) -> Response:
    """The tokens of a row's chosen or rejected completion, without special tokens around, and its tagged response.

    `row[name]` is a text or a list of one message, else it is a `ValueError`; `rule` says which tokens a tagged part
    has, as in `spans.find_and_map_token_indices`.
    """
    value: Any = row.get(name)
    text = value[0].get("content") if is_conversation(value) and len(value) == 1 else value
    if not isinstance(text, str):
        raise ValueError(
            f"{name!r} of a row is {value!r}; VAPOR's rows have 'prompt', 'chosen' and 'rejected', the last two a text "
            "or a list of one message"
        )
    token_ids = plain_ids(text, tokenizer)
    return Response(token_ids, find_part(token_ids, tokenizer, tags, rule)[0])


def place_response(
    sample: VaporSample, pair: tuple[Response, Response], which: int, context: PreferenceContext
) -> VaporSample:
    """One response of a pair as a completion to be scored, up to the end of its tagged part.

    "static": it stands behind the prompt with the text that it has before its tags. "generated": the tagged part alone
    stands behind the prompt and the completion up to the end of s_i. It has no tokens where either response has no
    tagged part, or s_i is needed and was not found.
    """
    span = pair[which].span
    if span is None or pair[1 - which].span is None or (context == "generated" and sample.span is None):
        return VaporSample(sample.row, sample.prompt_ids, [], False)
    token_ids = pair[which].token_ids[: span[1]]
    if context == "static" or sample.span is None:
        return VaporSample(sample.row, sample.prompt_ids, token_ids, False, span=span)
    before = sample.prompt_ids + sample.completion_ids[: sample.span[1]]
    return VaporSample(sample.row, before, token_ids[span[0] :], False, span=(0, span[1] - span[0]))


def collate_pairs(
    samples: Sequence[VaporSample],
    pairs: Sequence[tuple[Response, Response]],
    context: PreferenceContext,
    pad_id: int,
    *,
    room: int | None = None,
    device: torch.device | str = "cpu",
) -> RolloutBatch:
    """Chosen responses of all samples, then the rejected ones, as one batch whose `loss_mask` is their tagged parts.

    There are B samples, each with the pair of its prompt, and 2 B rows. `room` are the positions of the model, None
    where there is no bound; the other arguments are those of `place_response` and `RolloutBatch.collate`.

    Raises:
        ValueError: A response and what stands before it exceed the model's positions.
    """
    placed = [
        place_response(sample, pair, which, context)
        for which in (0, 1)
        for sample, pair in zip(samples, pairs, strict=True)
    ]
    for sample in placed:
        if room is not None and len(sample.prompt_ids) + len(sample.completion_ids) > room:
            raise ValueError(
                f"a response of {len(sample.completion_ids)} tokens after {len(sample.prompt_ids)} exceeds the model's "
                f"{room} positions; shorten chosen and rejected (prompt {str(sample.row['prompt'])[:80]!r}…)"
            )
    batch = RolloutBatch.collate(placed, pad_id, device=device)
    batch.loss_mask = span_mask(
        [sample.span for sample in placed], batch.completion_ids.shape[1], batch.truncated.device
    )
    return batch


def preference_pair(pairs: RolloutBatch, logprobs: Tensor, prompts: int) -> PreferencePair:
    """The halves of a batch of pairs, `(Q, C, T)` each, from log π of its tokens, `(2 Q C, T)`.

    `prompts` is Q. `ValueError` where the reference's log-probabilities are missing.
    """
    if pairs.ref_per_token_logps is None:
        raise ValueError("the pairs have no ref_per_token_logps; score them with ReferenceModel.logprobs")
    halves = (2, prompts, -1, logprobs.shape[1])
    chosen, rejected = logprobs.view(halves)
    chosen_ref, rejected_ref = pairs.ref_per_token_logps.view(halves)
    chosen_span, rejected_span = pairs.loss_mask.view(halves)
    return PreferencePair(chosen, chosen_ref, chosen_span, rejected, rejected_ref, rejected_span)


@dataclass(kw_only=True)
class VaporRolloutBatch(RolloutBatch):
    """A micro-batch of B = Q · G completions of Q prompts, and their preference pairs.

    Attributes:
        spans: bool `(B, T)`, the tokens of s_i.
        pairs: A batch of `collate_pairs`: Q (static) or B (generated) chosen responses, then as many rejected ones.
        pairs_found: int64 scalar, pairs of which both responses were found in the whole optimizer step, over
            micro-batches and processes.
    """

    spans: Tensor
    pairs: RolloutBatch
    pairs_found: Tensor | None = None

    def tensors(
        self, logprobs: Tensor, old_logprobs: Tensor, pair_logprobs: Tensor, num_generations: int
    ) -> VaporBatch:
        """What the objective is made from; log π of the completions' tokens are `(B, T)`, now and at sampling.

        `pair_logprobs` are log π of the tokens of `pairs`, `num_generations` is G. `ValueError` where there are no
        rewards or reference log-probabilities yet.
        """
        ref = self.ref_per_token_logps
        if self.rewards is None or ref is None:
            raise ValueError("the batch has no rewards or reference; make it with VAPORTrainer's roll-out")
        group = (-1, num_generations, logprobs.shape[1])
        return VaporBatch(
            logprobs.view(group),
            ref.view(group),
            old_logprobs.view(group),
            self.completion_mask.view(group),
            self.spans.view(group),
            self.rewards.view(-1, num_generations),
            preference_pair(self.pairs, pair_logprobs, len(self.rewards) // num_generations),
        )
