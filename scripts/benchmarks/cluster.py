"""What one optimizer step of an 8B model takes on 1 to 512 cards, by a simulation of its passes; nothing of it is run.

Trajectories end at random, as errors end them, so cards have different numbers of states and wait for each other: once
a step where each holds the whole model, at every pass where weights are dealt out. What a card does with its states is
arithmetic over an assumed share of its peak; what the host does beside it is measured here, by roll-outs whose model
costs nothing. Constants with their sources are the options.

    python -m scripts.benchmarks.cluster [--puzzles 512 --tokens_per_step 4]
"""

import time
from dataclasses import dataclass
from itertools import zip_longest
from math import ceil
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers.modeling_outputs import MaskedLMOutput

from dllm_rl import Decoding, rollout
from llm_rl.core._options import option
from llm_rl.training import parse
from sudoku_dllm.several.arguments import RecipeArguments, ScriptArguments
from sudoku_dllm.several.setting import Setting
from sudoku_dllm.trials.words import markdown_table

CARDS_OF_NODE = 8


@dataclass
class CardArguments:
    """A step of LLaDA-8B, what it is assumed to meet, and the card: H100 SXM, by its data sheet."""

    num_generations: int = option(8, "G: trajectories for each puzzle.")
    masked: int = option(30, "K: masked positions of a puzzle.")
    max_tokens_per_pass: int = option(16384, "Tokens in one forward pass.")
    survival: float = option(0.6, "Mean length of a trajectory over the longest (assumed).")
    distinct: float = option(0.9, "Distinct over visited states (`distinct_states` logs it).")
    peak_flops: float = option(989e12, "Peak of the card, dense bfloat16.")
    utilization: float = option(0.4, "Share of it (38 to 43 % in arXiv:2407.21783, table 4).")
    link: float = option(400e9, "Bytes a second a card takes in by NVLink (of 450).")


@dataclass
class ClusterArguments(CardArguments):
    """The step, the model and the cards."""

    cards: list[int] = option([1, 8, 64, 512], "Numbers of cards.")
    puzzles: int = option(512, "Q: puzzles of a step, the same on any number of cards.")
    tokens_per_step: int = option(1, "Positions that a decision fills.")
    length: int = option(340, "Tokens of a state.")
    parameters: float = option(6.98e9, "Weights in the blocks (LLaDA-8B).")
    weights: float = option(8.016e9, "All weights (LLaDA-8B).")
    adapters: float = option(41.9e6, "Weights of adapters of rank 16.")
    memory: float = option(3.35e12, "Bytes a second a card reads.")
    network: float = option(40e9, "`link` between nodes, a card (of 50, 400 Gbit/s each).")
    host_pass: float = option(5e-3, "Seconds of the host a pass (assumed).")
    host_state: float | None = option(None, "The same for each state; None: measured.")
    meeting: float = option(1e-4, "Seconds in which cards agree on a pass (assumed).")
    draws: int = option(20, "Steps that are simulated.")
    seed: int = option(0, "Random seed.")

    def __post_init__(self) -> None:
        if bad := [number for number in self.cards if number < 1 or self.puzzles % number]:
            raise ValueError(f"cards={bad[0]} does not divide puzzles={self.puzzles}; give divisors")
        if not 1 / self.decisions < self.survival <= 1 or not 0 < self.distinct <= 1:
            raise ValueError(f"survival={self.survival} and distinct={self.distinct} must be shares of what is longest")
        if self.max_tokens_per_pass < self.length:
            raise ValueError(f"max_tokens_per_pass={self.max_tokens_per_pass} holds no state of {self.length} tokens")

    @property
    def decisions(self) -> int:
        """Of the longest trajectory."""
        return ceil(self.masked / self.tokens_per_step)


class Way(NamedTuple):
    """How a model is trained.

    Attributes:
        title: Its name.
        update: Floating-point operations of an update for each of a forward pass.
        gathered: Bytes that a pass gathers; 0 where each card holds all.
        reduced: Bytes of gradients that are summed a step, or, where weights are dealt out, a pass.
    """

    title: str
    update: int
    gathered: float
    reduced: float


class Step(NamedTuple):
    """An optimizer step, in seconds.

    Attributes:
        rollout: Of the slowest card, or of all together.
        update: The same.
        traffic: What communication adds.
        busy: What a card computes on average.
        even: All of it, were the states dealt out evenly for the update.
    """

    rollout: float
    update: float
    traffic: float
    busy: float
    even: float

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.rollout + self.update + self.traffic


def ways(args: ClusterArguments) -> list[Way]:
    """Adapters with the base on each card; adapters with the base dealt out; all weights, in float32, dealt out."""
    return [
        Way("adapters, data parallel", 3, 0, 4 * args.adapters),
        Way("adapters, dealt out", 3, 2 * args.weights, 4 * args.adapters),
        Way("all weights, dealt out", 4, 4 * args.weights, 4 * args.weights),
    ]


def error_rate(survival: float, decisions: int) -> float:
    """The chance that a decision ends a trajectory where the mean length is `survival` of `decisions`."""
    low, high = 0.0, 1.0
    for _ in range(60):
        rate = (low + high) / 2
        mean = sum((1 - rate) ** number for number in range(decisions)) / decisions
        low, high = (rate, high) if mean > survival else (low, rate)
    return low


