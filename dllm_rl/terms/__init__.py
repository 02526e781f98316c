"""The terms of the objective, one file each: its parameters, its formula, its metrics."""

from dllm_rl.terms.objective import ObjectiveConfig
from dllm_rl.terms.policy_gradient import rollout_advantages
from dllm_rl.terms.states import ScoredStates, Term, TermValue, VisitedStates

__all__ = ["ObjectiveConfig", "ScoredStates", "Term", "TermValue", "VisitedStates", "rollout_advantages"]
