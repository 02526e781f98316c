"""What the study on traces compares: the arms, their data, their rates and updates of equal cost."""

from dataclasses import asdict, dataclass, replace
from typing import Any

from scripts.propagation.task import Automaton
from scripts.study.config import RECIPES, Arm, ArmBudget

STATES, INPUTS, LENGTH = 6, 4, 12
AUTOMATON = Automaton.random(STATES, INPUTS, seed=0)
GIVEN = {"test": (2, 5), "hard_test": (1, 1)}
"""Fewest and most written states of a trace, by set of problems; training and validation are as "test"."""
TEST_TRACES, VALIDATION_TRACES = 1000, 300
TOKENS_PER_STEP = (1, 4)
WARMUP_SHARE, DECAY_SHARE = 0.05, 0.4
EXAMPLES = 64
BUDGET_SECONDS = 20
"""CPU seconds of training that an arm's updates cost, about, on the busy cores of the study."""


@dataclass(frozen=True)
class Training:
    """An arm and what it trains on.

    Attributes:
        arm: The arm; with the rule "every_cell" every hidden state counts as definite.
        examples: Traces to train on.
        spliced: Traces to train on beside them, spliced from them where they are in the same state.
    """

    arm: Arm
    examples: int = EXAMPLES
    spliced: int = 0

    @property
    def settings(self) -> dict[str, Any]:
        """What decides a result, for its file."""
        return {
            **asdict(self),
            "trace": [STATES, INPUTS, LENGTH],
            "given": GIVEN,
            "tests": [TEST_TRACES, TOKENS_PER_STEP],
            "schedule": [WARMUP_SHARE, DECAY_SHARE],
        }


def _sft(steps: int, **changes: Any) -> Arm:
    arguments = {"per_device_train_batch_size": 64, **changes}
    return Arm("sft", ArmBudget(steps=steps), arguments, control=True)


def _rollouts(steps: int, rule: str = "singles", **changes: Any) -> Arm:
    """The recipe of configs/causes.yaml: log f and cross-entropy on roll-outs of four tokens a step."""
    arguments = {
        **RECIPES["objective"],
        "learning_rate": 3e-3,
        "f_weight": 1.0,
        "f_form": "log",
        "tokens_per_step": 4,
        "on_error": "correct",
        **changes,
    }
    return Arm("unmask", ArmBudget(steps=steps), arguments, rule=rule)


SFT_UPDATES, ROLLOUT_UPDATES = 500, 400
DEFINITE = {"ce_on": "definite"}

MAIN = {
    "sft": Training(_sft(SFT_UPDATES, learning_rate=6e-3)),
    "sft_definite": Training(_sft(SFT_UPDATES, learning_rate=3e-3, **DEFINITE)),
    "ce_4": Training(_rollouts(ROLLOUT_UPDATES, f_weight=0.0, learning_rate=6e-3)),
    "ce_definite_4": Training(_rollouts(ROLLOUT_UPDATES, f_weight=0.0, **DEFINITE)),
    "placebo_4": Training(_rollouts(ROLLOUT_UPDATES, rule="every_cell", learning_rate=6e-3)),
    "log_f_4": Training(_rollouts(ROLLOUT_UPDATES)),
    "log_f_ce_definite_4": Training(_rollouts(ROLLOUT_UPDATES, **DEFINITE)),
}
"""The arms whose comparison is the study."""

COMPARED = ("sft", "sft_definite", "log_f_ce_definite_4")
MANY = 4 * EXAMPLES
CONTROLS = {
    "ce_4_half_rate": Training(_rollouts(ROLLOUT_UPDATES, f_weight=0.0)),
    "placebo_4_half_rate": Training(_rollouts(ROLLOUT_UPDATES, rule="every_cell")),
    "sft_4_budgets": Training(_sft(4 * SFT_UPDATES, learning_rate=6e-3)),
    **{f"{name}_{MANY}_examples": replace(MAIN[name], examples=MANY) for name in COMPARED},
    **{f"{name}_spliced": replace(MAIN[name], spliced=5000) for name in COMPARED},
}
"""Other explanations, and where the gain ends."""
TRAININGS = {**MAIN, **CONTROLS}
