"""Reinforcement learning of causal language models, and what every trainer of this distribution shares.

`core` holds pure functions on tensors, `training` what trainers of both families need, `rollout` roll-outs of causal
models; `grpo`, `ppo`, `dpo`, `vapor` and `raro` hold a trainer each, `tools` conversations in which models call tools.
The names here are loaded when they are first asked for. In shapes each letter means the same everywhere:

    Q prompts, G completions of each, N = Q·G; B rows of a micro-batch, be they completions or pairs
    P tokens of a prompt, T of a completion, L of whole rows; K steps of an episode
    V tokens of the vocabulary, D width of hidden states, M rows of either; F reward functions
    C pairs of a prompt, one or one for each completion; U units that have a ratio, a completion or its tokens
"""

from typing import Any

from lazy_loader import attach_stub

_load, __dir__, __all__ = attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    """The public name, from the module that it lives in."""
    try:
        return _load(name)
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "transformers"):
            raise
        remedy = f"llm_rl.{name} needs {error.name}; install it with pip install 'sudoku-dllm[train]'"
        raise ModuleNotFoundError(remedy, name=error.name) from error
