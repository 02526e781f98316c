"""What benchmarks share: the model, played roll-outs, timing side by side, and the exact peak of live tensor memory.

Every contender runs once in every round, so that a busy machine slows all of them alike. The peak is the same figure on
every machine, whatever else it does.
"""

import gc
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from dllm_rl import Decoding, PolicyConfig, PuzzleBatch, Rollout, rollout
from dllm_rl.decoding import OnError
from llm_rl.training import load_pandas, load_pyplot
from sudoku_dllm.machine import machine

if TYPE_CHECKING:
    import pandas as pd

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = str(ROOT / "data" / "models" / "llada-sudoku6x6")


def played(
    model: nn.Module,
    batch: PuzzleBatch,
    num_generations: int,
    temperature: float,
    tokens_per_step: int = 1,
    *,
    seed: int,
    on_error: OnError = "end",
) -> Rollout:
    """A roll-out of a model at a position temperature."""
    policy = PolicyConfig(temperature)
    how = Decoding("policy", tokens_per_step=tokens_per_step, policy=policy, on_error=on_error)
    return rollout(model, batch, how, num_generations=num_generations, generator=torch.Generator().manual_seed(seed))


def backward(first: Tensor, second: Tensor) -> None:
    """What `objective_pass` calls: adds the gradient of J."""
    (first + second).backward()


class Contender(NamedTuple):
    """Work to time and how much it does, e.g. 500 puzzles."""

    work: Callable[[], object]
    amount: float


def race(contenders: Mapping[str, Contender], rounds: int) -> dict[str, float]:
    """Median rate of each contender, amount per second, over `rounds` rounds after one that is not counted."""
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds + 1):
        for name, contender in contenders.items():
            started = time.perf_counter()
            contender.work()
            if number:
                rates[name].append(contender.amount / (time.perf_counter() - started))
    return {name: statistics.median(found) for name, found in rates.items()}


def report(
    title: str, ours: str, tasks: Iterable[tuple[str, Mapping[str, Contender]]], rounds: int, folder: Path
) -> "pd.DataFrame":
    """Race the contenders of each task; print the rates and how much faster `ours` is, write both as CSV and as bars.

    Args:
        title: Title of the table and the chart; the files are named after it.
        ours: Name of the contender that the others are compared with.
        tasks: Name and contenders of each row.
        rounds: As `race` takes it.
        folder: Folder to write to.
    """
    plt = load_pyplot()
    rows = [{"task": task, **race(contenders, rounds)} for task, contenders in tasks]
    table = load_pandas().DataFrame(rows).set_index("task")
    for name in [column for column in table.columns if column != ours]:
        table[f"{ours} / {name}"] = table[ours] / table[name]
    print(f"\n{title} (per second, medians)\n{machine()}")
    print(table.to_string(float_format=lambda value: f"{value:,.2f}" if value < 1000 else f"{value:,.0f}"))
    folder.mkdir(parents=True, exist_ok=True)
    stem = title.lower().replace(" ", "_").replace(",", "")
    table.to_csv(folder / f"{stem}.csv")
    rates = table[[column for column in table.columns if " / " not in column]]
    axes = rates[::-1].plot.barh(logx=True, figsize=(9, 1.2 + 0.28 * rates.size), width=0.8)
    axes.set_xlabel("per second (logarithmic)")
    axes.set_ylabel("")
    axes.set_title(f"{title}\n{machine()}", fontsize=9)
    axes.figure.tight_layout()
    axes.figure.savefig(folder / f"{stem}.png", dpi=120)
    plt.close(axes.figure)
    return table


def peak_tensor_bytes(work: Callable[[], object]) -> int:
    """Largest number of bytes in CPU tensors that a call holds at once, beyond those that were there before it.

    Every block that torch's CPU allocator hands out and takes back is counted at its full size, temporaries inside
    operators included. Blocks from before the call count 0 even once they are freed.

    Raises:
        RuntimeError: The call allocated nothing, so there is nothing to measure (is its work on another device?).
    """
    gc.collect()  # what earlier work left in cycles would otherwise be freed now or then
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        work()
    events = [event for event in record.profiler.kineto_results.events() if event.name() == "[memory]"]
    if not events:
        raise RuntimeError("the call allocated no CPU tensor; run it on the CPU")
    live = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        live += event.nbytes()
        peak = max(peak, live)
    return peak


def peak_of_update(model: nn.Module, update: Callable[[], object]) -> int:
    """Peak of an update beyond weights, gradients and record: activations, temporaries and bookkeeping.

    Args:
        model: The model that is updated.
        update: Adds the gradient to the model's parameters; called twice, as the first call may create them.
    """
    update()
    for parameter in model.parameters():
        if parameter.grad is None and parameter.requires_grad:
            parameter.grad = torch.zeros_like(parameter)
    return peak_tensor_bytes(update)
