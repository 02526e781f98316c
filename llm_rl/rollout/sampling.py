"""Completions with their rewards, in a trainer or without one."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from llm_rl.core._checks import check_count
from llm_rl.rollout.completions import sample_completions, sampling_params
from llm_rl.rollout.data import Sample, decode_completion
from llm_rl.rollout.generation import GenerationEngine, TransformersEngine
from llm_rl.rollout.loading import as_rows, load_policy
from llm_rl.rollout.pictures import blind_engine, refuse_pictures
from llm_rl.rollout.rewards import RewardFunctions, RewardFunctionsGiven
from llm_rl.rollout.scoring import causal_model


class ScoredCompletions(NamedTuple):
    """Completions and what reward functions say of them.

    Attributes:
        samples: N completions, a row's side by side; `scores` of each holds what each function said.
        completions: N texts, or lists of one assistant message where the prompt is a list of messages.
        rewards: float64 `(N,)`, weighted sums; NaN where no function scores a completion.
    """

    samples: list[Sample]
    completions: list[Any]
    rewards: Tensor


@torch.no_grad()
def sample_and_score(
    model: nn.Module | str,
    rows: Any,
    reward_funcs: RewardFunctionsGiven,
    processing_class: Any = None,
    *,
    num_generations: int = 1,
    max_completion_length: int = 256,
    temperature: float = 1.0,
    greedy: bool = False,
    reward_weights: Sequence[float] | None = None,
    chat_template_kwargs: Mapping[str, Any] | None = None,
    engine: GenerationEngine | None = None,
) -> ScoredCompletions:
    """Samples completions of each row and scores them, as a roll-out of a trainer does.

    Args:
        model: A causal language model of transformers, PEFT's wrapper of one, or a folder or name on the hub.
        rows: Rows with a "prompt" (text or messages) and any other columns, as `RolloutTrainer` takes them.
        reward_funcs: Reward functions, as `llm_rl.rollout.rewards` documents them; there is no `trainer_state`.
        processing_class: The tokenizer, or a processor, which reads pictures too. None: the tokenizer of `model`, where
            it is a folder or name.
        num_generations: Completions of each row, ≥ 1.
        max_completion_length: Longest completion in tokens.
        temperature: Temperature of sampling.
        greedy: Whether the most likely token is taken each time, instead of sampling.
        reward_weights: Weights of the reward functions. None: all 1.
        chat_template_kwargs: Arguments of the chat template, for prompts that are messages.
        engine: What samples. None: `TransformersEngine`, all completions in one batch; `TransformersEngine(64)` takes
            64 at a time.

    Returns:
        The completions and their rewards.

    Raises:
        ValueError: There are no rows, or one cannot be used; the tokenizer has no end token; the engine cannot take the
            pictures of a processor.
        RewardError: A reward function failed.
    """
    rows = as_rows(rows)
    if not len(rows):
        raise ValueError("rows is empty; give at least one row with a 'prompt'")
    check_count("num_generations", num_generations)
    model, tokenizer = load_policy(model, processing_class)
    refuse_pictures(tokenizer, *blind_engine(engine))
    causal, rewards = causal_model(model), RewardFunctions(reward_funcs, reward_weights, leave_out=True)
    params = sampling_params(causal, tokenizer, max_completion_length, temperature, greedy=greedy)
    engine = TransformersEngine(share_prompts=None) if engine is None else engine
    asked = [rows[index] for index in range(len(rows))]
    samples = sample_completions(causal, engine, tokenizer, asked, num_generations, params, chat_template_kwargs or {})
    completions = [decode_completion(sample, tokenizer) for sample in samples]
    per_function = score_samples(rewards, samples, completions)
    keep_scores(samples, per_function)
    return ScoredCompletions(samples, completions, rewards.total(per_function))


def score_samples(
    rewards: RewardFunctions,
    samples: Sequence[Sample],
    completions: Sequence[Any],
    further: Mapping[str, Sequence[Any]] | None = None,
    extras: Mapping[str, Any] | None = None,
) -> Tensor:
    """What reward functions say of N samples, float64 `(N, F)`; NaN where a function does not apply.

    They see `completions`, N texts or messages, the columns of the rows and `further` ones, N values each; and
    `extras`, arguments that a function gets that takes them.

    Raises:
        ValueError: Rows have different columns.
        RewardError: A function failed.
    """
    names = [name for name in samples[0].row if name != "prompt"]
    for sample in samples:
        if set(sample.row) != {"prompt", *names}:
            raise ValueError(
                f"one row has the columns {sorted(samples[0].row)}, another {sorted(sample.row)}; give all the same"
            )
    return rewards(
        [sample.row["prompt"] for sample in samples],
        completions,
        [sample.completion_ids for sample in samples],
        {name: [sample.row[name] for sample in samples] for name in names} | {**(further or {})},
        extras,
        {"cut_off": [sample.cut_off for sample in samples]},
    )


def keep_scores(samples: Sequence[Sample], per_function: Tensor) -> None:
    """Puts what reward functions said, `(N, F)`, into the `scores` of each sample."""
    for sample, scores in zip(samples, per_function.tolist(), strict=True):
        sample.scores[:] = scores
