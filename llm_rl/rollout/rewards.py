"""Reward functions: how they are called, and errors that name the function and the sample.

A reward function takes keyword arguments and returns one number a completion, or None where it does not apply; it may
be a coroutine function:

    def length_reward(completions, **kwargs):
        return [-float(len(text)) for text in completions]

It gets `prompts`, `completions`, `completion_ids` and every other column of the data set, lists of equal length. Where
it takes them (by name or `**kwargs`) it gets `cut_off`, for each completion whether it ended for want of length, turns
or room; `trainer_state`, transformers' `TrainerState`; and `log_metric(name, value)`, which adds a number to the next
log line, averaged over calls.
"""

import asyncio
import inspect
import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from llm_rl.rollout.reward_model import RewardModel

logger = logging.getLogger(__name__)
RewardFunction = Callable[..., Any]
RewardFunctionsGiven = RewardFunction | str | Path | Sequence[RewardFunction | str | Path]
RESERVED = ("prompts", "completions", "completion_ids", "cut_off", "trainer_state", "log_metric")
MAX_REWARD = 1e15
"""Largest magnitude: squares of rewards still add up in float32, for the standard deviation of a group."""


class RewardError(RuntimeError):
    """A reward function failed or returned something other than one finite number or None a sample."""


class RewardFunctions:
    """Several reward functions and their weights.

    `functions` are one or several; a folder or name of a classifier stands for its `RewardModel`. Weights are one a
    function, None: all 1. With `leave_out` a completion that no function scores is let through, with a warning; else it
    is an error.

    Attributes:
        names: A different one for each function, for metrics and errors.
        weights: float64 `(F,)`.

    Raises:
        ValueError: There is no function, the number of weights is another, or one of the reasons of `RewardModel`.
    """

    def __init__(
        self, functions: RewardFunctionsGiven, weights: Sequence[float] | None = None, *, leave_out: bool = False
    ) -> None:
        self.leave_out = leave_out
        self.functions = [_loaded(each) for each in listed(functions)]
        if not self.functions or not all(callable(function) for function in self.functions):
            raise ValueError(f"reward_funcs is {functions!r}; pass a callable or a list of callables")
        weights = [1.0] * len(self.functions) if weights is None else weights
        if len(weights) != len(self.functions):
            raise ValueError(f"reward_weights has {len(weights)} entries for {len(self.functions)} reward functions")
        self.weights = torch.tensor(weights, dtype=torch.float64)
        bare = [getattr(function, "__name__", type(function).__name__) for function in self.functions]
        self.names = [name if bare.count(name) == 1 else f"{name}_{index}" for index, name in enumerate(bare)]

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        completion_ids: Sequence[list[int]],
        columns: Mapping[str, Sequence[Any]],
        extras: Mapping[str, Any] | None = None,
        offered: Mapping[str, Sequence[Any]] | None = None,
    ) -> Tensor:
        """What each function says of each of N samples, float64 `(N, F)`; NaN where a function returned None.

        A prompt is there as often as it has completions. These are texts, or lists of one assistant message where the
        prompt is a list of messages. `columns` are the other ones of the data set. A function that takes them gets
        `extras`, further arguments, and `offered`, further columns.

        Raises:
            RewardError: A function raised, returned another number of rewards or one that is neither a finite number
                nor None, or no function applies to a sample and it may not be left out.
            ValueError: A column has the name of an argument.
        """
        for name in RESERVED:
            if name in columns:
                raise ValueError(f"the data set has a column {name!r}, which reward functions get already; rename it")
        arguments = {"prompts": prompts, "completions": completions, "completion_ids": completion_ids, **columns}
        given = [_taken(function, extras or {}) for function in self.functions]
        columns_of = [arguments | _taken(function, offered or {}) for function in self.functions]
        outputs = _call_all(self.functions, columns_of, given)
        rewards = torch.empty(len(prompts), len(self.functions), dtype=torch.float64)
        for column, (name, output) in enumerate(zip(self.names, outputs, strict=True)):
            if isinstance(output, Exception):
                index = self._failing_sample(self.functions[column], columns_of[column], given[column])
                where = "the batch, though on no sample alone" if index is None else _describe(arguments, index)
                raise RewardError(
                    f"reward function {name!r} raised {type(output).__name__}: {output} on {where}"
                ) from output
            rewards[:, column] = torch.tensor(_checked(name, output, arguments), dtype=torch.float64)
        if unscored := rewards.isnan().all(1).nonzero().flatten().tolist():
            said = f"no reward function of {self.names} applies to {_describe(arguments, unscored[0])}"
            if not self.leave_out:
                raise RewardError(f"{said}: all returned None")
            logger.warning("%s and %d others of %d; they are left out", said, len(unscored) - 1, len(prompts))
        return rewards

    def total(self, rewards: Tensor) -> Tensor:
        """Weighted sums of rewards `(N, F)` over the functions that apply, float64 `(N,)`; NaN where one does not.

        Where no function applies it is 0, or NaN where that is left out.
        """
        total = (rewards * self.weights.to(rewards.device)).nansum(1)
        return total.masked_fill(rewards.isnan().all(1), torch.nan) if self.leave_out else total

    @staticmethod
    def _failing_sample(
        function: RewardFunction, arguments: Mapping[str, Sequence[Any]], extras: Mapping[str, Any]
    ) -> int | None:
        """The first sample on which the function fails alone."""
        for index in range(len(arguments["prompts"])):
            alone = {name: values[index : index + 1] for name, values in arguments.items()}
            if isinstance(_call_all([function], [alone], [extras])[0], Exception):
                return index
        return None


