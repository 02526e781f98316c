"""Arguments of RL training: those of `transformers.TrainingArguments` and the hyperparameters of seed 001."""

from dataclasses import dataclass, field, fields

from transformers import TrainingArguments

from dllm_rl.lora import LLADA_TARGETS
from dllm_rl.objective import ObjectiveConfig
from dllm_rl.policy import PolicyConfig


@dataclass
class UnmaskArguments(TrainingArguments):
    """Arguments of `UnmaskTrainer`; defaults are seed 001's where it gives one.

    `per_device_train_batch_size` is the number of puzzles of a roll-out, `max_steps` counts optimizer steps.
    """

    group_size: int = field(default=8, metadata={"help": "G: trajectories for each puzzle."})
    updates_per_rollout: int = field(default=1, metadata={"help": "mu: optimizer steps on one roll-out."})
    lam: float = field(default=0.5, metadata={"help": "lambda: reward of a position outside the map."})
    gamma: float = field(default=0.95, metadata={"help": "Discount factor."})
    margin_eps: float = field(default=1e-9, metadata={"help": "Epsilon inside the margin."})
    clip_low: float = field(default=0.2, metadata={"help": "The ratio is clipped below at 1 - clip_low."})
    clip_high: float = field(default=0.2, metadata={"help": "The ratio is clipped above at 1 + clip_high."})
    position_temperature: float = field(default=0.05, metadata={"help": "T_pos."})
    token_temperature: float = field(default=0.6, metadata={"help": "T_tok."})
    advantage_baseline: str = field(default="mean", metadata={"help": "mean (source) or leave_one_out."})
    advantage_scale: str = field(default="std", metadata={"help": "std (source) or none."})
    advantage_std_eps: float = field(default=0.0, metadata={"help": "Added to the group's standard deviation."})
    reduction: str = field(default="sum", metadata={"help": "Over the steps of a trajectory: sum (source) or mean."})
    rl_weight: float = field(default=1.0, metadata={"help": "Weight of the clipped policy-gradient term."})
    sft_weight: float = field(default=1.0, metadata={"help": "Weight of the expected-reward term f."})
    rl_learning_rate: float | None = field(
        default=None, metadata={"help": "Rate of the first term; None: learning_rate."}
    )
    sft_learning_rate: float | None = field(default=None, metadata={"help": "Rate of the second; None: learning_rate."})
    max_tokens_per_pass: int = field(default=65536, metadata={"help": "Largest number of tokens in one forward pass."})
    lora_r: int = field(default=0, metadata={"help": "Rank of LoRA adapters; 0 trains every weight."})
    lora_alpha: int = field(default=32, metadata={"help": "Scale of the adapters: alpha / r."})
    lora_dropout: float = field(
        default=0.0, metadata={"help": "On the adapters' inputs; above 0 the ratio of a fresh roll-out is not 1."}
    )
    lora_target_modules: list[str] = field(
        default_factory=lambda: list(LLADA_TARGETS), metadata={"help": "Last names of the layers that get adapters."}
    )

    def __post_init__(self) -> None:
        # YAML reads 1e-5 as a string; it takes 1.0e-5 for a number.
        for item in fields(self):
            value = getattr(self, item.name)
            if item.type in (float, float | None) and isinstance(value, str):
                try:
                    setattr(self, item.name, float(value))
                except ValueError:
                    raise ValueError(f"{item.name}={value!r} is no number; write it like 0.5 or 1.0e-5") from None
        super().__post_init__()
        # The trainer's batches are puzzles, not model inputs, and a loss that is not finite must be seen.
        self.remove_unused_columns = False
        self.logging_nan_inf_filter = False
        if self.group_size < 1 or self.updates_per_rollout < 1:
            raise ValueError(
                f"group_size={self.group_size} and updates_per_rollout={self.updates_per_rollout} must be at least 1"
            )
        repeated = self.updates_per_rollout > 1
        if repeated and self.save_strategy == "steps" and self.save_steps % self.updates_per_rollout:
            raise ValueError(
                f"save_steps={self.save_steps} must be a multiple of updates_per_rollout={self.updates_per_rollout}: "
                "a checkpoint holds no roll-out, so it must lie between two"
            )
        self.policy_config()
        self.objective_config()

    @property
    def rates(self) -> tuple[float, float]:
        """Learning rates of the first and the second term."""
        rl, sft = self.rl_learning_rate, self.sft_learning_rate
        return self.learning_rate if rl is None else rl, self.learning_rate if sft is None else sft

    def policy_config(self) -> PolicyConfig:
        """The policy's part of the arguments."""
        return PolicyConfig(self.position_temperature, self.token_temperature, self.margin_eps)

    def objective_config(self) -> ObjectiveConfig:
        """The objective's part of the arguments."""
        return ObjectiveConfig(
            lam=self.lam,
            gamma=self.gamma,
            clip_low=self.clip_low,
            clip_high=self.clip_high,
            baseline=self.advantage_baseline,  # type: ignore[arg-type]
            scale=self.advantage_scale,  # type: ignore[arg-type]
            std_eps=self.advantage_std_eps,
            reduction=self.reduction,  # type: ignore[arg-type]
            rl_weight=self.rl_weight,
            sft_weight=self.sft_weight,
        )
