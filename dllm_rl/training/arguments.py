"""Arguments of RL training: those of a run and the hyperparameters of docs/objective.md."""

from dataclasses import dataclass
from typing import Any, Literal

from dllm_rl.policy import PolicyConfig, annealed
from dllm_rl.terms.objective import ObjectiveConfig
from llm_rl.core._checks import check_choice, check_count, check_rate
from llm_rl.core._options import option
from llm_rl.training.arguments import RunArguments, part_of, refuse_idle
from llm_rl.training.lora import add_lora
from llm_rl.training.unsupported import refuse_unsupported
from llm_rl.training.wrapper import ModelWrapper

RolloutOnError = Literal["end", "correct", "redraw", "guard"]


@dataclass
class UnmaskArguments(ObjectiveConfig, PolicyConfig, RunArguments):
    """Arguments of `UnmaskTrainer`, over those of the objective, the policy and a run.

    `per_device_train_batch_size` is the number of problems of a roll-out, `max_steps` counts optimizer steps.
    """

    num_generations: int = option(8, "G: trajectories for each problem.")
    num_iterations: int = option(1, "mu: passes of updates over one roll-out.")
    num_mini_batches: int = option(
        1,
        "Parts that the states of a roll-out are dealt out to in each of these passes, an optimizer step "
        "each; several are for judged decisions and the cross-entropy, which need no ratio of others.",
    )
    tokens_per_step: int = option(1, "k: positions that a decision of a roll-out fills from one forward pass.")
    on_error: RolloutOnError = option(
        "end",
        "A wrong token ends the trajectory (end), is replaced by the answer's (correct), the decision is "
        "drawn again, up to judged_draws times (redraw), or none is written: of the surest positions those are "
        "filled with which a completion is left (guard).",
    )
    position_temperature_end: float | None = option(
        None, "T_pos at the end of training, reached linearly; None: constant."
    )
    rl_learning_rate: float | None = option(None, "Rate of the first term; None: learning_rate.")
    sft_learning_rate: float | None = option(None, "Rate of the second term; None: learning_rate.")
    max_tokens_per_pass: int = option(65536, "Largest number of tokens in one forward pass.")
    max_masked_per_pass: int | None = option(
        None, "Largest number of masked positions in one forward pass; None: no bound."
    )
    lora_r: int = option(0, "Rank of LoRA adapters; 0 trains every weight.")
    lora_alpha: int = option(32, "Scale of the adapters: alpha / r.")
    lora_dropout: float = option(
        0.0, "Dropout on the adapters' inputs; above 0 the ratio of a fresh roll-out is not 1."
    )
    lora_target_modules: list[str] | None = option(
        None, "Last names of the layers that get adapters; None: the model's own, all matrices of LLaDA."
    )

    def __post_init__(self) -> None:
        RunArguments.__post_init__(self)
        for name in ("rl_learning_rate", "sft_learning_rate"):
            check_rate(name, getattr(self, name))
        for name in ("shard", "fp16"):
            if getattr(self, name) and self.rates[0] != self.rates[1]:
                raise ValueError(
                    f"learning rates {self.rates[0]} and {self.rates[1]} differ, which takes two backward passes a "
                    f"forward pass and is not supported with {name}; give one rate to both terms, or leave out {name}"
                )
        self.remove_unused_columns = False  # batches are puzzles
        for name in ("num_generations", "num_iterations", "num_mini_batches", "tokens_per_step"):
            check_count(name, getattr(self, name))
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
        refuse_unsupported(self, "by UnmaskTrainer")
        if self.policy_weight and self.num_generations < 2:
            raise ValueError(
                f"num_generations={self.num_generations} with policy_weight={self.policy_weight}: in a group of one "
                "every advantage is 0; give num_generations of at least 2 to compare within, or policy_weight=0"
            )
        if self.on_error == "guard" and (self.policy_weight or self.f_weight or self.num_generations > 1):
            raise ValueError(
                f"on_error='guard' with policy_weight={self.policy_weight}, f_weight={self.f_weight} and "
                f"num_generations={self.num_generations}: what a guard keeps is not drawn from the policy, so that "
                "there is no ratio and all decodes of a problem are one; give 0, 0 and 1"
            )
        if self.ce_target == "own" and self.on_error != "guard":
            raise ValueError(
                f"ce_target='own' with on_error={self.on_error!r} would learn errors, and several ends of one state; "
                "set on_error='guard'"
            )
        self.objective_config()
        for fraction in (0.0, 1.0):
            self.policy_config(fraction)
        refuse_idle(self, self._idle())

    def _idle(self) -> list[tuple[str, object, str]]:
        # Options of a term that is on by default may stay when its weight is set to 0.
        draws = self.judged_weight or self.kept_weight or self.on_error == "redraw"
        return [
            ("lora_alpha lora_dropout lora_target_modules", self.lora_r, "without adapters; set lora_r"),
            ("judged_reward judged_form", self.judged_weight, "while judged_weight is 0; set judged_weight"),
            ("judged_draws", draws, "without a term that draws; set judged_weight"),
            ("ce_on ce_target", self.ce_weight, "while ce_weight is 0; set ce_weight"),
            ("ce_on", self.ce_target == "answer", "with ce_target='own', which counts all open positions"),
            (
                "rl_learning_rate",
                self.policy_weight or self.judged_weight or self.kept_weight,
                "without its terms; set policy_weight, judged_weight or kept_weight",
            ),
            ("sft_learning_rate", self.f_weight or self.ce_weight, "without its terms; set f_weight or ce_weight"),
        ]

    def adapted(self, model: Any) -> Any:
        """A model with the adapters that `lora_r` asks for, which it gets unless it has them.

        Args:
            model: A model, changed in place where it gets adapters.

        Returns:
            The model, or PEFT's wrapper of it (`llm_rl.training.lora.add_lora`).

        Raises:
            ValueError: It has adapters of another rank, or `add_lora` refuses one of the arguments.
        """
        if not self.lora_r:
            return model
        if isinstance(model, ModelWrapper):  # adapters go on the model inside
            model.model = self.adapted(model.model)
            return model
        if configs := getattr(model, "peft_config", None):
            if self.lora_r not in (ranks := [config.r for config in configs.values()]):
                raise ValueError(f"lora_r={self.lora_r}, but the model has adapters of rank {ranks}; leave lora_r out")
            return model
        return add_lora(
            model,
            r=self.lora_r,
            alpha=self.lora_alpha,
            dropout=self.lora_dropout,
            target_modules=self.lora_target_modules,
        )

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
