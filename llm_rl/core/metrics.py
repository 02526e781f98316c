"""Metrics accumulated over micro-batches and ranks, exact whatever the split."""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

Number = float | int | Tensor
MOST_WAITING = 4096  # additions for one transfer


class MetricAccumulator:
    """Adds up metrics between two log lines.

    A metric is a weighted mean, kept as numerator and denominator, a maximum, or an effective sample size. Means of
    means never occur, so the result does not depend on how a batch was split into micro-batches or over ranks. Sums are
    float64.

        metrics = MetricAccumulator()
        for batch in micro_batches:
            metrics.add_ratio("clip_frac", masked_sum(clipped, live), live.sum())
            metrics.add_max("max_abs_log_ratio", log_ratio.abs().max())
        metrics.reduce()
        log(metrics.compute())

    Values are numbers or tensors of one element. What lies on an accelerator is read in one transfer, and looked at,
    when totals are asked for. NaN and inf are kept and reported: a loss that is NaN shows as NaN.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[Callable[..., None], str, list[float | Tensor]]] = []
        self._ratios: dict[str, tuple[float, float]] = {}
        self._maxima: dict[str, float] = {}
        self._sizes: dict[str, tuple[float, float, float]] = {}
        self._reduced = False

    def add(self, name: str, value: Number, weight: Number = 1.0) -> None:
        """Adds `value` to the mean called `name`, with `weight`.

        Args:
            name: The metric.
            value: The value, such as the mean over a micro-batch.
            weight: How much it counts, such as the number of elements in that mean; ≥ 0. With weight 0 nothing is
                added, even where the value is NaN (the mean of nothing).

        Raises:
            ValueError: The weight is negative or not finite, a tensor has several elements, or the name is a maximum.
        """
        self._add(self._add_mean, name, value, weight)

    def _add_mean(self, name: str, value: float, weight: float) -> None:
        self._add_ratio(name, value * weight if weight else 0.0, weight)

    def add_ratio(self, name: str, numerator: Number, denominator: Number) -> None:
        """Adds to the numerator and the denominator of the metric called `name`.

        Args:
            name: The metric.
            numerator: For instance the number of clipped decisions; 0 where the denominator is 0.
            denominator: For instance the number of decisions; ≥ 0.

        Raises:
            ValueError: The denominator is negative or not finite, it is 0 under a numerator that is not, a tensor has
                several elements, or the name is a maximum.
        """
        self._add(self._add_ratio, name, numerator, denominator)

    def _add_ratio(self, name: str, top: float, bottom: float) -> None:
        _check_kind(name, self._maxima, self._sizes)
        if not 0 <= bottom < math.inf:
            raise ValueError(
                f"metric {name!r} got weight or denominator {bottom!r}; it must be finite and 0 or greater"
            )
        if bottom == 0 and top != 0:
            raise ValueError(
                f"metric {name!r} got numerator {top!r} over denominator 0; count both over the same elements"
            )
        old_top, old_bottom = self._ratios.get(name, (0.0, 0.0))
        self._ratios[name] = (old_top + top, old_bottom + bottom)

    def add_max(self, name: str, value: Number) -> None:
        """Raises the maximum called `name` to `value` if that is larger; NaN stays NaN.

        Raises:
            ValueError: A tensor has several elements, or the name is a mean.
        """
        self._add(self._add_max, name, value)

    def _add_max(self, name: str, value: float) -> None:
        _check_kind(name, self._ratios, self._sizes)
        self._maxima[name] = _max(self._maxima.get(name, -math.inf), value)

    def add_effective_size(self, name: str, weights: Tensor, count: Number | None = None) -> None:
        """Adds importance weights to the effective sample size called `name`, (Σw)² / (n Σw²) in [0, 1].

        Args:
            name: The metric.
            weights: Any shape, ≥ 0.
            count: n, where zeros among them stand for what does not count; None: all do.

        Raises:
            ValueError: The name is a mean or a maximum.
        """
        weights = weights.detach().double()
        of = weights.numel() if count is None else count
        self._add(self._add_size, name, weights.sum(), weights.square().sum(), of)

    def _add_size(self, name: str, first: float, second: float, count: float) -> None:
        _check_kind(name, self._ratios, self._maxima)
        old = self._sizes.get(name, (0.0, 0.0, 0.0))
        self._sizes[name] = (old[0] + first, old[1] + second, old[2] + count)

    def reduce(self) -> None:
        """Combines the metrics of all ranks: numerators and denominators are added, maxima are compared.

        A collective call: every rank makes it, and all hold the same totals afterwards. Ranks may have different names.
        Without an initialized `torch.distributed` there is one process and nothing to combine.

        Raises:
            ValueError: The metrics were already combined and `compute` was not called since, or a name is a mean
                on one rank and a maximum on another.
        """
        if self._reduced:
            raise ValueError("the metrics are combined already; call compute() before adding or combining again")
        if not (dist.is_available() and dist.is_initialized()):
            return
        states: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(states, self.state_dict())
        total = MetricAccumulator()
        for state in states:
            total.add_state(state)
        self._ratios, self._maxima, self._sizes = total._ratios, total._maxima, total._sizes
        self._reduced = True

    def add_state(self, state: dict[str, Any]) -> None:
        """Adds all that another accumulator's `state_dict` holds.

        Raises:
            ValueError: A name is a mean in one and a maximum in the other.
        """
        for name, (numerator, denominator) in state["ratios"].items():
            self.add_ratio(name, numerator, denominator)
        for name, value in state["maxima"].items():
            self.add_max(name, value)
        for name, sums in state["sizes"].items():
            self._add(self._add_size, name, *sums)

    def compute(self) -> dict[str, float]:
        """The metrics since the last call, which are then forgotten.

        Returns:
            Name → weighted mean, maximum or effective size. A mean whose denominator is 0 is absent: it has no value.
        """
        self._read()
        result = {name: top / bottom for name, (top, bottom) in self._ratios.items() if bottom > 0}
        result.update(self._maxima)
        sizes = self._sizes.items()
        result.update({name: first**2 / (count * second) for name, (first, second, count) in sizes if second > 0})
        self._ratios, self._maxima, self._sizes, self._reduced = {}, {}, {}, False
        return result

    def state_dict(self) -> dict[str, Any]:
        """What was added since the last `compute`, as plain numbers that JSON can hold."""
        self._read()
        ratios = {name: list(pair) for name, pair in self._ratios.items()}
        sizes = {name: list(sums) for name, sums in self._sizes.items()}
        return {"ratios": ratios, "maxima": dict(self._maxima), "sizes": sizes, "reduced": self._reduced}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Replaces everything by what `state_dict` returned.

        Raises:
            ValueError: `state` does not hold the keys of a `state_dict`.
        """
        if state.keys() != self.state_dict().keys():
            raise ValueError(f"metric state has the keys {sorted(state)}; expected {sorted(self.state_dict())}")
        self._ratios = {name: (top, bottom) for name, (top, bottom) in state["ratios"].items()}
        self._maxima = dict(state["maxima"])
        self._sizes = {name: (first, second, count) for name, (first, second, count) in state["sizes"].items()}
        self._reduced = state["reduced"]

    def _add(self, add: Callable[..., None], name: str, *values: Number) -> None:
        """Adds numbers now, or once those are read that lie on an accelerator and came before or are among them."""
        if self._reduced:
            raise ValueError(f"metric {name!r} was added after reduce(); call compute() first")
        self._waiting.append((add, name, [_number(name, value) for value in values]))
        far = any(isinstance(number, Tensor) for _, _, numbers in self._waiting[:1] for number in numbers)
        if not far or len(self._waiting) == MOST_WAITING:
            self._read()

    def _read(self) -> None:
        """Adds what waits."""
        waiting, self._waiting = self._waiting, []
        far = [number for _, _, numbers in waiting for number in numbers if isinstance(number, Tensor)]
        read = iter(torch.stack([number.to(far[0].device) for number in far]).tolist() if far else [])
        for add, name, numbers in waiting:
            add(name, *(next(read) if isinstance(number, Tensor) else number for number in numbers))


def _check_kind(name: str, *others: dict[str, Any]) -> None:
    if any(name in kind for kind in others):
        raise ValueError(f"metric {name!r} is two of a mean, a maximum and a size; give one of them another name")


def _number(name: str, value: Number) -> float | Tensor:
    """The value as a number, or as a tensor of its own where it lies on an accelerator."""
    if not isinstance(value, Tensor):
        return float(value)
    if value.numel() != 1:
        raise ValueError(f"metric {name!r} got a tensor of shape {tuple(value.shape)}; it must have one element")
    value = value.detach().reshape(())
    return float(value) if value.device.type == "cpu" else value.to(torch.float64, copy=True)


def _max(left: float, right: float) -> float:
    return math.nan if math.isnan(left) or math.isnan(right) else max(left, right)
