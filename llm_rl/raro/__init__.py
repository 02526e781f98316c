"""RARO (arXiv:2511.21667): one model as policy and as critic, trained on expert answers without a verifier."""

from llm_rl.raro.arguments import RAROArguments
from llm_rl.raro.judge import CriticJudge
from llm_rl.raro.labels import Label, escape_answer, parse_label
from llm_rl.raro.objective import RaroConfig, RaroLoss, RewardMatrix, RoleCounts, joint_loss, role_advantages
from llm_rl.raro.prompts import PolicyRows, Prompts, RoleTemplate, extract_answer
from llm_rl.raro.replay import Pair, ReplayBuffer, question_key
from llm_rl.raro.start import start_rows
from llm_rl.raro.tournament import Match, majority_vote, single_elimination, swiss
from llm_rl.raro.trainer import RAROTrainer

__all__ = [
    "CriticJudge",
    "Label",
    "Match",
    "Pair",
    "PolicyRows",
    "Prompts",
    "RAROArguments",
    "RAROTrainer",
    "RaroConfig",
    "RaroLoss",
    "ReplayBuffer",
    "RewardMatrix",
    "RoleCounts",
    "RoleTemplate",
    "escape_answer",
    "extract_answer",
    "joint_loss",
    "majority_vote",
    "parse_label",
    "question_key",
    "role_advantages",
    "single_elimination",
    "start_rows",
    "swiss",
]
