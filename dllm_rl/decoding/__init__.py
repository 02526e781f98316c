"""Decoding: strategies, limits, taking back (`Decoding`), the one loop, and what came of it (`Decode`, `Evaluation`).

`decode` gives complete answers, `evaluate` says how good they are, and `rollout` records what training needs; all run
the same loop. `replay` records it of answers that another engine decoded.
"""

from dllm_rl.decoding.evaluation import Evaluation, evaluate, paired_difference
from dllm_rl.decoding.inference import Decode, decode
from dllm_rl.decoding.replay import replay, steps_from_maps
from dllm_rl.decoding.rollouts import Rollout, rollout
from dllm_rl.decoding.settings import Decoding, EntropyBound, Guard, OnError, TakeBack, Threshold
from dllm_rl.decoding.strategies import STRATEGIES, Strategy, get_strategy, semi_autoregressive

__all__ = [
    "STRATEGIES",
    "Decode",
    "Decoding",
    "EntropyBound",
    "Evaluation",
    "Guard",
    "OnError",
    "Rollout",
    "Strategy",
    "TakeBack",
    "Threshold",
    "decode",
    "evaluate",
    "get_strategy",
    "paired_difference",
    "replay",
    "rollout",
    "semi_autoregressive",
    "steps_from_maps",
]
