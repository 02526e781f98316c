"""Arguments of DPO, over those of every training run."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from transformers import TrainingArguments

from llm_rl.core import PreferenceLoss
from llm_rl.core._checks import check_positive
from llm_rl.core._options import option
from llm_rl.training.arguments import RunArguments
from llm_rl.training.unsupported import refuse_unsupported


@dataclass
class DPOArguments(RunArguments):
    """Arguments of `DPOTrainer`; names and defaults are those of docs/dpo.md.

    `per_device_train_batch_size` counts pairs, so a forward pass has twice as many completions.

    Raises:
        ValueError: A value is out of range, a name unknown, or two do not fit together.
    """

    _VALID_DICT_FIELDS: ClassVar = [*TrainingArguments._VALID_DICT_FIELDS, "chat_template_kwargs"]

    learning_rate: float = option(1e-6, "Initial learning rate.")
    beta: float = option(0.1, "Strength of the preference, above 0: the larger, the nearer to the reference.")
    loss_type: PreferenceLoss = option(
        "sigmoid", "Loss of a pair: sigmoid (DPO), ipo (on log-probabilities a token) or hinge."
    )
    precompute_ref_log_probs: bool = option(
        False, "Ask the reference once for all pairs, before training, and keep no copy of it."
    )
    chat_template_kwargs: dict[str, Any] | str | None = option(
        None, "Arguments of the chat template, for prompts that are messages."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.remove_unused_columns = False  # batches are pairs of token lists
        check_positive("beta", self.beta)
        if math.isinf(self.beta):
            raise ValueError("beta is infinite; choose a finite one")
        refuse_unsupported(self, "by DPOTrainer")

    @property
    def steps_per_rollout(self) -> int:
        """Optimizer steps that a batch serves: one."""
        return 1
