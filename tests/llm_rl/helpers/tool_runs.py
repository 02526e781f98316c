"""GRPO and PPO that train on conversations with a tool, in one process or several, to be cut, killed and resumed."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any

import torch

from llm_rl.grpo.arguments import GRPOArguments
from llm_rl.grpo.trainer import GRPOTrainer
from llm_rl.ppo.arguments import PPOArguments
from llm_rl.ppo.trainer import PPOTrainer
from llm_rl.rollout.generation import Completion, SamplingParams
from tests.llm_rl.helpers.fixed_engine import Weightless
from tests.llm_rl.helpers.tiny_grpo import length, settings
from tests.llm_rl.helpers.tool_play import END, Count, chat_model, chat_tokenizer, tokens, up

ROWS = [{"prompt": [{"role": "user", "content": "Count"}], "goal": goal} for goal in range(2, 10)]
TO_FOUR = ROWS[2:3]
TURNS = [up(1), up(2), up(3), up(9), f"ab{END}", f"<tool_call>up</tool_call>{END}", "no end"]
"""Calls that count, one that raises, a final answer, a call that is none, a turn without end."""
KINDS: dict[str, Any] = {"grpo": (GRPOTrainer, GRPOArguments), "ppo": (PPOTrainer, PPOArguments)}
GIVEN: dict[str, Any] = {"max_completion_length": 100, "max_turns": 3, "num_generations": 4, "show_supervised": False}


class Player(Weightless):
    """Writes one of `TURNS`, whatever the policy.

    Args:
        choose: From a prompt's ids and how often they were asked before in this call to a number.
    """

    def __init__(self, choose: Callable[[tuple[int, ...], int], int]) -> None:
        self._choose = choose

    def generate(self, prompts: Sequence[Sequence[int]], params: SamplingParams) -> list[Completion]:
        seen: Counter[tuple[int, ...]] = Counter()
        found = []
        for prompt in map(tuple, prompts):
            ids = tokens(TURNS[self._choose(prompt, seen[prompt]) % len(TURNS)])
            seen[prompt] += 1
            found.append(Completion(ids, [-1.0] * len(ids)))
        return found


def fixed_player() -> Player:
    """Its turns depend on what stands before them alone, so that runs of several cuts play the same."""
    return Player(lambda prompt, count: hashlib.sha256(repr((prompt, count)).encode()).digest()[0])


class DrawingPlayer(Player):
    """At each call goes round `TURNS` in an order that torch's global generator decides: eight prompts have all."""

    def __init__(self) -> None:
        super().__init__(lambda prompt, count: next(self._order))
        self._order: Iterator[int] = iter(())
        self.drawn: list[int] = []

    def generate(self, prompts: Sequence[Sequence[int]], params: SamplingParams) -> list[Completion]:
        self.drawn.append(int(torch.randint(2**62, ())))
        self._order = cycle(Random(self.drawn[-1]).sample(range(len(TURNS)), len(TURNS)))
        return super().generate(prompts, params)


def trainer(
    kind: str, folder: Path, engine: Any, model: Any = None,
    *, data: Any = ROWS, names: Any = None, given: dict[str, Any] | None = None, **changes: Any,
) -> Any:  # fmt: skip
    """A trainer of "grpo" or "ppo", unless it is given others of the tiny model on `Count`."""
    made, arguments = KINDS[kind]
    offered: dict[str, Any] = {"environment_factory": Count, **(given or {})}
    if "tools" in offered:
        del offered["environment_factory"]
    args = arguments(**settings(folder, **{**GIVEN, **changes}))
    model, rewards = chat_model() if model is None else model, length if "tools" in offered else None
    return made(model, rewards, args, data, names or chat_tokenizer(), engine=engine, **offered)


def grpo_of_two(folder: Path, engine: Any, model: Any = None, **changes: Any) -> GRPOTrainer:
    """GRPO on two conversations about counting to four."""
    chosen = {"data": TO_FOUR, "num_generations": 2, "per_device_train_batch_size": 2, **changes}
    return trainer("grpo", folder, engine, model, **chosen)
