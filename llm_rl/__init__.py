"""Reinforcement learning of causal language models, and what every trainer of this distribution shares.

`core` holds pure functions on tensors, `training` what trainers of both families need, `rollout` roll-outs of causal
models; `grpo`, `ppo`, `dpo`, `vapor` and `raro` hold a trainer each, `tools` conversations in which models call tools.
The names here are loaded when they are first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llm_rl.dpo.arguments import DPOArguments as DPOArguments
    from llm_rl.dpo.trainer import DPOTrainer as DPOTrainer
    from llm_rl.grpo.arguments import GRPOArguments as GRPOArguments
    from llm_rl.grpo.extensions import Chord as Chord
    from llm_rl.grpo.extensions import EntropyBonus as EntropyBonus
    from llm_rl.grpo.extensions import ImportanceCorrection as ImportanceCorrection
    from llm_rl.grpo.extensions import RolloutAhead as RolloutAhead
    from llm_rl.grpo.trainer import GRPOTrainer as GRPOTrainer
    from llm_rl.ppo.arguments import PPOArguments as PPOArguments
    from llm_rl.ppo.trainer import PPOTrainer as PPOTrainer
    from llm_rl.raro.arguments import RAROArguments as RAROArguments
    from llm_rl.raro.prompts import PolicyRows as PolicyRows
    from llm_rl.raro.prompts import Prompts as Prompts
    from llm_rl.raro.start import start_rows as start_rows
    from llm_rl.raro.trainer import RAROTrainer as RAROTrainer
    from llm_rl.rollout.arguments import RolloutArguments as RolloutArguments
    from llm_rl.rollout.data import RolloutBatch as RolloutBatch
    from llm_rl.rollout.data import Sample as Sample
    from llm_rl.rollout.generation import GenerationEngine as GenerationEngine
    from llm_rl.rollout.generation import SamplingParams as SamplingParams
    from llm_rl.rollout.generation import TransformersEngine as TransformersEngine
    from llm_rl.rollout.reward_model import RewardModel as RewardModel
    from llm_rl.rollout.reward_model import TextJudge as TextJudge
    from llm_rl.rollout.sampling import ScoredCompletions as ScoredCompletions
    from llm_rl.rollout.sampling import sample_and_score as sample_and_score
    from llm_rl.rollout.server.engine import ServerEngine as ServerEngine
    from llm_rl.rollout.server.errors import ServerError as ServerError
    from llm_rl.rollout.server.process import ServerProcess as ServerProcess
    from llm_rl.rollout.sft import supervised_trainer as supervised_trainer
    from llm_rl.rollout.trainer import RolloutTrainer as RolloutTrainer
    from llm_rl.tools.calls import CallFormat as CallFormat
    from llm_rl.tools.files import read_trajectories as read_trajectories
    from llm_rl.tools.self_labels import SelfLabelOptions as SelfLabelOptions
    from llm_rl.tools.self_labels import self_labelled_rows as self_labelled_rows
    from llm_rl.tools.template import TOOL_CHAT_TEMPLATE as TOOL_CHAT_TEMPLATE
    from llm_rl.tools.trajectories import TrajectoryDataset as TrajectoryDataset
    from llm_rl.training.callbacks import MetricsWriter as MetricsWriter
    from llm_rl.training.lora import add_lora as add_lora
    from llm_rl.vapor.arguments import VAPORArguments as VAPORArguments
    from llm_rl.vapor.trainer import VAPORTrainer as VAPORTrainer

_HOMES = {
    "CallFormat": "llm_rl.tools.calls",
    "Chord": "llm_rl.grpo.extensions",
    "DPOArguments": "llm_rl.dpo.arguments",
    "DPOTrainer": "llm_rl.dpo.trainer",
    "EntropyBonus": "llm_rl.grpo.extensions",
    "GRPOArguments": "llm_rl.grpo.arguments",
    "GRPOTrainer": "llm_rl.grpo.trainer",
    "GenerationEngine": "llm_rl.rollout.generation",
    "ImportanceCorrection": "llm_rl.grpo.extensions",
    "MetricsWriter": "llm_rl.training.callbacks",
    "PPOArguments": "llm_rl.ppo.arguments",
    "PPOTrainer": "llm_rl.ppo.trainer",
    "PolicyRows": "llm_rl.raro.prompts",
    "Prompts": "llm_rl.raro.prompts",
    "RAROArguments": "llm_rl.raro.arguments",
    "RAROTrainer": "llm_rl.raro.trainer",
    "RewardModel": "llm_rl.rollout.reward_model",
    "RolloutAhead": "llm_rl.grpo.extensions",
    "RolloutArguments": "llm_rl.rollout.arguments",
    "RolloutBatch": "llm_rl.rollout.data",
    "RolloutTrainer": "llm_rl.rollout.trainer",
    "Sample": "llm_rl.rollout.data",
    "SamplingParams": "llm_rl.rollout.generation",
    "ScoredCompletions": "llm_rl.rollout.sampling",
    "SelfLabelOptions": "llm_rl.tools.self_labels",
    "ServerEngine": "llm_rl.rollout.server.engine",
    "ServerError": "llm_rl.rollout.server.errors",
    "ServerProcess": "llm_rl.rollout.server.process",
    "TOOL_CHAT_TEMPLATE": "llm_rl.tools.template",
    "TextJudge": "llm_rl.rollout.reward_model",
    "TrajectoryDataset": "llm_rl.tools.trajectories",
    "TransformersEngine": "llm_rl.rollout.generation",
    "VAPORArguments": "llm_rl.vapor.arguments",
    "VAPORTrainer": "llm_rl.vapor.trainer",
    "add_lora": "llm_rl.training.lora",
    "read_trajectories": "llm_rl.tools.files",
    "sample_and_score": "llm_rl.rollout.sampling",
    "self_labelled_rows": "llm_rl.tools.self_labels",
    "start_rows": "llm_rl.raro.start",
    "supervised_trainer": "llm_rl.rollout.sft",
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    """The public name, from the module that it lives in."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        home = import_module(_HOMES[name])
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "transformers"):
            raise
        remedy = f"llm_rl.{name} needs {error.name}; install it with pip install 'sudoku-dllm[train]'"
        raise ModuleNotFoundError(remedy, name=error.name) from error
    globals()[name] = found = getattr(home, name)
    return found


def __dir__() -> list[str]:
    """What the package offers."""
    return sorted({*globals(), *_HOMES})
