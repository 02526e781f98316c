"""Masked-diffusion language models and their reinforcement learning.

Importing the package registers LLaDA with the Auto classes of transformers; the other names are loaded when they are
first asked for.
"""

from lazy_loader import attach_stub

try:
    import dllm_rl.models.llada  # noqa: F401  registers it
except ModuleNotFoundError as error:
    if error.name not in ("torch", "transformers"):
        raise
    REMEDY = f"dllm_rl needs {error.name}; install it with pip install 'sudoku-dllm[train]'"
    raise ModuleNotFoundError(REMEDY, name=error.name) from error

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
