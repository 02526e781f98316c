"""Arguments of RL training: those of a run and the hyperparameters of docs/objective.md."""

from dataclasses import dataclass, field, fields
from typing import Literal

from dllm_rl.policy import PolicyConfig, annealed
from dllm_rl.terms.objective import ObjectiveConfig
from llm_rl.core._checks import check_choice
from llm_rl.training.arguments import RunArguments, check_rate, part_of

RolloutOnError = Literal["end", "correct", "redraw"]


@dataclass
class UnmaskArguments(ObjectiveConfig, PolicyConfig, RunArguments):
    """Arguments of `UnmaskTrainer`, over those of the objective, the policy and a run.

    `per_device_train_batch_size` is the number of problems of a roll-out, `max_steps` counts optimizer steps.
    """

    num_generations: int = field(default=8, metadata={"help": "G: trajectories for each problem."})
    num_iterations: int = field(default=1, metadata={"help": "mu: passes of updates over one roll-out."})
    num_mini_batches: int = field(
        default=1,
        metadata={
            "help": "Parts that the states of a roll-out are dealt out to in each of these passes, an optimizer step "
            "each; several are for judged decisions and the cross-entropy, which need no ratio of others."
        },
    )
    tokens_per_step: int = field(
        default=1, metadata={"help": "k: positions that a decision of a roll-out fills from one forward pass."}
    )
    on_error: RolloutOnError = field(
        default="end",
        metadata={
            "help": "A wrong token ends the trajectory (end), is replaced by the answer's (correct), or the decision "
            "is drawn again, up to judged_draws times (redraw)."
        },
    )
    position_temperature_end: float | None = field(
        default=None, metadata={"help": "T_pos at the end of training, reached linearly; None: constant."}
    )
    rl_learning_rate: float | None = field(
        default=None, metadata={"help": "Rate of the first term; None: learning_rate."}
    )
    sft_learning_rate: float | None = field(
        default=None, metadata={"help": "Rate of the second term; None: learning_rate."}
    )
    max_tokens_per_pass: int = field(default=65536, metadata={"help": "Largest number of tokens in one forward pass."})
    max_masked_per_pass: int | None = field(
        default=None, metadata={"help": "Largest number of masked positions in one forward pass; None: no bound."}
    )
    lora_r: int = field(default=0, metadata={"help": "Rank of LoRA adapters; 0 trains every weight."})
    lora_alpha: int = field(default=32, metadata={"help": "Scale of the adapters: alpha / r."})
    lora_dropout: float = field(
        default=0.0,
        metadata={"help": "Dropout on the adapters' inputs; above 0 the ratio of a fresh roll-out is not 1."},
    )
    lora_target_modules: list[str] | None = field(
        default=None,
        metadata={"help": "Last names of the layers that get adapters; None: the model's own, all matrices of LLaDA."},
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
        RunArguments.__post_init__(self)
        for name in ("rl_learning_rate", "sft_learning_rate"):
            check_rate(name, getattr(self, name))
        for name in ("shard", "fp16"):
            if getattr(self, name) and self.rates[0] != self.rates[1]:
                raise ValueError(
                    f"learning rates {self.rates[0]} and {self.rates[1]} differ, which takes two backward passes a "
                    f"forward pass and is not supported with {name}; give one rate to both terms, or leave out {name}"
                )
        # The trainer's batches are puzzles, not model inputs, and a loss that is not finite must be seen.
        self.remove_unused_columns = False
        self.logging_nan_inf_filter = False
        for name in ("num_generations", "num_iterations", "num_mini_batches"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        if self.tokens_per_step < 1:
            raise ValueError(f"tokens_per_step={self.tokens_per_step} must be at least 1")
        check_choice("on_error", self.on_error, RolloutOnError)
        if self.steps_per_rollout > 1 and self.state_fraction < 1:
            raise ValueError(
                f"state_fraction={self.state_fraction} with {self.steps_per_rollout} optimizer steps on a roll-out: "
                "the ratio of a decision whose state was not drawn is unknown; leave one of them at 1"
            )
        if self.num_mini_batches > 1 and (self.policy_weight or self.f_weight):
            raise ValueError(
                f"num_mini_batches={self.num_mini_batches} with policy_weight={self.policy_weight} and "
                f"f_weight={self.f_weight}: these terms need the ratios of decisions in other mini-batches, which "
                "are unknown; leave it at 1, or both weights at 0"
            )
        if self.torch_compile:
            raise ValueError(
                "torch_compile compiles the model again for every number of states in a pass; leave it out"
            )
        self.objective_config()
        for fraction in (0.0, 1.0):
            self.policy_config(fraction)

    @property
    def rates(self) -> tuple[float, float]:
        """Learning rates of the first and the second term."""
        rl, sft = self.rl_learning_rate, self.sft_learning_rate
        return self.learning_rate if rl is None else rl, self.learning_rate if sft is None else sft

    @property
    def steps_per_rollout(self) -> int:
        """Optimizer steps that a roll-out serves."""
        return self.num_iterations * self.num_mini_batches

    def policy_config(self, fraction: float = 0.0) -> PolicyConfig:
        """The policy's part of the arguments, after a share of the training."""
        return annealed(part_of(self, PolicyConfig), self.position_temperature_end, fraction)

    def objective_config(self) -> ObjectiveConfig:
        """The objective's part of the arguments."""
        return part_of(self, ObjectiveConfig)
