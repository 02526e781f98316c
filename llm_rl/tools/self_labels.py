"""Labels that a model makes itself: calls in answers, kept where their results help to predict what follows.

Source: Toolformer (arXiv:2302.04761, section 2). Calls are proposed where the model finds them likely, made, and kept
where the loss of what follows falls by a threshold. Where this departs: the paper puts a call and its result in front
of the whole text, as its model has never seen them within; here they stand where they are trained on later, in a turn
and a message of their own, of which the chat template has told the model.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from llm_rl.core._checks import check_mask, check_positive
from llm_rl.rollout.completions import completed, sampling_params
from llm_rl.rollout.data import RolloutBatch, Sample, check_row, encode_prompt, named_place, plain_ids
from llm_rl.rollout.generation import GenerationEngine, TransformersEngine
from llm_rl.rollout.scoring import PolicyScorer, causal_model, positions_of
from llm_rl.rollout.spans import exact_text, incremental_offsets
from llm_rl.tools.calls import CallError, CallFormat, ToolCall
from llm_rl.tools.template import ResultFrame, check_shows_tools
from llm_rl.tools.toolbox import Toolbox
from llm_rl.training.modes import evaluation_mode


def following_loss(logprobs: Tensor, mask: Tensor, reach: int = 5) -> Tensor:
    """L = −Σ_t w_t log p(x_t) of the tokens behind a place, w_t = max(0, 1 − t / reach) / Σ_s max(0, 1 − s / reach).

    The sum that the weights are divided by runs over all `reach` of them, also where fewer tokens follow. With a reach
    of 5 these are the weights of Toolformer (arXiv:2302.04761, section 4.1), with 1 the next token alone counts.

    Args:
        logprobs: `(B, T)`, log p of the tokens that follow, t = 0, 1, …
        mask: bool `(B, T)`, the tokens that are there.
        reach: The tokens that have a weight, ≥ 1.

    Returns:
        `(B,)`.

    Raises:
        ValueError: The mask does not fit, or the reach is below 1.
    """
    check_mask(mask, "logprobs", logprobs)
    check_positive("reach", reach)
    places = torch.arange(logprobs.shape[1], dtype=logprobs.dtype, device=logprobs.device)
    weights = (1 - places / reach).clamp(min=0) / ((reach + 1) / 2)  # (T,)
    return -(logprobs.masked_fill(~mask, 0.0) * weights).sum(1)


@dataclass(frozen=True)
class SelfLabelOptions:
    """How calls are proposed and chosen; defaults are those of arXiv:2302.04761, section 4.1.

    Attributes:
        positions: Places of an answer at which calls are sampled, at most: those where a call is likeliest (k).
        sampling_threshold: The least probability that a call begins there (τ_s).
        calls: Calls that are sampled at a place (m).
        filter_threshold: What the loss has to fall by, in nats (τ_f).
        reach: Tokens behind a place that count in the loss, the nearest most (`following_loss`).
        max_call_tokens: Longest call in tokens; what has no end by then is no call.
        max_result_tokens: Longest result in tokens; a longer one is not used.
        batch_size: Sequences that the model reads at a time.

    Raises:
        ValueError: A value is out of range.
    """

    positions: int = 5
    sampling_threshold: float = 0.05
    calls: int = 5
    filter_threshold: float = 1.0
    reach: int = 5
    max_call_tokens: int = 64
    max_result_tokens: int = 256
    batch_size: int = 16

    def __post_init__(self) -> None:
        for name in ("positions", "calls", "reach", "max_call_tokens", "max_result_tokens", "batch_size"):
            check_positive(name, getattr(self, name))
        if not 0 <= self.sampling_threshold < 1:
            raise ValueError(f"sampling_threshold is {self.sampling_threshold}; it must be at least 0 and below 1")


class SelfLabels(NamedTuple):
    """What `self_labelled_rows` found.

    Attributes:
        rows: The rows with a call that helps, as `TrajectoryDataset` takes them: "completion" has the answer in turns,
            "gains" what each call lowers the loss by; their other columns as they were.
        counts: "rows" and "places" that were looked at, calls "sampled", of which "unreadable" or not "returned" by
            their tool, and "kept".
    """

    rows: list[dict[str, Any]]
    counts: dict[str, int]


@dataclass
class _Place:
    """A place in an answer with the calls that were made there."""

    token: int
    character: int
    calls: list[tuple[str, str]] = field(default_factory=list)  # the call as it is written, and its result


class _Label(NamedTuple):
    """The best call of a place."""

    gain: float
    character: int
    call: str
    result: str


def self_labelled_rows(
    model: nn.Module,
    tokenizer: Any,
    rows: Sequence[Mapping[str, Any]],
    tools: Sequence[Callable[..., Any]],
    *,
    options: SelfLabelOptions | None = None,
    call_format: CallFormat | None = None,
    engine: GenerationEngine | None = None,
) -> SelfLabels:
    """Put calls of tools into answers, where their results help the model to predict what follows.

    At each place i of an answer x the model may begin a call; at the likeliest ones calls c are sampled and made, with
    results r. A call is kept where min(L_i(∅), L_i(c, ∅)) − L_i(c, r) ≥ `filter_threshold`, L_i being the weighted loss
    of x from i on, behind nothing, the call with an empty result, or the call with its result. Of several at one place
    the best stays.

    Args:
        model: A causal language model that writes calls now and then: an instruct model that the prompt tells of the
            tools, or one that has seen examples.
        tokenizer: The tokenizer, with an end token and a chat template that shows tools.
        rows: Rows with a "prompt", messages, and "chosen", the answer.
        tools: The tools, functions without lasting effects: calls that are dropped have been made too.
        options: How calls are proposed and chosen. None: as in the paper.
        call_format: How calls are written. None: as `CallFormat` has it.
        engine: What samples calls. None: `TransformersEngine`.

    Raises:
        ValueError: A row has no messages as "prompt" or no text as "chosen", or is too long for the model; a tool or
            the chat template is not fit.
    """
    labeller = _Labeller(model, tokenizer, tools, options or SelfLabelOptions(), call_format or CallFormat(), engine)
    labelled = []
    with torch.no_grad(), evaluation_mode(model):
        for index in range(len(rows)):
            with named_place(f"row {index}"):
                labels, answer = labeller.label(rows[index])
            if labels:
                labelled.append(
                    {**rows[index], "completion": _turns(answer, labels), "gains": [x.gain for x in labels]}
                )
    return SelfLabels(labelled, labeller.counts)


def _turns(answer: str, labels: Sequence[_Label]) -> list[dict[str, str]]:
    """The messages of an answer with calls, whose labels are in order."""
    messages, begin = [], 0
    for label in labels:
        messages.append({"role": "assistant", "content": answer[begin : label.character] + label.call})
        messages.append({"role": "tool", "content": label.result})
        begin = label.character
    return [*messages, {"role": "assistant", "content": answer[begin:]}]


class _Labeller:
    """Finds calls for one row after the other; arguments as in `self_labelled_rows`."""

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Any,
        tools: Sequence[Callable[..., Any]],
        options: SelfLabelOptions,
        call_format: CallFormat,
        engine: GenerationEngine | None,
    ) -> None:
        self._model, self._tokenizer, self._options, self._format = model, tokenizer, options, call_format
        self._toolbox = Toolbox(tools)
        check_shows_tools(tokenizer, self._toolbox.schemas, {})
        self._frame = ResultFrame(tokenizer, {})
        self._scorer = PolicyScorer(model, temperature=1.0)
        self._params = sampling_params(causal_model(model), tokenizer, options.max_call_tokens, temperature=1.0)
        self._engine = TransformersEngine(options.batch_size) if engine is None else engine
        self._engine.load_weights(causal_model(model))
        self.counts = dict.fromkeys(("rows", "places", "sampled", "unreadable", "returned", "kept"), 0)

    def label(self, row: Mapping[str, Any]) -> tuple[list[_Label], str]:
        """The calls that help in one row, in order, and its answer."""
        answer = row.get("chosen")
        if not isinstance(answer, str) or isinstance(check_row(row)["prompt"], str):
            raise ValueError(f"'prompt' must be messages and 'chosen' a text, the answer; the row is {str(row)[:200]}")
        prompt = encode_prompt(row["prompt"], self._tokenizer, {"tools": self._toolbox.schemas})
        ids = self._encode(answer)
        self._check_room(len(prompt) + len(ids))
        self.counts["rows"] += 1

        places = self._places(prompt, ids)
        self._propose(prompt, ids, places)
        labels = []
        for place in places:
            gains = self._gains(prompt, ids, place)
            best = max(zip(gains, place.calls, strict=True), default=None, key=lambda pair: pair[0])
            if best is not None and best[0] >= self._options.filter_threshold:
                labels.append(_Label(best[0], place.character, *best[1]))
        self.counts["kept"] += len(labels)
        return labels, answer

    def _places(self, prompt: list[int], ids: list[int]) -> list[_Place]:
        """Where a call is likeliest to begin, in order; not within a character of several tokens."""
        offsets = incremental_offsets(ids, self._tokenizer).offsets
        ends = [0, *(stop for _, stop in offsets)]
        found = [_Place(i, start) for i, (start, _) in enumerate(offsets) if start == ends[i]]
        start = self._encode(self._format.start)
        logprobs, mask = self._score([(prompt + ids[: place.token], start) for place in found])
        likely = logprobs.masked_fill(~mask, 0.0).sum(1).exp().tolist()  # p(call begins at i)
        ranked = sorted(zip(likely, found, strict=True), key=lambda pair: -pair[0])[: self._options.positions]
        chosen = [place for p, place in ranked if p > self._options.sampling_threshold]
        self.counts["places"] += len(chosen)
        return sorted(chosen, key=lambda place: place.token)

    def _propose(self, prompt: list[int], ids: list[int], places: Sequence[_Place]) -> None:
        """Samples calls at each place and makes them; each call once a place."""
        start = self._encode(self._format.start)
        repeated = [place for place in places for _ in range(self._options.calls)]
        encoded: list[Any] = [({}, prompt + ids[: place.token] + start) for place in repeated]
        if not encoded:
            return
        for place, sample in zip(repeated, completed(encoded, self._engine, self._params), strict=True):
            self.counts["sampled"] += 1
            body, ended, _ = exact_text(self._tokenizer, sample.completion_ids).partition(self._format.end)
            call = self._read(body) if ended else None
            if call is None:
                self.counts["unreadable"] += 1
                continue
            written = f"{self._format.start}{body}{self._format.end}"
            if written in [known for known, _ in place.calls]:
                continue
            result = self._toolbox.call(call)
            if result.outcome == "returned" and len(self._frame.encode(result.text)) <= self._options.max_result_tokens:
                self.counts["returned"] += 1
                place.calls.append((written, result.text))

    def _read(self, body: str) -> ToolCall | None:
        """The one call between two tags; None for none or several."""
        try:
            calls = self._format.read(body)
        except CallError:
            return None
        return calls[0] if len(calls) == 1 else None

    def _gains(self, prompt: list[int], ids: list[int], place: _Place) -> list[float]:
        """What each call of a place lowers the loss of what follows by."""
        if not place.calls:
            return []
        before = prompt + ids[: place.token]
        contexts = [before]
        for call, result in place.calls:
            turn = [*before, *self._encode(call), self._tokenizer.eos_token_id]
            for said in ("", result):
                contexts.append(turn + self._frame.between([self._frame.encode(said)], turn[-1]))
        following = ids[place.token : place.token + self._options.reach]
        logprobs, mask = self._score([(context, following) for context in contexts])
        plain, *others = following_loss(logprobs, mask, self._options.reach).tolist()
        return [min(plain, empty) - full for empty, full in zip(others[::2], others[1::2], strict=True)]

    def _score(self, parts: Sequence[tuple[list[int], list[int]]]) -> tuple[Tensor, Tensor]:
        """Log-probabilities `(B, T)` of tokens behind contexts, and the mask of those that are there."""
        samples = [Sample({}, context, following, truncated=True) for context, following in parts]
        longest, size = max((len(following) for _, following in parts), default=1), self._options.batch_size
        logprobs, masks = [torch.zeros(0, longest)], [torch.zeros(0, longest, dtype=torch.bool)]
        for begin in range(0, len(samples), size):
            device = next(self._model.parameters()).device
            batch = RolloutBatch.collate(samples[begin : begin + size], self._params.pad_token_id, device=device)
            missing = (0, longest - batch.completion_ids.shape[1])
            logprobs.append(nn.functional.pad(self._scorer(self._model, batch).logprobs.cpu(), missing))
            masks.append(nn.functional.pad(batch.completion_mask.cpu(), missing))
        return torch.cat(logprobs), torch.cat(masks)

    def _encode(self, text: str) -> list[int]:
        return plain_ids(text, self._tokenizer)

    def _check_room(self, length: int) -> None:
        room = positions_of(self._model)
        frame = len(self._frame.between([[]], self._tokenizer.eos_token_id)) + len(self._encode(self._format.start))
        longest = length + frame + self._options.max_call_tokens + self._options.max_result_tokens
        if room is not None and longest > room:
            raise ValueError(
                f"{length} tokens of prompt and answer, and up to {longest - length} of a call and its result, exceed "
                f"the model's {room} positions; shorten them, or lower max_call_tokens or max_result_tokens"
            )
