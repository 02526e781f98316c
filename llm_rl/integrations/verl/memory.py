"""What agent loops remember between rows: pairs of earlier steps, for the whole job, and the prompt of a group."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from llm_rl.raro import Pair, ReplayBuffer
from llm_rl.raro.critic import Request
from llm_rl.raro.replay import ReplayMode
from llm_rl.training.storage import load_record, save_record

ACTOR = "raro_replay"
"""The name of the actor that holds the memory; names are of one job."""
_shared: WeakValueDictionary[str, asyncio.Future[Request]] = WeakValueDictionary()


class StepMemory:
    """A replay buffer from which a step draws what earlier steps put in; of a job on verl there is one, an actor.

    Arguments are those of `ReplayBuffer`.
    """

    def __init__(self, capacity: int, mode: ReplayMode, seed: int) -> None:
        self._buffer = ReplayBuffer(capacity, mode, seed)
        self._recent: list[Pair] = []

    def store(self, pair: Pair) -> None:
        """Remember a pair; it can be drawn from the next step on."""
        self._settle(pair.step)
        self._recent.append(pair)

    def draw(self, step: int) -> Pair | None:
        """A pair of a step before this one; None where there is none."""
        self._settle(step)
        drawn = self._buffer.sample(1)
        return drawn[0] if drawn else None

    def pairs(self) -> list[Pair]:
        """All that is held, in no order that means anything."""
        return [*self._buffer.pairs, *self._recent]

    def save(self, folder: str) -> None:
        """Write everything to a folder that exists."""
        save_record({"buffer": self._buffer.state_dict(), "recent": self._recent}, Path(folder) / ACTOR)

    def restore(self, folder: str) -> None:
        """Replace everything by what `save` wrote; `ValueError` where that is of another capacity or mode."""
        state = load_record(Path(folder) / ACTOR, [Pair])
        self._buffer.load_state_dict(state["buffer"])
        self._recent = list(state["recent"])

    def _settle(self, step: int) -> None:
        self._buffer.add([pair for pair in self._recent if pair.step < step])
        self._recent = [pair for pair in self._recent if pair.step >= step]


async def shared_request(uid: str, make: Callable[[], Awaitable[Request]]) -> Request:
    """What the roll-outs of a prompt, all in one process, are asked: made by the first, while any is under way."""
    task = _shared.get(uid)
    if task is None:
        _shared[uid] = task = asyncio.ensure_future(make())
    return await task


@cache
def replay_memory() -> Any:
    """The job's memory, a handle of Ray: `await handle.draw.remote(step)`; `ValueError` where there is none."""
    import ray

    try:
        return ray.get_actor(ACTOR)
    except ValueError as error:
        raise ValueError(
            "the job has no replay memory; set trainer.checkpoint_callback_class="
            "llm_rl.integrations.verl.checkpoint.ReplayCheckpoint, as configs/verl/raro.yaml does"
        ) from error
