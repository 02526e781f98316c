"""Arguments of roll-outs, over those of `transformers.TrainingArguments`."""

import math
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, Self

from transformers import TrainingArguments

from llm_rl.core._checks import check_count, check_positive, check_rate
from llm_rl.core._options import option
from llm_rl.training.arguments import RunArguments, refuse_idle
from llm_rl.training.unsupported import refuse_unsupported

Divergence = Literal["k1", "k2", "k3", "full"]
AdapterReference = Literal["start", "base"]
OF_TRL = {
    "use_vllm": "give the trainer engine=ServerEngine(ServerProcess(['vllm', 'serve'])) (docs/grpo.md)",
    "beta": "write kl_weight",
    "epsilon": "write clip_low",
    "epsilon_high": "write clip_high",
}
"""Options of TRL's trainers, and what takes their place."""


@dataclass
class RolloutArguments(RunArguments):
    """Arguments of `RolloutTrainer`.

    `per_device_train_batch_size` counts completions in a forward pass, `max_steps` optimizer steps. The roll-out of a
    process has `per_device_train_batch_size` × `gradient_accumulation_steps` completions, which are whole groups of
    `num_generations`; it serves `num_iterations` optimizer steps.

    Raises:
        ValueError: A value is out of range or two do not fit together.
    """

    _VALID_DICT_FIELDS: ClassVar = [*TrainingArguments._VALID_DICT_FIELDS, "chat_template_kwargs"]
    _smallest_group: ClassVar = 2  # completions of a prompt that an advantage is made from

    learning_rate: float = option(1e-6, "Initial learning rate.")
    num_generations: int = option(8, "G: completions of each prompt.")
    num_iterations: int = option(1, "mu: optimizer steps on one roll-out.")
    max_completion_length: int = option(256, "Longest completion in tokens.")
    temperature: float = option(1.0, "Temperature of sampling and of all log-probabilities.")
    share_prompts: bool | None = option(
        None,
        "Read a prompt once for all its completions in a batch, when sampling and when training. None: "
        "where the model supports it.",
    )
    padding_free: bool = option(False, "Train and score on the tokens of a batch as one sequence, without padding.")
    chat_template_kwargs: dict[str, Any] | str | None = option(
        None, "Arguments of the chat template, for prompts that are messages."
    )
    reward_weights: list[float] | None = option(None, "Weights of the reward functions, one each; None: all 1.")
    kl_weight: float = option(0.0, "Weight of the divergence from the reference; 0: no reference.")
    kl_estimator: Divergence = option("k3", "A token's divergence: k1, k2 or k3 (GRPO's) of the sample, or full.")
    adapter_reference: AdapterReference = option(
        "start", "With adapters the reference is the policy at the start, or the base: the model without."
    )
    log_completions: bool = option(False, "Show four completions with each log line; all go to completions.jsonl.")
    offload_optimizer: bool = option(False, "Moments and gradients lie in host memory while the engine samples.")
    offload_model: bool = option(False, "Policy and reference do, while an engine with its own weights samples.")
    dynamic_sampling_attempts: int = option(
        0, "How often groups without spread are replaced by other prompts' groups; 0: never."
    )

    def __new__(cls, *args: Any, **given: Any) -> Self:
        """Raises `ValueError` for an option of TRL's that has another place here."""
        for name in given.keys() - {item.name for item in fields(cls)}:
            if remedy := OF_TRL.get("use_vllm" if name.startswith("vllm_") else name):
                raise ValueError(f"{name}={given[name]!r} is an option of TRL's, unknown here; {remedy}")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.remove_unused_columns = False  # batches are rows of a data set
        for name in ("num_iterations", "max_completion_length", "per_device_eval_batch_size"):
            check_count(name, getattr(self, name))
        check_count("num_generations", self.num_generations, ": a group to compare within", least=self._smallest_group)
        if self.completions_per_rollout % self.num_generations:
            raise ValueError(
                f"a process's roll-out has {self.completions_per_rollout} completions (per_device_train_batch_size × "
                f"gradient_accumulation_steps), which is no multiple of num_generations = {self.num_generations}; "
                "change one of them"
            )
        check_positive("temperature", self.temperature)
        check_rate("kl_weight", self.kl_weight)
        if math.isinf(self.temperature):
            raise ValueError("temperature is infinite, so that no model would be asked; choose a finite one")
        if not all(map(math.isfinite, self.reward_weights or [])):
            raise ValueError(f"reward_weights is {self.reward_weights}; weights must be finite")
        self._check_reference("kl_estimator adapter_reference")
        check_count("dynamic_sampling_attempts", self.dynamic_sampling_attempts, least=0)
        self._refuse()

    def _check_reference(self, names: str) -> None:
        refuse_idle(self, [(names, self.uses_reference, "while kl_weight is 0; set kl_weight")])

    def _refuse(self) -> None:
        """What `TrainingArguments` offers and roll-outs do not support."""
        if self.padding_free and self.share_prompts:
            raise ValueError("padding_free and share_prompts are two ways to leave tokens out; choose one of them")
        if self.gradient_checkpointing and self.share_prompts:
            raise ValueError("gradient_checkpointing computes keys and values anew; leave share_prompts out")
        if self.shard and self.share_prompts:
            raise ValueError("share_prompts takes passes of its own, which shard does not support; leave it out")
        if self.shard and self.kl_estimator == "full":
            raise ValueError("kl_estimator='full' reads two heads at once, which shard does not support; take k3")
        shares = (
            "with shard, fsdp or deepspeed, whose processes hold shares, which FSDP's CPUOffloadPolicy (in verl) or "
            "DeepSpeed's ZeRO-Offload moves; leave those three out"
        )
        whole = not (self.shard or self.fsdp or self.deepspeed)
        refuse_idle(self, [("offload_optimizer offload_model", whole, shares)])
        refuse_unsupported(self, "with roll-outs")

    @property
    def sharing_prompts(self) -> bool | None:
        """`share_prompts`; not unasked beside options that do not go with it."""
        excluded = self.padding_free or self.gradient_checkpointing or self.shard
        return False if self.share_prompts is None and excluded else self.share_prompts

    @property
    def uses_reference(self) -> bool:
        """Whether training needs a reference model."""
        return self.kl_weight > 0

    @property
    def completions_per_rollout(self) -> int:
        """Completions of one process's roll-out."""
        return self.per_device_train_batch_size * self.gradient_accumulation_steps

    @property
    def steps_per_rollout(self) -> int:
        """Optimizer steps that a roll-out serves."""
        return self.num_iterations
