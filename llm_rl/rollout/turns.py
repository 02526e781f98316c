"""Conversations of several turns: the model's turns, and what answers them.

A conversation is a chain of samples, each of one turn of the model with all that stood before it; what was sampled is
never encoded again. It is trained on as one sample (`joined`), or as one a turn, so that the number of training samples
of a roll-out follows from the conversations (ms-swift's `dynamic_num_samples`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Protocol

from llm_rl.rollout.completions import completed
from llm_rl.rollout.data import Sample, plain_ids
from llm_rl.rollout.generation import GenerationEngine, SamplingParams

NextTurn = Callable[[Mapping[str, Any], list[str]], str | None]
"""From a row and the model's turns so far to the text that answers them, or None where the conversation ends.

The text stands behind the last turn as it is, tags of the chat template included.
"""


@dataclass(frozen=True)
class UnreadSample(Sample):
    """The last turn of a conversation that has no turn or no room left to read the tokens that answer it, `unread`."""

    unread: list[int] = field(default_factory=list)

    @property
    def cut_off(self) -> bool:
        """True."""
        return True

    @property
    def state_behind(self) -> list[int]:
        """The tokens that a next turn would follow."""
        return [*super().state_behind, *self.unread]


class Partner(Protocol):
    """What the model talks with in the conversations of a roll-out."""

    def cut(self, sample: Sample) -> Sample:
        """A turn that was just sampled, up to where it counts."""

    def answer(self, index: int, sample: Sample) -> Sequence[int] | None:
        """The tokens that stand behind the last turn of conversation `index`, or None where it ends.

        Asked once for each turn that has an end, of the last one too: what no turn reads says that it was cut off.
        """


class TextPartner:
    """Answers by a function from texts to texts; the tokenizer decodes turns and encodes answers."""

    def __init__(self, next_turn: NextTurn, tokenizer: Any) -> None:
        self._next_turn, self._tokenizer = next_turn, tokenizer

    def cut(self, sample: Sample) -> Sample:
        """The turn as it is."""
        return sample

    def answer(self, index: int, sample: Sample) -> Sequence[int] | None:
        """The tokens of what the function returns; `TypeError` where that is neither a text nor None."""
        answer = self._next_turn(sample.row, texts_of(sample, self._tokenizer))
        if answer is None:
            return None
        if not isinstance(answer, str):
            raise TypeError(f"next_turn returned a {type(answer).__name__}; it must return a text or None")
        return plain_ids(answer, self._tokenizer)


def turns_of(sample: Sample) -> list[Sample]:
    """The turns of the model in a conversation, in order; the last one is the sample itself."""
    return [*sample.earlier, sample]


def joined(sample: Sample) -> Sample:
    """A conversation as one sample: the first prompt, then all turns of the model and, as `given`, what answered them.

    Log-probabilities of the engine are 0 at given tokens; None where a turn has none.
    """
    turns = turns_of(sample)
    start = len(turns[0].prompt_ids)
    ids = [*sample.prompt_ids, *sample.completion_ids][start:]
    given, logprobs = [True] * len(ids), [0.0] * len(ids)
    for turn in turns:
        own = slice(len(turn.prompt_ids) - start, len(turn.prompt_ids) - start + len(turn.completion_ids))
        given[own] = [False] * len(turn.completion_ids)
        logprobs[own] = turn.engine_logprobs or [0.0] * len(turn.completion_ids)
    known = all(turn.engine_logprobs is not None for turn in turns)
    return replace(
        sample,
        prompt_ids=turns[0].prompt_ids,
        completion_ids=ids,
        engine_logprobs=logprobs if known else None,
        given=given if any(given) else None,
        earlier=(),
    )


def play_turns(
    encoded: Iterable[tuple[Mapping[str, Any], list[int]]],
    partner: Partner,
    max_turns: int,
    engine: GenerationEngine,
    params: SamplingParams,
    room: int | None,
    at_once: int | None = None,
) -> Iterator[tuple[int, Sample]]:
    """Plays conversations to their ends.

    A conversation ends where the partner says so. It is cut off (`Sample.cut_off`) after `max_turns`, at a turn without
    end token, and where the model has no room for a longest turn.

    Args:
        encoded: Each row with the tokens of its prompt; asked for one when its conversation begins.
        partner: What answers the model.
        max_turns: The model's turns at most, ≥ 1.
        engine: What samples; it has the policy's weights.
        params: How to sample.
        room: Positions of the model. None: no bound.
        at_once: Conversations side by side; where one ends the next one begins. None: all.

    Yields:
        As each conversation ends, its number and its last turn, with the `earlier` ones; token in, token out.

    Raises:
        ValueError: The engine broke its contract.
    """
    waiting = enumerate(encoded)
    asked: list[tuple[int, Mapping[str, Any], list[int], tuple[Sample, ...]]] = []
    while True:
        free = None if at_once is None else at_once - len(asked)
        asked += [(index, row, ids, ()) for index, (row, ids) in islice(waiting, free)]
        if not asked:
            return
        prompts = [(row, ids) for _, row, ids, _ in asked]
        found = completed(prompts, engine, params)
        played, asked = asked, []
        for (index, row, _, earlier), sample in zip(played, found, strict=True):
            turn = replace(partner.cut(sample), earlier=earlier)
            added = None if turn.truncated else partner.answer(index, turn)
            # Answered, it goes on while there are turns and room; else what answered it was never read.
            if added is not None:
                ids = [*turn.prompt_ids, *turn.completion_ids, *added]
                if len(earlier) + 1 < max_turns and (room is None or len(ids) + params.max_new_tokens <= room):
                    asked.append((index, row, ids, (*earlier, replace(turn, earlier=()))))
                    continue
                turn = UnreadSample(**vars(turn), unread=list(added))
            yield index, turn


def texts_of(sample: Sample, tokenizer: Any) -> list[str]:
    """The texts of the model's turns, without special tokens."""
    return [tokenizer.decode(turn.completion_ids, skip_special_tokens=True) for turn in turns_of(sample)]
