"""What a training does and leaves: its log lines, gradients, samples and calls, and what two of them have in common."""

import copy
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import torch
from transformers import Trainer, TrainerCallback

from llm_rl.rollout.data import Sample
from llm_rl.rollout.trainer import RolloutTrainer
from llm_rl.training.sharding import whole

Run = TypeVar("Run", bound=Trainer)


def trained(run: Run, **options: Any) -> Run:
    """A trainer that has trained, with options of `train`."""
    run.train(**options)
    return run


def logged(run: Any, **options: Any) -> list[dict[str, float]]:
    """The log lines of a training."""
    return trained(run, **options).state.log_history


def gradients_of(run: Any) -> list[dict[str, torch.Tensor]]:
    """What the optimizer is about to apply at each step of a training."""
    kept = KeepGradients()
    run.add_callback(kept)
    run.train()
    return kept.steps


class KeepGradients(TrainerCallback):
    """Copies what the optimizer is about to apply at each step."""

    def __init__(self) -> None:
        self.steps: list[dict[str, torch.Tensor]] = []

    def on_pre_optimizer_step(self, args, state, control, model=None, **kwargs):  # type: ignore[no-untyped-def]
        named = ((name, param) for name, param in model.named_parameters() if param.grad is not None)
        self.steps.append({name: whole(param.grad).clone() for name, param in named})


class KeepSteps(KeepGradients):
    """The weights before each step as well."""

    def __init__(self) -> None:
        super().__init__()
        self.weights: list[dict[str, torch.Tensor]] = []

    def on_pre_optimizer_step(self, args, state, control, model=None, **kwargs):  # type: ignore[no-untyped-def]
        super().on_pre_optimizer_step(args, state, control, model=model, **kwargs)
        self.weights.append(copy.deepcopy(model.state_dict()))


def keep_samples(run: RolloutTrainer) -> list[Sample]:
    """The samples that are drawn, from now on."""
    samples: list[Sample] = []
    original = run._generate_completions

    def keeping(*args: Any, **kwargs: Any) -> list[Sample]:
        samples.extend(drawn := original(*args, **kwargs))
        return drawn

    run._generate_completions = keeping  # type: ignore[method-assign]
    return samples


class Call(NamedTuple):
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    result: Any


def spy(owner: Any, name: str) -> list[Call]:
    """The calls of a method, from now on."""
    calls: list[Call] = []
    original = getattr(owner, name)

    def calling(*arguments: Any, **named: Any) -> Any:
        calls.append(Call(arguments, named, original(*arguments, **named)))
        return calls[-1].result

    setattr(owner, name, calling)
    return calls


def assert_gradients(found: Mapping[str, torch.Tensor], model: Any, prefix: str = "") -> None:
    """Every parameter's gradient is what was found by its name."""
    for name, parameter in model.named_parameters():
        assert (found[prefix + name] - parameter.grad).abs().max() < 1e-6, name


def assert_same_weights(one: Any, other: Any) -> None:
    """Two models have the same weights bit for bit."""
    for name, value in one.state_dict().items():
        assert torch.equal(value, other.state_dict()[name]), name
