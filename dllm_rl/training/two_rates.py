"""One optimizer with two learning rates for two terms of an objective over the same parameters."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

OptimizerFactory = Callable[[list[nn.Parameter], float], Optimizer]


class TwoRateOptimizer(Optimizer):
    """Keeps the gradients of two terms apart, each with its own rate and its own moments.

    The first term's gradient is the parameters' `.grad`; the second term's is added with `add_second`. A step applies
    the first, then the second; with plain SGD that equals one step on rate₁·J₁ + rate₂·J₂. Schedulers see the groups
    of both.

    Args:
        params: The parameters; those without `requires_grad` are left out.
        factory: Makes an optimizer from parameters and a rate; called twice.
        rates: The two learning rates.
        max_grad_norm: The second term's gradient is clipped to this norm (the trainer clips the first); 0 is off.
    """

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        factory: OptimizerFactory,
        rates: tuple[float, float],
        max_grad_norm: float = 0.0,
    ) -> None:
        self.parameters = [param for param in params if param.requires_grad]
        super().__init__(self.parameters, {"lr": rates[0]})
        self.first = factory(self.parameters, rates[0])
        self.second = factory(self.parameters, rates[1])
        self.param_groups = [*self.first.param_groups, *self.second.param_groups]
        self.max_grad_norm = max_grad_norm
        self.second_gradients: list[Tensor | None] = [None] * len(self.parameters)

    def add_second(self, loss: Tensor, *, retain_graph: bool = False) -> None:
        """Add the gradient of the second term's loss (to be minimized) to what is kept for the next step."""
        gradients = torch.autograd.grad(loss, self.parameters, retain_graph=retain_graph, allow_unused=True)
        for index, gradient in enumerate(gradients):
            if gradient is not None:
                kept = self.second_gradients[index]
                self.second_gradients[index] = gradient if kept is None else kept + gradient

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Apply both gradients and forget the second; the first is the caller's to clear, as with any optimizer.

        Raises:
            ValueError: A closure is passed; the two terms cannot be evaluated again from here.
        """
        if closure is not None:
            raise ValueError("TwoRateOptimizer takes no closure; compute both gradients before step()")
        self.first.step()
        first_gradients = [param.grad for param in self.parameters]
        for param, gradient in zip(self.parameters, self.second_gradients, strict=True):
            param.grad = gradient
        if self.max_grad_norm > 0:
            nn.utils.clip_grad_norm_(self.parameters, self.max_grad_norm)
        self.second.step()
        for param, gradient in zip(self.parameters, first_gradients, strict=True):
            param.grad = gradient
        self.second_gradients = [None] * len(self.parameters)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of both terms."""
        super().zero_grad(set_to_none)
        self.second_gradients = [None] * len(self.parameters)

    def state_dict(self) -> dict[str, Any]:
        """The states of both optimizers."""
        return {"first": self.first.state_dict(), "second": self.second.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what `state_dict` returned."""
        self.first.load_state_dict(state_dict["first"])
        self.second.load_state_dict(state_dict["second"])
        self.param_groups = [*self.first.param_groups, *self.second.param_groups]
