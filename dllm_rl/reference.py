"""The frozen model that a divergence term holds the policy to."""

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from dllm_rl.policy import PolicyConfig, StateScores, score_states
from llm_rl.training.modes import in_evaluation_mode

_score = in_evaluation_mode(score_states)


class Reference:
    """A model as it is now, whatever training does to it later.

    With PEFT adapters the base weights never change, so the reference is the same model with the adapters off and takes
    no memory; of any other model a copy is kept.

    Args:
        model: The model at the start of training, as `score_states` takes it.
        context: Entered around every forward pass, such as the autocast that the trained model runs in.
    """

    def __init__(self, model: nn.Module, context: Callable[[], AbstractContextManager[Any]] = nullcontext) -> None:
        self._context = context
        self._adapted = hasattr(model, "disable_adapter")
        self.model: Any = model if self._adapted else copy.deepcopy(model).requires_grad_(False).eval()

    @torch.no_grad()
    def score(
        self,
        prompt_ids: Tensor,
        prompt_mask: Tensor | None,
        responses: Tensor,
        mask_id: int,
        config: PolicyConfig,
    ) -> StateScores:
        """The reference at N states, in evaluation mode and without gradient; the arguments of `score_states`."""
        with self._context(), self.model.disable_adapter() if self._adapted else nullcontext():
            return _score(self.model, prompt_ids, prompt_mask, responses, mask_id, config)
