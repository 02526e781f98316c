"""Arguments of roll-outs, over those of `transformers.TrainingArguments`."""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from transformers import TrainingArguments

from llm_rl.core._checks import check_choice, check_positive
from llm_rl.training.arguments import RunArguments

Divergence = Literal["k1", "k2", "k3", "full"]
COUNTS = (
    "num_iterations",
    "mini_batches",
    "max_completion_length",
    "gradient_accumulation_steps",
    "per_device_train_batch_size",
    "per_device_eval_batch_size",
)


@dataclass
class RolloutArguments(RunArguments):
    """Arguments of `RolloutTrainer`.

    `per_device_train_batch_size` counts completions in a forward pass, `max_steps` optimizer steps. The roll-out of a
    process has `per_device_train_batch_size` × `gradient_accumulation_steps` × `mini_batches` completions, which are
    whole groups of `num_generations`; it serves `num_iterations` × `mini_batches` optimizer steps.

    Raises:
        ValueError: A value is out of range or two do not fit together.
    """

    _VALID_DICT_FIELDS: ClassVar = [*TrainingArguments._VALID_DICT_FIELDS, "chat_template_kwargs"]
    _smallest_group: ClassVar = 2  # completions of a prompt that an advantage is made from

    learning_rate: float = field(default=1e-6, metadata={"help": "Initial learning rate."})
    num_generations: int = field(default=8, metadata={"help": "G: completions of each prompt."})
    num_iterations: int = field(default=1, metadata={"help": "mu: passes of updates over one roll-out."})
    mini_batches: int = field(default=1, metadata={"help": "Optimizer steps of a pass, each on a share of a roll-out."})
    max_completion_length: int = field(default=256, metadata={"help": "Longest completion in tokens."})
    temperature: float = field(default=1.0, metadata={"help": "Temperature of sampling and of all log-probabilities."})
    share_prompts: bool = field(
        default=False,
        metadata={"help": "Read a prompt once for all its completions in a batch, when sampling and when training."},
    )
    chat_template_kwargs: dict[str, Any] | str | None = field(
        default=None, metadata={"help": "Arguments of the chat template, for prompts that are messages."}
    )
    reward_weights: list[float] | None = field(
        default=None, metadata={"help": "Weights of the reward functions, one each; None: all 1."}
    )
    beta: float = field(default=0.0, metadata={"help": "Weight of the divergence from the reference; 0: no reference."})
    kl_estimator: Divergence = field(
        default="k3", metadata={"help": "A token's divergence: k1, k2 or k3 (GRPO's) of the sample, or full."}
    )
    dynamic_sampling_attempts: int = field(
        default=0, metadata={"help": "How often groups without spread are replaced by other prompts' groups; 0: never."}
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        # Batches are rows of a data set, and a loss that is not finite must be seen.
        self.remove_unused_columns = False
        self.logging_nan_inf_filter = False
        for name in COUNTS:
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be a whole number, 1 or greater")
        if not isinstance(self.num_generations, int) or self.num_generations < self._smallest_group:
            raise ValueError(
                f"num_generations is {self.num_generations}; a group to compare within needs {self._smallest_group} or "
                "more"
            )
        if self.completions_per_rollout % self.num_generations:
            raise ValueError(
                f"a process's roll-out has {self.completions_per_rollout} completions (per_device_train_batch_size × "
                f"gradient_accumulation_steps × mini_batches), which is no multiple of num_generations = "
                f"{self.num_generations}; change one of them"
            )
        check_positive("temperature", self.temperature)
        if not 0 <= self.beta < math.inf:
            raise ValueError(f"beta is {self.beta}; it must be 0 or greater, and finite")
        if math.isinf(self.temperature):
            raise ValueError("temperature is infinite, so that no model would be asked; choose a finite one")
        if not all(map(math.isfinite, self.reward_weights or [])):
            raise ValueError(f"reward_weights is {self.reward_weights}; weights must be finite")
        check_choice("kl_estimator", self.kl_estimator, Divergence)
        self._check_reference("kl_estimator", "k3")
        if not isinstance(self.dynamic_sampling_attempts, int) or self.dynamic_sampling_attempts < 0:
            raise ValueError(
                f"dynamic_sampling_attempts is {self.dynamic_sampling_attempts}; it must be a whole number, at least 0"
            )
        self._refuse()

    def _check_reference(self, name: str, neutral: str) -> None:
        """Whether there is a reference where an option has another value than its neutral one, which asks for it."""
        if getattr(self, name) != neutral and not self.uses_reference:
            raise ValueError(f"{name}={getattr(self, name)!r} does nothing while beta is 0; set beta or leave it out")

    def _refuse(self) -> None:
        """What `TrainingArguments` offers and roll-outs do not support."""
        unsupported = {
            "torch_compile": self.torch_compile,
            "include_num_input_tokens_seen": self.include_num_input_tokens_seen not in (False, "no"),
            "auto_find_batch_size": self.auto_find_batch_size,
            "ignore_data_skip": self.ignore_data_skip,
            "train_sampling_strategy": self.train_sampling_strategy != "random",
            "label_smoothing_factor": self.label_smoothing_factor != 0,
            "neftune_noise_alpha": self.neftune_noise_alpha is not None,
            "parallelism_config": self.parallelism_config is not None,
            # Evaluation samples and asks the reward functions: there are no model outputs to gather.
            "bf16_full_eval": self.bf16_full_eval,
            "fp16_full_eval": self.fp16_full_eval,
            "prediction_loss_only": self.prediction_loss_only,
            "eval_accumulation_steps": self.eval_accumulation_steps is not None,
            "batch_eval_metrics": self.batch_eval_metrics,
            "include_for_metrics": bool(self.include_for_metrics),
            "label_names": self.label_names is not None,
        }
        for name, asked in unsupported.items():
            if asked:
                raise ValueError(f"{name}={getattr(self, name)!r} is not supported with roll-outs; leave it out")
        for name in ("split_batches", "dispatch_batches"):
            if getattr(self.accelerator_config, name):
                raise ValueError(f"accelerator_config.{name} is not supported with roll-outs; leave it out")

    @property
    def uses_reference(self) -> bool:
        """Whether training needs a reference model."""
        return self.beta > 0

    @property
    def completions_per_rollout(self) -> int:
        """Completions of one process's roll-out."""
        return self.per_device_train_batch_size * self.micro_batches_per_rollout

    @property
    def micro_batches_per_rollout(self) -> int:
        """Forward passes of one pass over a roll-out."""
        return self.gradient_accumulation_steps * self.mini_batches

    @property
    def steps_per_rollout(self) -> int:
        """Optimizer steps that a roll-out serves."""
        return self.num_iterations * self.mini_batches