def states_of(args: ClusterArguments, cards: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """States of each card at each decision, `(C, K)`, all trajectories of a puzzle in one at the first."""
    rate = error_rate(args.survival, args.decisions)
    shape = (cards, args.puzzles // cards * args.num_generations)
    lengths = np.full(shape, args.decisions) if rate < 1e-12 else np.minimum(rng.geometric(rate, shape), args.decisions)
    live = (lengths[:, :, None] > np.arange(args.decisions)).sum(1)
    states = np.ceil(args.distinct * live).astype(np.int64)
    states[:, 0] = args.puzzles // cards
    return states


def passes_of(states: NDArray[np.int64], most: int) -> list[int]:
    """The sizes of the passes that take some numbers of states, one after the other."""
    return [size for number in states.tolist() for size in (*[most] * (number // most), number % most) if size]


def traffic(size: float, cards: int, args: ClusterArguments) -> float:
    """Seconds in which every card takes in what all of them hold, `size` bytes.

    Within a node by its links; between nodes each of a node's cards fetches its part of what is abroad.
    """
    nodes = ceil(cards / CARDS_OF_NODE)
    inside = size * (cards - 1) / cards / args.link
    return max(inside, size * (nodes - 1) / nodes / (CARDS_OF_NODE * args.network))


def simulate(args: ClusterArguments, way: Way, states: NDArray[np.int64], host_state: float) -> Step:
    """A step on cards that have so many states.

    Args:
        args: The step and the cards.
        way: How the model is trained.
        states: `(C, K)`, the states of each card at each decision.
        host_state: Seconds of the host for each state of a roll-out.
    """
    cards, most = len(states), args.max_tokens_per_pass // args.length

    def forward(number: int) -> float:
        return max(
            2 * args.parameters * args.length * number / (args.peak_flops * args.utilization),
            2 * args.parameters / args.memory,
        )

    def card(of_card: NDArray[np.int64]) -> tuple[list[float], list[float]]:
        rolled = [forward(size) + args.host_pass + host_state * size for size in passes_of(of_card, most)]
        all_states = of_card.sum(keepdims=True)
        updated = [way.update * forward(size) + 2 * args.host_pass for size in passes_of(all_states, most)]
        return rolled, updated

    found = [card(row) for row in states]
    sums = np.array([[sum(rolled), sum(updated)] for rolled, updated in found])  # (C, 2)
    busy, even = float(sums.sum(1).mean()), float(sums[:, 0].max() + sums[:, 1].mean())
    if not way.gathered:
        rolled, updated = sums[sums.sum(1).argmax()].tolist()
        reducing = 2 * traffic(way.reduced, cards, args)
        return Step(rolled, updated, reducing, busy, even + reducing)

    # All cards take all passes together; weights arrive while the pass before is computed.
    gather = traffic(way.gathered, cards, args)
    arriving = gather, 2 * gather + traffic(way.reduced, cards, args)
    parts = []
    for phase, least in enumerate(arriving):
        together = [max(column) for column in zip_longest(*(both[phase] for both in found), fillvalue=0.0)]
        parts.append((sum(together), sum(max(0.0, least - each) + args.meeting for each in together)))
    rolled, sent = parts[0][0], parts[0][1] + parts[1][1]
    return Step(rolled, parts[1][0], sent, busy, rolled + float(sums[:, 1].mean()) + sent)


class Free(nn.Module):
    """A model that costs nothing: its logits are drawn beforehand."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.drawn = torch.randn(1 << 16, vocabulary)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None, logits_mask: Tensor) -> MaskedLMOutput:
        """The first of them."""
        return MaskedLMOutput(logits=self.drawn[: int(logits_mask.sum())])


def measured_host(boards: int = 256, rounds: int = 5) -> float:
    """Seconds of this machine for each state of a roll-out beside the model: drawing, judging, keeping, dealing out."""
    setting = Setting.load(ScriptArguments(boards=boards), RecipeArguments(use_cpu=True, report_to="none"))
    problems = setting.batch(setting.training_boards(0)[0])
    free, how = Free(len(setting.tokenizer)), Decoding("policy", on_error="continue")
    taken: list[float] = []
    for seed in range(rounds + 1):
        began = time.perf_counter()
        record = rollout(free, problems, how, generator=torch.Generator().manual_seed(seed))
        taken.append((time.perf_counter() - began) / len(record.responses))
    return float(np.median(taken[1:]))


def table(args: ClusterArguments, host_state: float) -> str:
    """The table in Markdown."""
    rows = []
    for way in ways(args):
        alone = 0.0
        for cards in args.cards:
            if cards == 1 and way.gathered:
                continue
            rng = np.random.default_rng([args.seed, cards])
            steps = [simulate(args, way, states_of(args, cards, rng), host_state) for _ in range(args.draws)]
            mean = Step(*np.mean(steps, axis=0).tolist())
            alone = alone or mean.seconds * cards
            told = (mean.rollout, mean.update, mean.traffic, mean.seconds, mean.even)
            shares = (1 - mean.busy / mean.seconds, alone / (mean.seconds * cards))
            figures = [f"{each:,.0f}" if each >= 100 else f"{each:.2g}" for each in told]
            rows.append([way.title, str(cards), *figures, *(f"{100 * share:.0f}" for share in shares)])
    seconds = [f"{part} s" for part in ("roll-out", "update", "traffic", "step", "dealt evenly")]
    return markdown_table(["", "cards", *seconds, "waiting %", "efficiency %"], rows)


if __name__ == "__main__":
    (args,) = parse(ClusterArguments, description=__doc__)
    host_state = measured_host() if args.host_state is None else args.host_state
    print(f"{1e6 * host_state:.0f} µs of the host a state\n\n{table(args, host_state)}")
