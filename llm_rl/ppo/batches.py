"""What PPO keeps beyond a common roll-out: values, targets and advantages a token."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from llm_rl.rollout.data import RolloutBatch


@dataclass(kw_only=True)
class PPOBatch(RolloutBatch):
    """A micro-batch of completions with an advantage for each token.

    Attributes:
        old_values: float32 `(B, T)`, V of the state before each token, at sampling.
        values_after: float32 `(B,)`, V of the state behind the last token, at sampling; None where nothing asks.
        returns: float32 `(B, T)`, what the value function is fitted to.
        token_advantages: float32 `(B, T)`.
        explained_variance: Scalar of the whole roll-out; NaN where its returns do not vary.
    """

    old_values: Tensor | None = None
    values_after: Tensor | None = None
    returns: Tensor | None = None
    token_advantages: Tensor | None = None
    explained_variance: Tensor | None = None

    def with_state_after(self) -> "PPOBatch":
        """The batch with one more column of padding, so that what is read before each token ends behind the last."""
        ids, mask, given = self.completion_ids, self.completion_mask, self.given_mask
        return replace(
            self,
            completion_ids=torch.cat([ids, ids[:, -1:]], 1),  # (B, T + 1)
            completion_mask=torch.cat([mask, torch.zeros_like(mask[:, -1:])], 1),
            given_mask=None if given is None else torch.cat([given, torch.zeros_like(given[:, -1:])], 1),
        )
