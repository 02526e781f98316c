"""Conversations of several turns: each turn of the model is a training sample, all of them with one reward.

The number of training samples of a roll-out so follows from the conversations (ms-swift's `dynamic_num_samples`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from llm_rl.rollout.completions import as_samples
from llm_rl.rollout.data import Sample
from llm_rl.rollout.generation import GenerationEngine, SamplingParams

NextTurn = Callable[[Mapping[str, Any], list[str]], str | None]
"""From a row and the model's turns so far to the text that answers them, or None where the conversation ends.

The text stands behind the last turn as it is, tags of the chat template included.
"""


def turns_of(sample: Sample) -> list[Sample]:
    """The turns of the model in a conversation, in order; the last one is the sample itself."""
    return [*sample.earlier, sample]


def play_turns(
    samples: Sequence[Sample],
    next_turn: NextTurn,
    max_turns: int,
    engine: GenerationEngine,
    tokenizer: Any,
    params: SamplingParams,
    room: int | None,
) -> list[Sample]:
    """Goes on with conversations after the model's first turn.

    A conversation ends where `next_turn` says so, after `max_turns`, at a turn without end token, and where the model
    has no room for a longest turn.

    Args:
        samples: First turns.
        next_turn: What answers the model.
        max_turns: The model's turns at most, ≥ 1.
        engine: What samples; it has the policy's weights.
        tokenizer: Decodes turns and encodes answers.
        params: How to sample.
        room: Positions of the model. None: no bound.

    Returns:
        The last turn of each conversation, with the `earlier` ones; token in, token out.

    Raises:
        TypeError: `next_turn` returned something else than a text or None.
        ValueError: The engine broke its contract.
    """
    conversations, active = list(samples), set(range(len(samples)))
    for _ in range(max_turns - 1):
        asked: list[tuple[int, list[int]]] = []
        for index in sorted(active):
            sample = conversations[index]
            answer = None if sample.truncated else next_turn(sample.row, texts_of(sample, tokenizer))
            if answer is not None and not isinstance(answer, str):
                raise TypeError(f"next_turn returned a {type(answer).__name__}; it must return a text or None")
            added = [] if answer is None else tokenizer(answer, add_special_tokens=False)["input_ids"]
            ids = [*sample.prompt_ids, *sample.completion_ids, *map(int, added)]
            if answer is not None and (room is None or len(ids) + params.max_new_tokens <= room):
                asked.append((index, ids))
        active = {index for index, _ in asked}
        if not asked:
            break
        encoded = [(conversations[index].row, ids) for index, ids in asked]
        found = as_samples(encoded, engine.generate([ids for _, ids in asked], params), params)
        for (index, _), sample in zip(asked, found, strict=True):
            before = conversations[index]
            conversations[index] = replace(sample, earlier=(*before.earlier, replace(before, earlier=())))
    return conversations


def texts_of(sample: Sample, tokenizer: Any) -> list[str]:
    """The texts of the model's turns, without special tokens."""
    return [tokenizer.decode(turn.completion_ids, skip_special_tokens=True) for turn in turns_of(sample)]
