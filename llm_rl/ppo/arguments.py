"""Arguments of PPO, over those of roll-outs."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from llm_rl.core import ClipConfig
from llm_rl.core._checks import check_count, check_positive, check_rate
from llm_rl.core._options import option
from llm_rl.grpo.arguments import KLIn
from llm_rl.tools.arguments import EpisodeArguments

ValueKind = Literal["head", "model"]


@dataclass
class PPOArguments(EpisodeArguments, ClipConfig):
    """Arguments of `PPOTrainer`; names and defaults are those of docs/ppo.md.

    `num_ppo_epochs` is the name that PPO has for `num_iterations`, which takes its value.

    Raises:
        ValueError: A value is out of range, a name unknown, or two do not fit together.
    """

    _smallest_group: ClassVar = 1

    num_generations: int = option(1, "Completions of each prompt.")
    num_ppo_epochs: int = option(4, "Optimizer steps on one roll-out.")
    gamma: float = option(1.0, "Discount factor from token to token.")
    lam: float = option(0.95, "Lambda of the advantage: 0, one-step errors; 1, the return minus the value.")
    vf_coef: float = option(0.1, "Weight of the value loss.")
    cliprange_value: float | None = option(0.2, "How far a value may move from that at sampling; None: no clip.")
    value_function: ValueKind = option(
        "head", "A head on the policy's last hidden state, or a model of its own with a head."
    )
    bootstrap_cut_off: bool = option(
        False, "What was cut off (length, turns, room) goes on with the value there; off: it ended."
    )
    kl_in: KLIn = option("reward", "Divergence in the reward of each token, or in the loss.")

    def __post_init__(self) -> None:
        check_count("num_ppo_epochs", self.num_ppo_epochs)
        if self.num_iterations not in (1, self.num_ppo_epochs):
            raise ValueError(
                f"num_iterations is {self.num_iterations} and num_ppo_epochs {self.num_ppo_epochs}, two names of one "
                "number; set num_ppo_epochs alone"
            )
        self.num_iterations = self.num_ppo_epochs
        super().__post_init__()
        ClipConfig.__post_init__(self)
        for name in ("gamma", "lam"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must lie in [0, 1]")
        check_rate("vf_coef", self.vf_coef)
        if self.cliprange_value is not None:
            check_positive("cliprange_value", self.cliprange_value)
        if self.shard and self.value_function == "model":
            raise ValueError("value_function='model' trains a second model, which shard does not support; take head")
        self._check_reference("kl_in")
        if self.kl_in == "loss" and self.kl_estimator == "k1":
            raise ValueError(
                "kl_estimator='k1' in the loss has gradient 0 in expectation; choose k2, k3 or full, or kl_in='reward'"
            )
        if self.episode_as == "turns":
            raise ValueError(
                "episode_as='turns' would cut PPO's advantages between turns, which run through a whole episode; leave "
                "it out"
            )
        if self.dynamic_sampling_attempts:
            raise ValueError(
                "dynamic_sampling_attempts replaces groups without spread, and PPO compares no groups; leave it out"
            )
