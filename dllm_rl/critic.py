"""A critic: values of the states that follow, read off the model's own hidden states.

The last hidden state at an open position ℓ of s says what the model expects there and, through attention, how the rest
stands, so a small network on it can tell V(s∪ℓ) of each position in the pass that scores s. It is trained by regression
on the returns of the states that trajectories went to (proximal policy optimization does the same with V(s),
arXiv:1707.06347). Hidden states are detached: the critic does not change the model.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dllm_rl.models.llada import LladaForMaskedLM
from dllm_rl.objective import ObjectiveConfig
from dllm_rl.values import CellValues, LookAhead, ScoredStates, Values
from llm_rl.training.processes import mean_over_processes


class Critic(Values):
    """V(s∪ℓ) of a network on the hidden state at ℓ and the mean of those at all open positions of s.

    It has one hidden layer of the model's width, is 0 or larger by a softplus, and 0 where ℓ is the last open position.

    Args:
        width: Width of the hidden states.
        learning_rate: Rate of its own AdamW.
        device: Where the hidden states are.

    Attributes:
        squared_error: Sum of the squared errors since the last step.
        targets: Their number.
    """

    reads_hidden = True

    def __init__(self, width: int, learning_rate: float, device: torch.device | str = "cpu") -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.network = nn.Sequential(nn.Linear(2 * width, width), nn.SiLU(), nn.Linear(width, 1)).to(device)
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=learning_rate, weight_decay=0.0)
        self.squared_error, self.targets = 0.0, 0

    @classmethod
    def of(cls, model: nn.Module, learning_rate: float) -> "Critic":
        """A critic of a model, with or without PEFT's adapters.

        Raises:
            ValueError: The model gives no hidden states.
        """
        base: Any = getattr(model, "get_base_model", lambda: model)()
        if not isinstance(base, LladaForMaskedLM):
            raise ValueError(
                f"value='critic' reads hidden states, which {type(base).__name__} does not give; choose value='cells' "
                "or 'look_ahead'"
            )
        return cls(base.config.d_model, learning_rate, next(base.parameters()).device)

    @torch.no_grad()
    def at(self, states: ScoredStates) -> Tensor:
        """V of the states that follow; see `Values.at`."""
        open_ = states.scores.row_of >= 0
        rows, positions = open_.nonzero(as_tuple=True)
        found = self._predict(states, rows, positions).masked_fill(open_.sum(1)[rows] == 1, 0.0)
        return torch.zeros_like(states.scores.position_logprobs).masked_scatter(open_, found)

    def learn(self, states: ScoredStates, rows: Tensor, positions: Tensor, returns: Tensor, weights: Tensor) -> None:
        """Add the gradient of Σ weight · (V(s∪ℓ) − G)² to what the next `step` applies; see `Values.learn`."""
        if len(rows) == 0:
            return
        errors = (self._predict(states, rows, positions) - returns).square()
        (errors * weights).sum().backward()
        self.squared_error += float(errors.detach().sum())
        self.targets += len(rows)

    def step(self, passes: int = 1, processes: int = 1) -> None:
        """One step of the optimizer on what was learned, then forget it.

        Args:
            passes: Roll-outs that the gradients were added up over; their mean is applied.
            processes: Processes over which they are averaged; if there are several, all must call.
        """
        parameters = list(self.network.parameters())
        gradients = [parameter.grad for parameter in parameters]
        if processes > 1:
            gradients = mean_over_processes(gradients, parameters)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = None if gradient is None else gradient / passes
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.squared_error, self.targets = 0.0, 0

    def _predict(self, states: ScoredStates, rows: Tensor, positions: Tensor) -> Tensor:
        """fp32 `(A,)`: the network at A (state, position) pairs, all open."""
        scores = states.scores
        if scores.hidden is None:
            raise ValueError("the states were scored without hidden states; pass hidden=True to score_states")
        hidden = scores.hidden.float()  # (M, H)
        open_ = scores.row_of >= 0
        state_of = open_.nonzero()[:, 0]  # (M,)
        total = hidden.new_zeros(len(open_), hidden.shape[1]).index_add(0, state_of, hidden)
        mean = total / open_.sum(1, keepdim=True)
        features = torch.cat([hidden[scores.row_of[rows, positions]], mean[rows]], dim=1)
        return F.softplus(self.network(features).squeeze(1))

    def state_dict(self) -> dict[str, Any]:
        """Weights and moments, for a checkpoint."""
        moments = [dict(self.optimizer.state.get(parameter, {})) for parameter in self.network.parameters()]
        return {"network": dict(self.network.state_dict()), "moments": moments}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take what `state_dict` returned.

        Raises:
            RuntimeError: It belongs to a model of another width.
        """
        self.network.load_state_dict(state["network"])
        for parameter, moments in zip(self.network.parameters(), state["moments"], strict=True):
            if moments:
                self.optimizer.state[parameter] = {
                    name: value.clone() if name == "step" else value.to(parameter.device).clone()
                    for name, value in moments.items()
                }


def make_values(config: ObjectiveConfig, length: int, model: nn.Module) -> CellValues | Critic | None:
    """The values that an objective asks for; None with a sampled first term, or one without weight.

    Args:
        config: The objective.
        length: R, tokens of a response.
        model: The model that is trained.

    Raises:
        ValueError: A critic is asked for of a model that gives no hidden states.
    """
    if config.objective == "sampled" or config.rl_weight == 0:
        return None
    if config.value == "critic":
        return Critic.of(model, config.critic_learning_rate)
    if config.value == "look_ahead":
        return LookAhead(config.value_decay, length, config.look_ahead, config.gamma, config.lam)
    return CellValues(config.value_decay, length)
