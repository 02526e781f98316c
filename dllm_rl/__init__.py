"""Masked-diffusion language models and their reinforcement learning.

Importing the package registers LLaDA with the Auto classes of transformers; the other names are loaded when they are
first asked for. In shapes each letter means the same everywhere, with a prime some of these:

    Q problems, G trajectories of each, T = Q·G; K decisions of a trajectory, each of at most k positions
    P tokens of a prompt, R positions of its response, V tokens of the vocabulary
    S distinct states, U of them in an update, N in one pass; M masked positions in these, W written ones asked about
    A trajectories, or decisions, at hand; B choices of theirs, a position and its token each
    C columns of one row: candidates, or choices; D draws of one decision

Models and supervised fine-tuning take B sequences of L tokens.
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
