"""Bias and noise of the gradients of all objectives against the exact one, on a task that can be enumerated.

    python -m scripts.referee.variance

Each is asked right after a roll-out, where every ratio is 1, without a divergence from a reference, about groups of four
completions of `toy`. Two figures for each rule by which the sampler chooses positions: the angle between the mean of its
gradients and the exact policy gradient, and how many completions it takes until the noise of a mean is as large as it.
"""

import math
import sys
from collections.abc import Iterator
from typing import NamedTuple, get_args

import torch
from torch import Tensor

from scripts.referee.objectives.cj_grpo import CjGrpo
from scripts.referee.objectives.copies import Objective
from scripts.referee.objectives.coupled_grpo import CoupledGrpo
from scripts.referee.objectives.diffu_grpo import DiffuGrpo
from scripts.referee.objectives.espo import Espo
from scripts.referee.objectives.just_grpo import JustGrpo
from scripts.referee.objectives.spg import Spg
from scripts.referee.objectives.trace_rl import TraceRl
from scripts.referee.objectives.wd1 import Wd1
from scripts.referee.toy import Rule, Toy, trained
from scripts.study.tables import markdown_table

GROUP = 4
METHODS: dict[str, Objective] = {
    "diffu-GRPO": DiffuGrpo(),
    "wd1": Wd1(),
    "coupled-GRPO": CoupledGrpo(),
    "SPG, lower bounds": Spg(bound="lower"),
    "SPG, mixed": Spg(),
    "SPG, mixed, β = 1.5": Spg(power=1.5),
    "ESPO, 1 pair": Espo(num_draws=1, together=GROUP),
    "ESPO, 2 pairs": Espo(together=GROUP),
    "TraceRL": TraceRl(),
    "TraceRL, 2 passes as one": TraceRl(shrink=2),
    "CJ-GRPO": CjGrpo(),
    "JustGRPO": JustGrpo(),
}


class Judged(NamedTuple):
    """An objective against the exact gradient.

    Attributes:
        copies: Of each completion.
        angle: Between the mean of its gradients and the exact one, in degrees.
        error: Standard error of the angle, in degrees.
        scale: The length of the mean over that of the exact one.
        noise: Completions until the noise of a mean is as large as the mean.
    """

    copies: int
    angle: float
    error: float
    scale: float
    noise: float


def group_gradients(objective: Objective, toy: Toy, groups: int, generator: torch.Generator) -> tuple[Tensor, int]:
    """The gradient of what is maximized for each of some groups, `(groups, parameters)`, and the copies of each row."""
    completions = toy.sample(groups * GROUP, generator)
    copies = objective.copies(completions, generator)
    at = toy.at(completions, copies)
    logprobs = toy.logprobs.detach()[at].requires_grad_()
    rewards = toy.reward(completions.tokens).reshape(groups, GROUP)
    loss = objective.loss(logprobs, copies, objective.advantages(rewards))
    weight = -groups * torch.autograd.grad(loss, logprobs)[0]
    used = weight.nonzero(as_tuple=True)
    terms = weight[used].unsqueeze(1) * toy.jacobian[tuple(index[used] for index in at)]
    total = torch.zeros(groups, terms.shape[1], dtype=terms.dtype)
    return total.index_add(0, used[0] // GROUP, terms), copies.masked.shape[1]


def judge(objective: Objective, toy: Toy, groups: int, generator: torch.Generator, chunk: int = 2000) -> Judged:
    """The objective on so many groups."""
    exact, drawn = toy.gradient(), []
    for start in range(0, groups, chunk):
        gradients, copies = group_gradients(objective, toy, min(chunk, groups - start), generator)
        drawn.append(gradients)
    every = torch.cat(drawn)
    mean = every.mean(0)
    variance = float(every.var(0).sum())
    signal = float(mean.square().sum())
    cosine = float(torch.cosine_similarity(mean, exact, dim=0))
    return Judged(
        copies,
        math.degrees(math.acos(max(-1.0, min(1.0, cosine)))),
        math.degrees(math.sqrt(variance / groups / signal)),
        math.sqrt(signal) / float(exact.norm()),
        GROUP * variance / signal,
    )


def rows(groups: int, least: float) -> Iterator[list[str]]:
    """The rows of the table."""
    model = trained(least)
    toys = [Toy(rule, model) for rule in get_args(Rule)]
    print([float(t.value().detach()) for t in toys], file=sys.stderr)
    for name, objective in METHODS.items():
        cells: list[str] = []
        for toy in toys:
            judged = judge(objective, toy, groups, torch.Generator().manual_seed(0))
            cells += [f"{judged.angle:.1f} ± {judged.error:.1f}", f"{judged.scale:.2f}", f"{judged.noise:.0f}"]
        yield [name, str(judged.copies), *cells]


if __name__ == "__main__":
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    heads = [f"{rule}: {what}" for rule in get_args(Rule) for what in ("angle", "length", "noise")]
    for least in (0.0,0.5,0.9):
        sys.stdout.write(markdown_table(["method", "copies", *heads], list(rows(size, least)))+"\n\n")
