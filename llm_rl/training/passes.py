"""Passes of sharded models, which all processes take together however many each has of its own.

A forward or backward pass of a sharded model gathers weights from all processes, which must take it at the same time.
But a roll-out takes as many passes as its longest trajectory, and an update as many as its states need. So within a
section (`Shards.together`) processes tell each other before each pass what they want, and all do the most that anyone
wants: whoever has nothing to do there takes an empty pass, of a token or two and gradient 0, until all are done.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, register_fsdp_forward_method
from torch.utils._pytree import tree_leaves

from llm_rl.training.modes import evaluation_mode
from llm_rl.training.sharding import check_sharded, shard

Result = TypeVar("Result")
DONE, BACKWARD, FORWARD, FAILED = 0, 1, 2, 2**31
"""What a process wants next; of forward passes each model has two numbers, without gradient and with it."""
AS_PASS = "_as_pass"


def in_pass(model: nn.Module, function: Callable[[], Result]) -> Result:
    """What a function returns that calls parts of a model, as one forward pass of it where it is sharded."""
    as_pass = getattr(model, AS_PASS, None)
    return function() if as_pass is None else as_pass(function)


class Shards:
    """The sharded models of a trainer, whose passes all processes take together; `seconds`: how long one waits."""

    def __init__(self, seconds: float) -> None:
        # On CPU, apart from the traffic of weights: a device is never waited for.
        self._group: Any = dist.new_group(backend="gloo", timeout=timedelta(seconds=seconds))
        self._models: list[tuple[nn.Module, Callable[[], object]]] = []
        self._open = self._idle = self._busy = self._told = False
        self._to_go_back: list[Tensor] = []  # an output of each pass that waits for its backward pass

    def add(self, model: nn.Module, empty: Callable[[], object], *, head_apart: bool) -> None:
        """Shard a model, with the errors of `shard`, and watch its passes; `empty` takes one as short as any."""
        shard(model, head_apart=head_apart)
        number = len(self._models)
        self._models.append((model, empty))
        model.register_forward_pre_hook(lambda *_: self._begin(number), prepend=True)
        model.register_forward_hook(lambda module, inputs, output: self._end(output))
        # A function that calls parts of the model is a pass of it too, with the weights gathered around all of it.
        setattr(model, AS_PASS, lambda function: function())
        register_fsdp_forward_method(model, AS_PASS)
        gathered = getattr(model, AS_PASS)

        def as_pass(function: Callable[[], Any]) -> Any:
            self._begin(number)
            output = gathered(function)
            self._end(output)
            return output

        setattr(model, AS_PASS, as_pass)

    @contextmanager
    def together(self) -> Iterator[None]:
        """A section in which each process takes any number of passes; it ends for all when no one takes more.

        Where another process stops, it ends by `FloatingPointError` for a number that is not finite, else by
        `RuntimeError`.
        """
        if self._open:
            yield
            return
        self._open, self._busy, self._told, self._to_go_back = True, False, False, []
        try:
            yield
            self.settle()
        except Exception as error:
            # Others wait for this process: between passes they can be told why it stops, within one they cannot.
            if self._busy and isinstance(error, FloatingPointError):
                raise RuntimeError(f"stopped in the middle of a pass that others wait in: {error}") from error
            if not self._busy and not self._told:
                with suppress(RuntimeError):  # of others that have ended
                    dist.all_reduce(torch.tensor(FAILED), op=dist.ReduceOp.MAX, group=self._group)
                    self._exchange((type(error).__name__, str(error)))
            raise
        finally:
            self._open = False
        for model, _ in self._models:
            assert isinstance(model, FSDPModule)
            model.reshard()  # what was gathered for the whole model

    def check(self) -> None:
        """Make sure that the models are still dealt out; raises as `check_sharded`."""
        for model, _ in self._models:
            check_sharded(model)

    def settle(self) -> None:
        """Wait until no process takes passes; `RuntimeError` where a forward pass waits for its backward pass."""
        if self._to_go_back:
            raise RuntimeError("a forward pass with gradient has had no backward pass; take it under no_grad")
        self._agree(DONE)

    def backward(self, loss: Tensor, run: Callable[[Tensor], None]) -> None:
        """The backward pass of the forward passes since the last one; `RuntimeError` where there was none.

        `run` takes it, of the loss `()`, whether that has a gradient of its own or not.
        """
        if not self._to_go_back:
            raise RuntimeError("a backward pass needs a forward pass with gradient before it; there was none")
        self._agree(BACKWARD)
        self._go_back(loss, run)

    def everywhere(self, value: bool) -> bool:
        """Whether a thing is so in all processes; a collective call."""
        return self._largest(int(not value)) == 0

    # Passes

    def _begin(self, number: int) -> None:
        if self._idle:
            return
        if not self._open:
            raise RuntimeError("a sharded model's passes are those of all processes; take them within together()")
        self._agree(FORWARD + 2 * number + torch.is_grad_enabled())
        self._busy = True

    def _end(self, output: Any) -> None:
        self._busy = False
        if torch.is_grad_enabled():
            leaves = (leaf for leaf in tree_leaves(output) if isinstance(leaf, Tensor) and leaf.requires_grad)
            if (leaf := next(leaves, None)) is None:
                raise RuntimeError("a pass with gradient has no output with one; is every weight frozen?")
            self._to_go_back.append(leaf)

    def _agree(self, wanted: int) -> None:
        """Do what others want of this process until it is the turn of what it wants itself: the least comes last."""
        # The largest wish is met by all, by an empty pass where it is another's; DONE once nobody wants a pass.
        while (chosen := self._largest(wanted)) != wanted:
            if chosen == BACKWARD:
                self._go_back(torch.zeros(()), lambda loss: loss.backward())
            else:
                self._take_empty(*divmod(chosen - FORWARD, 2))

    def _take_empty(self, number: int, with_gradient: int) -> None:
        model, empty = self._models[number]
        devices = [tensor.device for tensor in model.parameters() if tensor.device.type != "cpu"][:1]
        # Checkpoints gather once more in training mode: the mode is that of the pass that another process takes.
        mode = nullcontext() if with_gradient else evaluation_mode(model)
        self._idle = self._busy = True
        try:
            with torch.random.fork_rng(devices), torch.set_grad_enabled(bool(with_gradient)), mode:
                empty()
        finally:
            self._idle = False

    def _go_back(self, loss: Tensor, run: Callable[[Tensor], None]) -> None:
        passes, self._to_go_back, self._busy = self._to_go_back, [], True
        for output in passes:  # each pass goes back everywhere, be it without a gradient
            first = output.flatten()[:1]
            loss = loss.to(first.device) + first.masked_fill(torch.ones_like(first, dtype=torch.bool), 0).sum()
        run(loss)
        self._busy = False

    # What processes tell each other

    def _largest(self, value: int) -> int:
        """The largest of the processes' values; a collective call, which errors of others end."""
        found = torch.tensor(value)
        try:
            dist.all_reduce(found, op=dist.ReduceOp.MAX, group=self._group)
        except RuntimeError as error:
            self._told = True
            raise RuntimeError(
                "a process of this run has ended, or did not answer in time; its own error, if any, is the cause"
            ) from error
        if int(found) >= FAILED:
            self._hear()
        return int(found)

    def _hear(self) -> None:
        self._told = True
        said = self._exchange(None)
        rank, (kind, message) = next((rank, told) for rank, told in enumerate(said) if told is not None)
        known = FloatingPointError if kind == FloatingPointError.__name__ else RuntimeError
        raise known(f"process {rank} stopped: {kind}: {message}")

    def _exchange(self, told: tuple[str, str] | None) -> list[tuple[str, str] | None]:
        said: list[tuple[str, str] | None] = [None] * dist.get_world_size()
        dist.all_gather_object(said, told, group=self._group)
        return said
