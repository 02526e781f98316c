"""Masked-diffusion language models and their reinforcement learning.

Importing the package registers LLaDA with the Auto classes of transformers; the other names are loaded when they are
first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

try:
    from dllm_rl.models.llada import LladaForMaskedLM, LladaModel
    from dllm_rl.models.llada_config import LladaConfig
except ModuleNotFoundError as error:
    if error.name not in ("torch", "transformers"):
        raise
    REMEDY = f"dllm_rl needs {error.name}; install it with pip install 'sudoku-dllm[train]'"
    raise ModuleNotFoundError(REMEDY, name=error.name) from error

if TYPE_CHECKING:
    from dllm_rl.batch_check import check_batch as check_batch
    from dllm_rl.decoding import STRATEGIES as STRATEGIES
    from dllm_rl.decoding import Decode as Decode
    from dllm_rl.decoding import Decoding as Decoding
    from dllm_rl.decoding import EntropyBound as EntropyBound
    from dllm_rl.decoding import Evaluation as Evaluation
    from dllm_rl.decoding import Strategy as Strategy
    from dllm_rl.decoding import TakeBack as TakeBack
    from dllm_rl.decoding import Threshold as Threshold
    from dllm_rl.decoding import decode as decode
    from dllm_rl.decoding import evaluate as evaluate
    from dllm_rl.decoding import get_strategy as get_strategy
    from dllm_rl.decoding.rollouts import Rollout as Rollout
    from dllm_rl.decoding.rollouts import rollout as rollout
    from dllm_rl.models.adapter import LogitsAdapter as LogitsAdapter
    from dllm_rl.models.adapter import as_policy_model as as_policy_model
    from dllm_rl.models.shipped import load as load
    from dllm_rl.models.shipped import shipped_models as shipped_models
    from dllm_rl.policy import PolicyConfig as PolicyConfig
    from dllm_rl.sft import SftArguments as SftArguments
    from dllm_rl.sft import SftDataset as SftDataset
    from dllm_rl.sft import SftTrainer as SftTrainer
    from dllm_rl.sft import masked_diffusion_loss as masked_diffusion_loss
    from dllm_rl.sudoku import PuzzleBatch as PuzzleBatch
    from dllm_rl.sudoku import SudokuTask as SudokuTask
    from dllm_rl.task import UnmaskBatch as UnmaskBatch
    from dllm_rl.task import UnmaskTask as UnmaskTask
    from dllm_rl.terms.objective import ObjectiveConfig as ObjectiveConfig
    from dllm_rl.text.completing import TextBatch as TextBatch
    from dllm_rl.text.completing import complete as complete
    from dllm_rl.text.pattern import Pattern as Pattern
    from dllm_rl.training.arguments import UnmaskArguments as UnmaskArguments
    from dllm_rl.training.trainer import UnmaskTrainer as UnmaskTrainer
    from dllm_rl.training.update import objective_pass as objective_pass

_HOMES = {
    "Decode": "dllm_rl.decoding",
    "Decoding": "dllm_rl.decoding",
    "EntropyBound": "dllm_rl.decoding",
    "Evaluation": "dllm_rl.decoding",
    "LogitsAdapter": "dllm_rl.models.adapter",
    "ObjectiveConfig": "dllm_rl.terms.objective",
    "Pattern": "dllm_rl.text.pattern",
    "PolicyConfig": "dllm_rl.policy",
    "PuzzleBatch": "dllm_rl.sudoku",
    "Rollout": "dllm_rl.decoding.rollouts",
    "STRATEGIES": "dllm_rl.decoding",
    "SftArguments": "dllm_rl.sft",
    "SftDataset": "dllm_rl.sft",
    "SftTrainer": "dllm_rl.sft",
    "Strategy": "dllm_rl.decoding",
    "SudokuTask": "dllm_rl.sudoku",
    "TakeBack": "dllm_rl.decoding",
    "TextBatch": "dllm_rl.text.completing",
    "Threshold": "dllm_rl.decoding",
    "UnmaskArguments": "dllm_rl.training.arguments",
    "UnmaskBatch": "dllm_rl.task",
    "UnmaskTask": "dllm_rl.task",
    "UnmaskTrainer": "dllm_rl.training.trainer",
    "as_policy_model": "dllm_rl.models.adapter",
    "check_batch": "dllm_rl.batch_check",
    "complete": "dllm_rl.text.completing",
    "decode": "dllm_rl.decoding",
    "evaluate": "dllm_rl.decoding",
    "get_strategy": "dllm_rl.decoding",
    "load": "dllm_rl.models.shipped",
    "masked_diffusion_loss": "dllm_rl.sft",
    "objective_pass": "dllm_rl.training.update",
    "rollout": "dllm_rl.decoding.rollouts",
    "shipped_models": "dllm_rl.models.shipped",
}
__all__ = ["LladaConfig", "LladaForMaskedLM", "LladaModel", *_HOMES]


def __getattr__(name: str) -> Any:
    """The public name, from the module that it lives in."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = getattr(import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    """What the package offers."""
    return sorted({*globals(), *_HOMES})
