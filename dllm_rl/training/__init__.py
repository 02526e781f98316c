"""Training by the objective: the pass of its terms over a roll-out, the trainer and its arguments."""

from dllm_rl.training.arguments import UnmaskArguments
from dllm_rl.training.trainer import UnmaskTrainer
from dllm_rl.training.update import Backward, UpdateResult, objective_pass, step_weights

__all__ = ["Backward", "UnmaskArguments", "UnmaskTrainer", "UpdateResult", "objective_pass", "step_weights"]
