"""The lean update with one of its savings taken back, to measure each apart."""

from dataclasses import replace

import torch
from torch import Tensor, nn
from transformers.modeling_outputs import MaskedLMOutput

from dllm_rl import Rollout


def unshared(rollout: Rollout) -> Rollout:
    """A roll-out with a state of its own for every visit, in the order of the steps."""
    step, trajectory = rollout.live.T.nonzero(as_tuple=True)
    visited = rollout.state_of[trajectory, step]
    state_of = torch.full_like(rollout.state_of, -1)
    state_of[trajectory, step] = torch.arange(len(visited), device=visited.device)
    per_state = ("responses", "problem_of", "definite", "expected_reward", "entropy", "top_prob", "greedy")
    return replace(rollout, state_of=state_of, **{name: getattr(rollout, name)[visited] for name in per_state})


class LogitsEverywhere(nn.Module):
    """A model that computes logits at every position before it selects those that were asked for."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None, logits_mask: Tensor) -> MaskedLMOutput:
        """Logits `(logits_mask.sum(), V)` of sequences `(B, L)`."""
        output = self.model(input_ids=input_ids, attention_mask=attention_mask)
        return MaskedLMOutput(logits=output.logits[logits_mask])
