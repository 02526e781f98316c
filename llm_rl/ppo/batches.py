"""What PPO keeps beyond a common roll-out: values, targets and advantages a token."""

from dataclasses import dataclass

from torch import Tensor

from llm_rl.rollout.data import RolloutBatch


@dataclass(kw_only=True)
class PPOBatch(RolloutBatch):
    """A micro-batch of completions with an advantage for each token.

    Attributes:
        old_values: float32 `(B, T)`, V of the state before each token, at sampling.
        returns: float32 `(B, T)`, what the value function is fitted to.
        token_advantages: float32 `(B, T)`.
        last_values: float32 `(B,)`, V at sampling behind completions that were cut off, 0 behind others; None: all 0.
        explained_variance: Scalar of the whole roll-out; NaN where its returns do not vary.
    """

    old_values: Tensor | None = None
    returns: Tensor | None = None
    token_advantages: Tensor | None = None
    last_values: Tensor | None = None
    explained_variance: Tensor | None = None