def listed(functions: Any) -> list[Any]:
    """One reward function or several as a list; a folder's name is one."""
    return list(functions) if isinstance(functions, Sequence) and not isinstance(functions, str) else [functions]


def _loaded(function: Any) -> RewardFunction:
    if isinstance(function, nn.Module):
        raise ValueError(
            f"a {type(function).__name__} is no reward function; give RewardModel(model, tokenizer), its folder, or a "
            "function that calls it"
        )
    return RewardModel(function) if isinstance(function, (str, Path)) else function


def _taken(function: RewardFunction, extras: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the arguments that a function takes, by name or by `**kwargs`; none where that cannot be told."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    return {name: value for name, value in extras.items() if takes_all or name in parameters}


def _call_all(
    functions: Sequence[RewardFunction], arguments: Sequence[Mapping[str, Any]], extras: Sequence[Mapping[str, Any]]
) -> list[Any]:
    """What each function returned or raised; those that wait do so together, the others run one after the other."""
    outputs: list[Any] = []
    for function, columns, further in zip(functions, arguments, extras, strict=True):
        try:
            outputs.append(function(**columns, **further))
        except Exception as error:
            outputs.append(error)
    waiting = [index for index, output in enumerate(outputs) if inspect.isawaitable(output)]
    if waiting:
        for index, output in zip(waiting, _await_all([outputs[index] for index in waiting]), strict=True):
            outputs[index] = output
    return outputs


def _await_all(awaitables: Sequence[Awaitable[Any]]) -> list[Any]:
    """Results or exceptions; in a thread of their own where an event loop runs already, as in a notebook."""

    async def together() -> list[Any]:
        return await asyncio.gather(*awaitables, return_exceptions=True)

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, together()).result()


def _checked(name: str, output: Any, arguments: Mapping[str, Sequence[Any]]) -> list[float]:
    values = output.tolist() if hasattr(output, "tolist") else output
    count = len(arguments["prompts"])
    if not isinstance(values, (list, tuple)):
        raise RewardError(f"reward function {name!r} returned a {type(output).__name__}; it must return a list")
    if len(values) != count:
        raise RewardError(
            f"reward function {name!r} returned {len(values)} rewards for {count} completions; return one for each, in "
            "their order, and None where it does not apply"
        )
    result = []
    for index, value in enumerate(values):
        try:
            number = math.nan if value is None else math.inf if isinstance(value, (str, bytes)) else float(value)
        except (TypeError, ValueError):
            number = math.inf
        if value is not None and not abs(number) <= MAX_REWARD:
            raise RewardError(
                f"reward function {name!r} returned {value!r} for {_describe(arguments, index)}; return a finite "
                f"number, at most {MAX_REWARD:g} in magnitude, or None where it does not apply"
            )
        result.append(number)
    return result


def _describe(arguments: Mapping[str, Sequence[Any]], index: int) -> str:
    prompt, completion = (str(arguments[name][index]) for name in ("prompts", "completions"))
    return f"sample {index} (prompt …{prompt[-80:]!r}, completion {completion[:80]!r})"
