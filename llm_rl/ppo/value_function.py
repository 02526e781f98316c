"""The value function of PPO: a head on hidden states, of the policy or of a model of its own, and its file."""

import copy
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from llm_rl.rollout.data import RolloutBatch
from llm_rl.rollout.scoring import causal_model
from llm_rl.rollout.shared_prompts import inputs_of, positions
from llm_rl.training.wrapper import ModelWrapper

FILE = "value_function.safetensors"


class ValueFunction(nn.Module):
    """V(s) = w · h(s) + b, with h(s) the last hidden state at the token before the action.

    The head starts at 0, so that the first advantages are returns. It computes in float32, or in float64 where the
    model does. The hidden states are those of `trunk`, a model without its output head, or of the policy where that is
    None.
    """

    def __init__(self, policy: nn.Module, trunk: Any = None) -> None:
        super().__init__()
        source = causal_model(policy) if trunk is None else trunk
        weight = next(source.parameters())
        dtype = torch.promote_types(weight.dtype, torch.float32)
        self.trunk = trunk
        self.head = nn.Linear(source.config.get_text_config().hidden_size, 1, dtype=dtype, device=weight.device)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, batch: RolloutBatch, hidden_states: Tensor) -> Tensor:
        """The values `(B, T)` of the states before the completion tokens, float32 or float64; anything at padding.

        `hidden_states`, `(B, T, D)`, are the policy's, that the tokens are predicted from; for a head on the policy.
        """
        if self.trunk is not None:
            hidden_states = self._hidden_states(batch)
        with torch.autocast(hidden_states.device.type, enabled=False):
            values: Tensor = self.head(hidden_states.to(self.head.weight.dtype))
        return values.squeeze(-1)

    def _hidden_states(self, batch: RolloutBatch) -> Tensor:
        ids = torch.cat([batch.prompt_ids, batch.completion_ids], 1)  # (B, P + T)
        mask = torch.cat([batch.prompt_mask, batch.completion_mask], 1).long()
        inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": mask, "use_cache": False}
        if "position_ids" in inputs_of(self.trunk.__class__):
            inputs["position_ids"] = positions(mask)
        hidden: Tensor = self.trunk(**inputs).last_hidden_state
        return hidden[:, -batch.completion_ids.shape[1] - 1 : -1]  # (B, T, D)


class PolicyWithValue(ModelWrapper):
    """The policy and its value function as one module, so that one optimizer and one gradient norm serve both."""

    def __init__(self, model: nn.Module, value_function: ValueFunction) -> None:
        super().__init__(model)
        self.value_function = value_function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The policy's forward pass."""
        return self.model(*args, **kwargs)


def trunk_of(model: nn.Module) -> Any:
    """A copy of a causal language model without its output head, adapters in place; `ValueError` without a body."""
    causal = causal_model(model)
    if causal.base_model is causal:
        raise ValueError(f"{type(causal).__name__} has no body apart from its head to put a value head on")
    return copy.deepcopy(causal.base_model)


def save_value_function(value_function: ValueFunction, folder: Path) -> None:
    """Write the weights that are trained to `<folder>/value_function.safetensors`."""
    save_file({name: weight.detach().cpu().contiguous() for name, weight in _trained(value_function)}, folder / FILE)


def load_value_function(value_function: ValueFunction, folder: Path) -> None:
    """Take over the weights that `save_value_function` wrote; `ValueError` for those of another kind or size."""
    weights, found = dict(_trained(value_function)), load_file(folder / FILE)
    if {name: value.shape for name, value in weights.items()} != {name: value.shape for name, value in found.items()}:
        raise ValueError(
            f"{folder / FILE} holds a value function of another kind or size; give the value_function and the model "
            "that it was made with"
        )
    with torch.no_grad():
        for name, weight in weights.items():
            weight.copy_(found[name])


def _trained(value_function: ValueFunction) -> list[tuple[str, nn.Parameter]]:
    return [(name, weight) for name, weight in value_function.named_parameters() if weight.requires_grad]
