"""What GRPO can do beside its objective, an object each: `GRPOTrainer(…, extensions=[…])`. See docs/grpo.md."""

from llm_rl.grpo.extensions.base import Extension
from llm_rl.grpo.extensions.chord import Chord
from llm_rl.grpo.extensions.entropy_bonus import EntropyBonus
from llm_rl.grpo.extensions.importance_correction import ImportanceCorrection
from llm_rl.grpo.extensions.rollout_ahead import RolloutAhead

__all__ = ["Chord", "EntropyBonus", "Extension", "ImportanceCorrection", "RolloutAhead"]
