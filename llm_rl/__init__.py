"""Reinforcement learning of language models: the core that every trainer of this distribution shares.

`llm_rl.core` holds pure functions on tensors and the metric accumulator; it imports torch and nothing else.
"""

from llm_rl import core

__all__ = ["core"]
