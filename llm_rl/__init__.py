"""Reinforcement learning of language models: the core that every trainer of this distribution shares, and VAPOR.

`llm_rl.core` holds pure functions on tensors and the metric accumulator; it imports torch and nothing else.
`llm_rl.spans` maps tags in decoded text to tokens; `llm_rl.vapor` holds VAPOR's objective as pure functions.
`llm_rl.grpo` and `llm_rl.rollout_trainer` hold trainers on transformers; import them by name.
"""

from llm_rl import core, spans, vapor

__all__ = ["core", "spans", "vapor"]
