"""From rows of a data set to sampled completions: encoding, the engine's contract, end tokens."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tqdm import tqdm

from llm_rl.core import MetricAccumulator
from llm_rl.rollout.data import Sample, check_row, encode_prompt, named_place
from llm_rl.rollout.generation import Completion, GenerationEngine, SamplingParams, cut_at_eos
from llm_rl.rollout.pictures import check_takes, tokenizer_of
from llm_rl.rollout.scoring import positions_of


def sampling_params(
    causal: Any, tokenizer: Any, max_new_tokens: int, temperature: float, *, greedy: bool = False
) -> SamplingParams:
    """End tokens are the tokenizer's and those of the model's settings, `ValueError` without any; one may pad."""
    tokenizer = tokenizer_of(tokenizer)
    configured = getattr(getattr(causal, "generation_config", None), "eos_token_id", None)
    ends = {tokenizer.eos_token_id, *(configured if isinstance(configured, list) else [configured])} - {None}
    if not ends:
        raise ValueError("neither tokenizer nor model has an end token; set processing_class.eos_token")
    padding = min(ends) if tokenizer.pad_token_id is None else tokenizer.pad_token_id
    return SamplingParams(max_new_tokens, temperature, tuple(sorted(ends)), padding, greedy)


def sample_completions(
    causal: Any,
    engine: GenerationEngine,
    tokenizer: Any,
    rows: Sequence[Mapping[str, Any]],
    num_generations: int,
    params: SamplingParams,
    chat_template_kwargs: Mapping[str, Any],
) -> list[Sample]:
    """So many completions of each row, a row's side by side, by an engine that takes over the weights of `causal`.

    Raises:
        ValueError: A row has no prompt, a prompt leaves no room for the longest completion, or the engine broke its
            contract.
    """
    encoded = encode_rows(rows, causal, tokenizer, num_generations, params, chat_template_kwargs)
    engine.load_weights(causal)
    return completed(encoded, engine, params)


def completed(
    encoded: Sequence[tuple[Mapping[str, Any], list[int]]], engine: GenerationEngine, params: SamplingParams
) -> list[Sample]:
    """What an engine that has its weights samples for encoded rows; errors as in `as_samples`."""
    return as_samples(encoded, engine.generate([ids for _, ids in encoded], params), params)


def encode_rows(
    rows: Sequence[Mapping[str, Any]],
    causal: Any,
    tokenizer: Any,
    num_generations: int,
    params: SamplingParams,
    chat_template_kwargs: Mapping[str, Any],
) -> list[tuple[Mapping[str, Any], list[int]]]:
    """Each row with the tokens of its prompt, as often as it gets completions; arguments as in `sample_completions`."""
    encoded = []
    for row in rows:
        encoded += [(row, prompt_ids(row, causal, tokenizer, params, chat_template_kwargs))] * num_generations
    return encoded


def as_samples(
    encoded: Sequence[tuple[Mapping[str, Any], list[int]]], completions: Sequence[Completion], params: SamplingParams
) -> list[Sample]:
    """What an engine returned for encoded rows; `ValueError` where it broke its contract."""
    if len(completions) != len(encoded):
        raise ValueError(f"the engine returned {len(completions)} completions for {len(encoded)} prompts")
    samples = []
    for (row, ids), completion in zip(encoded, completions, strict=True):
        # Engines may go on behind an end token; here the completion ends with it.
        (token_ids, logprobs), truncated = cut_at_eos(completion, params.eos_token_ids)
        if len(token_ids) > params.max_new_tokens or (logprobs is not None and len(logprobs) != len(token_ids)):
            raise ValueError(
                f"the engine returned {len(token_ids)} tokens, at most {params.max_new_tokens} are allowed, and "
                f"log-probabilities for {'none' if logprobs is None else len(logprobs)} of them"
            )
        samples.append(Sample(row, ids, token_ids, truncated, logprobs))
    return samples


def prompt_ids(
    row: Any, causal: Any, tokenizer: Any, params: SamplingParams, chat_template_kwargs: Mapping[str, Any]
) -> list[int]:
    """The tokens of a row's prompt; arguments as in `sample_completions`.

    `ValueError` where there is none, it leaves no room for a completion, or the model does not take its pictures.
    """
    ids = encode_prompt(check_row(row)["prompt"], tokenizer, chat_template_kwargs)
    check_takes(causal, ids)
    room = positions_of(causal)
    if room is not None and len(ids) + params.max_new_tokens > room:
        raise ValueError(
            f"a prompt of {len(ids)} tokens and max_completion_length = {params.max_new_tokens} exceed the model's "
            f"{room} positions; shorten one of them (prompt {str(row['prompt'])[:80]!r}…)"
        )
    return ids


def check_all_rows(name: str, rows: Any, check: Callable[[Any], object], *, quiet: bool) -> None:
    """Look at every row before training starts; a progress bar shows where that takes more than two seconds.

    `check` raises `ValueError` for a row that cannot be used, and the message then says which row of `name` it is, as
    it does for one with other columns than the first.
    """
    columns: list[str] | None = None
    for index in tqdm(range(len(rows)), desc=f"Checking {name}", delay=2, disable=quiet):
        row = rows[index]
        with named_place(f"row {index} of {name}"):
            check(row)
        columns = sorted(row) if columns is None else columns
        if sorted(row) != columns:
            raise ValueError(
                f"row {index} of {name} has the columns {sorted(row)}, the first one {columns}; give all the same"
            )


def record_lengths(metrics: MetricAccumulator, samples: Sequence[Sample]) -> None:
    """Adds "completion_length" and the shares "truncated_frac" and "empty_frac"."""
    count = len(samples)
    metrics.add_ratio("completion_length", sum(len(sample.completion_ids) for sample in samples), count)
    metrics.add_ratio("truncated_frac", sum(sample.truncated for sample in samples), count)
    metrics.add_ratio("empty_frac", sum(not sample.completion_ids for sample in samples), count)
