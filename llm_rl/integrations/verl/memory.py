"""What an agent-loop worker remembers between rows: pairs of earlier steps, and the prompt that a group shares."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import cache
from weakref import WeakValueDictionary

from llm_rl.raro import Pair, ReplayBuffer
from llm_rl.raro.critic import Request
from llm_rl.raro.replay import ReplayMode


class WorkerMemory:
    """The replay memory of one worker process; verl saves it with no checkpoint.

    Args:
        capacity: Most pairs held, as in `ReplayBuffer`.
        mode: Which pairs are kept, as in `ReplayBuffer`.
        seed: Seed of what is drawn, as in `ReplayBuffer`.
    """

    def __init__(self, capacity: int, mode: ReplayMode, seed: int) -> None:
        self._buffer = ReplayBuffer(capacity, mode, seed)
        self._recent: list[Pair] = []
        self._requests: WeakValueDictionary[str, asyncio.Task[Request]] = WeakValueDictionary()

    def store(self, pair: Pair) -> None:
        """Remember a pair; it can be drawn from the next step on."""
        self._settle(pair.step)
        self._recent.append(pair)

    def draw(self, step: int) -> Pair | None:
        """A pair of a step before this one; None where there is none."""
        self._settle(step)
        drawn = self._buffer.sample(1)
        return drawn[0] if drawn else None

    def _settle(self, step: int) -> None:
        self._buffer.add([pair for pair in self._recent if pair.step < step])
        self._recent = [pair for pair in self._recent if pair.step >= step]

    async def shared(self, uid: str, make: Callable[[], Awaitable[Request]]) -> Request:
        """What the roll-outs of one prompt are all asked: made by the first of them, while any is under way."""
        task = self._requests.get(uid)
        if task is None:
            task = asyncio.ensure_future(make())
            self._requests[uid] = task
        return await task


@cache
def worker_memory(capacity: int, mode: ReplayMode, seed: int) -> WorkerMemory:
    """The memory of this process."""
    return WorkerMemory(capacity, mode, seed)
