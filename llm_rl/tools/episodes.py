"""Episodes: what tools answer to the turns of a roll-out's conversations, and what is counted of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from llm_rl.core import MetricAccumulator
from llm_rl.rollout.data import Sample, text_messages
from llm_rl.rollout.rewards import listed
from llm_rl.rollout.spans import exact_text, incremental_offsets
from llm_rl.rollout.special_tokens import break_tokens, special_tokens
from llm_rl.rollout.turns import joined, texts_of, turns_of
from llm_rl.tools.calls import CallError, CallFormat, find_calls
from llm_rl.tools.template import ResultFrame
from llm_rl.tools.toolbox import Toolbox, ToolResult, methods_of

MADE_UP = "Error: you wrote a result yourself. Call a tool and end your message; its result comes in the next one."


@dataclass
class Episode:
    """One conversation with tools.

    Attributes:
        environment: What the tools are methods of; None where they are functions.
        functions: The tools by name; None where they are those of all episodes.
        results: What was answered to each turn that has an end, a text a call; none for a final answer.
        outcomes: How often each outcome of a call occurred, and "unparsed".
        made_up: Turns that were cut for a result that the model wrote itself.
        cut_results: Results that were cut to `max_result_tokens`.
    """

    environment: Any = None
    functions: Mapping[str, Callable[..., Any]] | None = None
    results: list[list[str]] = field(default_factory=list)
    outcomes: dict[str, int] = field(default_factory=dict)
    made_up: int = 0
    cut_results: int = 0

    @property
    def over(self) -> bool:
        """Whether a call did not come back, so that the state of the environment is not known."""
        return self.environment is not None and "timed_out" in self.outcomes


def offered(
    tools: Sequence[Callable[..., Any]] | None, environment_factory: Callable[[], Any] | None, reward_funcs: Any
) -> tuple[Toolbox | None, Any]:
    """The tools, those of an environment where one is made, and the reward functions with what that pays.

    Errors are those of `Toolbox`, and a `ValueError` where there is no tool.
    """
    if environment_factory is not None:
        example = environment_factory()
        tools = [*methods_of(example).values()]
        if hasattr(example, "get_reward"):
            reward_funcs = [*([] if reward_funcs is None else listed(reward_funcs)), environment_reward]
    if tools is not None and not tools:
        raise ValueError("there is no tool; give functions, or an environment with public methods")
    return None if tools is None else Toolbox(tools), reward_funcs


def new_episode(environment_factory: Callable[[], Any] | None) -> Episode:
    """A conversation that is about to begin, with an environment of its own where there is something that makes one."""
    if environment_factory is None:
        return Episode()
    environment = environment_factory()
    return Episode(environment, methods_of(environment))


def begin(episode: Episode, row: Mapping[str, Any], tokenizer: Any) -> Mapping[str, Any]:
    """The row, its prompt ending with what `reset` says (a text or None, else a `TypeError`), special tokens broken."""
    said = episode.environment.reset(**row) if hasattr(episode.environment, "reset") else None
    if said is None:
        return row
    if not isinstance(said, str):
        raise TypeError(f"reset of the environment returned a {type(said).__name__}; it must be a text or None")
    *before, last = text_messages(row["prompt"])
    said = break_tokens(said, special_tokens(tokenizer))
    return {**row, "prompt": [*before, {**last, "content": f"{last.get('content', '')}{said}"}]}


def environment_reward(environments: Sequence[Any], **columns: Any) -> list[float]:
    """The reward function of environments: what `get_reward` of each says at the end of its episode."""
    return [environment.get_reward() for environment in environments]


def spoken(sample: Sample, tokenizer: Any) -> list[dict[str, str]]:
    """The messages of a conversation after its prompt: a turn, the results that it was answered by, the next turn."""
    *texts, last = texts_of(sample, tokenizer)
    messages = []
    for text, results in zip(texts, sample.episode.results, strict=False):
        messages.append({"role": "assistant", "content": text})
        messages += [{"role": "tool", "content": result} for result in results]
    return [*messages, {"role": "assistant", "content": last}]


class EpisodePartner:
    """What answers the model in the conversations of one roll-out: the results of its calls. See `turns.Partner`.

    `episodes` are by the number of the conversation. A result longer than `max_result_tokens` is cut, and a tool has
    `timeout` seconds, with None no limit.
    """

    def __init__(
        self,
        episodes: Sequence[Episode] | Mapping[int, Episode],
        toolbox: Toolbox,
        frame: ResultFrame,
        call_format: CallFormat,
        tokenizer: Any,
        max_result_tokens: int,
        timeout: float | None,
    ) -> None:
        self.episodes, self._toolbox, self._frame = episodes, toolbox, frame
        self._format, self._tokenizer = call_format, tokenizer
        self._max_result_tokens, self._timeout = max_result_tokens, timeout

    def cut(self, sample: Sample) -> Sample:
        """A turn up to the token with which a result begins that the model makes up; then the turn has ended."""
        text, offsets = incremental_offsets(sample.completion_ids, self._tokenizer)
        place = text.find(self._format.result_start)
        if place < 0:
            return sample
        last = place + len(self._format.result_start)
        kept = next(index for index, (_, stop) in enumerate(offsets) if stop >= last) + 1
        logprobs = None if sample.engine_logprobs is None else sample.engine_logprobs[:kept]
        return replace(sample, completion_ids=sample.completion_ids[:kept], engine_logprobs=logprobs, truncated=False)

    def answer(self, index: int, sample: Sample) -> Sequence[int] | None:
        """Calls the tools of a turn: the tokens of their results as the template frames them, or None."""
        episode = self.episodes[index]
        results = self._results(episode, exact_text(self._tokenizer, sample.completion_ids))
        encoded = []
        for result in results:
            ids = self._frame.encode(result)
            episode.cut_results += len(ids) > self._max_result_tokens
            encoded.append(ids[: self._max_result_tokens])
        episode.results.append(results)
        if not results or episode.over:
            return None
        return self._frame.between(encoded, sample.completion_ids[-1])

    def _results(self, episode: Episode, text: str) -> list[str]:
        """The text that answers each call of a turn."""
        spoken, made_up, _ = text.partition(self._format.result_start)
        episode.made_up += bool(made_up)
        calls = find_calls(spoken, self._format)
        results = []
        for call in calls:
            if episode.over:
                break
            if isinstance(call, CallError):
                result = ToolResult(f"Error: {call}.", "refused")
                episode.outcomes["unparsed"] = episode.outcomes.get("unparsed", 0) + 1
            else:
                result = self._toolbox.call(call, episode.functions, self._timeout)
                episode.outcomes[result.outcome] = episode.outcomes.get(result.outcome, 0) + 1
            results.append(result.text)
        return [MADE_UP] if made_up and not calls else results


def record_episodes(metrics: MetricAccumulator, samples: Sequence[Sample], episodes: Sequence[Episode]) -> None:
    """Adds what is counted of episodes: "tool_calls" and "given_tokens", those between the model's turns, an episode.

    Of the calls these are the shares "tool_unparsed_frac", "tool_refused_frac", "tool_raised_frac",
    "tool_timed_out_frac" and "result_cut_frac", of the turns "made_up_result_frac".
    """
    count = len(episodes)
    calls = sum(sum(episode.outcomes.values()) for episode in episodes)
    turns = sum(len(turns_of(sample)) for sample in samples)
    metrics.add_ratio("tool_calls", calls, count)
    metrics.add_ratio("given_tokens", sum(sum(joined(sample).given or []) for sample in samples), count)
    for name in ("unparsed", "refused", "raised", "timed_out"):
        metrics.add_ratio(f"tool_{name}_frac", sum(episode.outcomes.get(name, 0) for episode in episodes), calls)
    results = sum(len(texts) for episode in episodes for texts in episode.results)
    metrics.add_ratio("result_cut_frac", sum(episode.cut_results for episode in episodes), results)
    metrics.add_ratio("made_up_result_frac", sum(episode.made_up for episode in episodes), turns)
