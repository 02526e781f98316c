"""RARO's reward matrix. Source: docs/raro.md, 'What a step does'."""

from collections.abc import Sequence
from dataclasses import dataclass

from llm_rl.raro.verdict import Verdict


@dataclass(frozen=True)
class RewardMatrix:
    """What each label is worth to each role.

    | label | critic | policy |
    |---|---|---|
    | expert | 1 | 0 |
    | policy | 0 | 1 |
    | tie | τ_crit | τ_pol |

    A critic that cannot tell has 0.5 from guessing, so a τ_crit above that makes it admit a tie.

    Attributes:
        tau_pol: τ_pol in [0, 1].
        tau_crit: τ_crit in [0, 1].

    Raises:
        ValueError: A reward of a tie lies outside [0, 1].
    """

    tau_pol: float = 0.6
    tau_crit: float = 0.55

    def __post_init__(self) -> None:
        for name in ("tau_pol", "tau_crit"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)!r}; a tie is worth between losing, 0, and winning, 1")

    def critic(self, verdict: Verdict) -> float:
        """The critic's reward for its label."""
        return {Verdict.EXPERT: 1.0, Verdict.POLICY: 0.0, Verdict.TIE: self.tau_crit}[verdict]

    def policy(self, verdict: Verdict) -> float:
        """The reward of the policy whose answer was labeled."""
        return {Verdict.EXPERT: 0.0, Verdict.POLICY: 1.0, Verdict.TIE: self.tau_pol}[verdict]

    def policy_mean(self, verdicts: Sequence[Verdict | None]) -> float | None:
        """The policy's mean reward over the labels of one answer that could be parsed; None where none could."""
        rewards = [self.policy(verdict) for verdict in verdicts if verdict is not None]
        return sum(rewards) / len(rewards) if rewards else None
