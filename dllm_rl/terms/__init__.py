"""The terms of the objective, one file each: its parameters, its formula, its metrics."""

from dllm_rl.terms.objective import ObjectiveConfig
from dllm_rl.terms.policy_gradient import rollout_advantages
from dllm_rl.terms.states import ScoredStates, Term, TermValue, VisitedStates
from dllm_rl.terms.values import CellValues, Values, totals_by_masked

__all__ = [
    "CellValues",
    "ObjectiveConfig",
    "ScoredStates",
    "Term",
    "TermValue",
    "Values",
    "VisitedStates",
    "rollout_advantages",
    "totals_by_masked",
]
