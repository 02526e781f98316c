"""Arguments of trainers whose surrogate clips the ratio of policies."""

from dataclasses import dataclass, field

from llm_rl.rollout.arguments import RolloutArguments


@dataclass
class ClippedArguments(RolloutArguments):
    """The clip range of the ratio, over the arguments of roll-outs.

    Raises:
        ValueError: A value is out of range.
    """

    epsilon: float = field(default=0.2, metadata={"help": "The ratio is clipped below at 1 - epsilon."})
    epsilon_high: float | None = field(
        default=None, metadata={"help": "The ratio is clipped above at 1 + epsilon_high; None: epsilon."}
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.epsilon <= 1:
            raise ValueError(f"epsilon is {self.epsilon}; it must lie in [0, 1]")
        if not self.clip_high >= 0:
            raise ValueError(f"epsilon_high is {self.epsilon_high}; it must be 0 or greater")

    @property
    def clip_high(self) -> float:
        """How far the ratio may rise above 1."""
        return self.epsilon if self.epsilon_high is None else self.epsilon_high
