"""Bias and noise of the gradients of all objectives against the exact one, on a task that can be enumerated.

    python -m scripts.referee.variance [--draws 400 --picture docs/images/referee.png]

Each is asked right after a roll-out, where every ratio is 1, without a divergence from a reference, about groups of
four completions of `toy`. Three figures for each rule by which the sampler chooses positions: the angle between its
expected gradient and the exact policy gradient in degrees; the length of the one over that of the other; and how many
completions it takes until the noise of their mean falls to the length of the mean. `passes` is the number of forward
passes that a completion takes with gradient; a divergence or a ratio takes as many without.
"""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple, get_args

import torch
from torch import Tensor

from llm_rl.core._options import option
from llm_rl.training import load_pyplot, need_reports, parse, save_figure, user_errors
from scripts.referee.objectives.cj_grpo import CjGrpo
from scripts.referee.objectives.copies import Completions, Copies, Objective
from scripts.referee.objectives.coupled_grpo import CoupledGrpo
from scripts.referee.objectives.diffu_grpo import DiffuGrpo
from scripts.referee.objectives.espo import Espo
from scripts.referee.objectives.just_grpo import JustGrpo
from scripts.referee.objectives.spg import Spg
from scripts.referee.objectives.trace_rl import TraceRl
from scripts.referee.objectives.wd1 import Wd1
from scripts.referee.toy import Rule, Toy, trained
from sudoku_dllm.trials.words import markdown_table

GROUP = 4
METHODS: dict[str, Objective] = {
    "diffu-GRPO": DiffuGrpo(),
    "diffu-GRPO, whole prompt": DiffuGrpo(prompt_rate=0.0),
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

PICTURED = {
    "diffu-GRPO": "o", "wd1": "x", "coupled-GRPO": "s", "SPG, mixed": "D", "ESPO, 2 pairs": "^", "TraceRL": "v",
    "TraceRL, 2 passes as one": "<", "CJ-GRPO": "+", "JustGRPO": ">",
}  # fmt: skip
"""Methods in the picture, with their markers."""


class Judged(NamedTuple):
    """An objective against the exact gradient.

    Attributes:
        copies: Of each completion, as many as forward passes.
        angle: Between its expected gradient and the exact one, in degrees.
        error: Standard error of the angle by the draws of masks, in degrees, which also makes small angles larger; 0
            where none are drawn.
        length: The length of the expected gradient over that of the exact one.
        noise: How many completions it takes until the noise of their mean falls to the length of the mean.
    """

    copies: int
    angle: float
    error: float
    length: float
    noise: float


def row_gradients(objective: Objective, toy: Toy, completions: Completions, copies: Copies, rewards: Tensor) -> Tensor:
    """What each completion adds to the gradient of what its group maximizes, `(P · G, parameters)`.

    Args:
        objective: The objective.
        toy: The task.
        completions: P · G of them.
        copies: Theirs.
        rewards: `(P, G)`.
    """
    at = toy.at(completions, copies)
    logprobs = toy.logprobs.detach()[at].requires_grad_()
    loss = objective.loss(logprobs, copies, objective.advantages(rewards))
    weight = -len(rewards) * torch.autograd.grad(loss, logprobs)[0]  # (B, M, L)
    used = weight.nonzero(as_tuple=True)
    terms = weight[used].unsqueeze(1) * toy.jacobian[tuple(index[used] for index in at)]
    return torch.zeros(len(weight), terms.shape[1], dtype=terms.dtype).index_add(0, used[0], terms)


def expected_gradients(objective: Objective, toy: Toy, draws: int, generator: torch.Generator) -> Tensor:
    """The expected gradient of a group for each of some draws of masks, `(draws, parameters)`, else exact.

    Rewards are 0 or 1, so that what a completion adds depends on the others of its group through the number of right
    ones alone: the sum is over all trajectories of the one and all such numbers. Masks are the same for all of them.
    """
    taken, chance = toy.trajectories(merged=objective.drawn)
    reward = toy.reward(taken.tokens)
    right, others = (chance * reward).sum(), torch.arange(GROUP)  # right ones among the GROUP − 1
    ways = torch.tensor([math.comb(GROUP - 1, number) for number in range(GROUP)])
    among = ways * right**others * (1 - right) ** (GROUP - 1 - others)
    weights = GROUP * (chance.unsqueeze(1) * among).reshape(-1, 1)  # (groups, 1)

    # A group for each trajectory and each number of right ones among the others, itself first.
    rows = torch.arange(len(chance)).repeat_interleave(GROUP * GROUP)
    groups = taken.of(rows)
    rest = (torch.arange(GROUP - 1) < others.unsqueeze(1)).double()  # (GROUP, GROUP − 1)
    rewards = torch.cat([reward.repeat_interleave(GROUP).unsqueeze(1), rest.repeat(len(chance), 1)], dim=1)

    def total(copies: Copies) -> Tensor:
        return (weights * row_gradients(objective, toy, groups, copies, rewards)[::GROUP]).sum(0)

    if not objective.drawn:
        return total(objective.copies(groups, generator)).expand(2, -1)
    masks = objective.copies(taken.of(torch.zeros(draws * GROUP, dtype=torch.int64)), generator)
    member = torch.arange(GROUP).repeat(len(weights))
    return torch.stack([total(masks.of(draw * GROUP + member)) for draw in range(draws)])


def judge(objective: Objective, toy: Toy, draws: int, groups: int) -> Judged:
    """The objective on the task.

    Args:
        objective: The objective.
        toy: The task.
        draws: Draws of masks for the expected gradient, ≥ 2.
        groups: Groups that are sampled for the noise, ≥ 2.
    """
    generator = torch.Generator().manual_seed(0)
    exact, expected = toy.gradient(), expected_gradients(objective, toy, draws, generator)
    mean = expected.mean(0)
    error = float((expected.var(0).sum() / draws).sqrt() / mean.norm())

    completions = toy.sample(groups * GROUP, generator)
    rewards = toy.reward(completions.tokens).reshape(groups, GROUP)
    copies = objective.copies(completions, generator)
    rows = row_gradients(objective, toy, completions, copies, rewards)
    spread = (rows.reshape(groups, GROUP, -1).sum(1) - mean).square().sum(1).mean()
    cosine = float(torch.cosine_similarity(mean, exact, dim=0))
    return Judged(
        copies.masked.shape[1],
        math.degrees(math.acos(max(-1.0, min(1.0, cosine)))),
        math.degrees(error),
        float(mean.norm() / exact.norm()),
        GROUP * float(spread / mean.square().sum()),
    )


def judge_all(toys: Sequence[Toy], draws: int, groups: int) -> dict[str, list[Judged]]:
    """All methods, by name, on each of several toys; arguments as in `judge`."""
    return {name: [judge(objective, toy, draws, groups) for toy in toys] for name, objective in METHODS.items()}


def table(found: Mapping[str, Sequence[Judged]], rules: Sequence[str]) -> str:
    """The table of all methods in Markdown.

    Args:
        found: Each method's figures, one for each rule.
        rules: How positions were chosen.
    """
    rows = []
    for name, judged in found.items():
        cells = [
            (f"{one.angle:.1f}" + f" ± {one.error:.1f}" * (one.error > 0.05), f"{one.length:.2f}", f"{one.noise:.0f}")
            for one in judged
        ]
        rows.append([name, str(judged[0].copies), *chain.from_iterable(cells)])
    heads = [f"{rule}: {what}" for rule in rules for what in ("angle", "length", "noise")]
    return markdown_table(["method", "passes", *heads], rows)


def plot(by_model: Mapping[str, Mapping[str, Sequence[Judged]]], path: Path) -> None:
    """Bias against noise where positions are filled at random, a panel for each model.

    Args:
        by_model: Each method's figures by what the model was trained by, those of random positions first.
        path: The PNG to write.
    """
    figure, axes = load_pyplot().subplots(1, len(by_model), figsize=(12, 5), layout="constrained", sharey=True)
    for axis, (by, found) in zip(axes, by_model.items(), strict=True):
        for name, marker in PICTURED.items():
            one = found[name][0]
            axis.plot(one.angle, one.noise, marker, markersize=9, label=name, clip_on=False)
        axis.set(title=f"trained by {by}", xlabel="bias: degrees to the exact gradient", xlim=(-2, 92), yscale="log")
        axis.set_xticks(range(0, 91, 15))
        axis.grid(alpha=0.3, which="both")
    axes[0].set_ylabel("noise: completions until it is as large as the mean")
    axes[0].set_yticks([50, 100, 200, 400], ["50", "100", "200", "400"])
    axes[0].yaxis.set_minor_formatter("")
    axes[0].legend(fontsize="small", loc="upper right")
    save_figure(figure, path)


@dataclass
class Arguments:
    """How exact, and where the picture goes."""

    draws: int = option(800, "Draws of masks for an expected gradient.")
    picture: Path | None = option(None, "PNG to write.")

    def __post_init__(self) -> None:
        if self.draws < 2:
            raise ValueError(f"draws={self.draws} must be 2 or more")


def main() -> None:
    """Print a table for a model that was fitted to right completions, and for one that was trained by the reward."""
    (args,) = parse(Arguments, description=__doc__)
    if args.picture:
        need_reports()
    by_model = dict[str, dict[str, list[Judged]]]()
    for by in ("data", "reward"):
        model = trained(0.5, by)
        toys = [Toy(rule, model) for rule in get_args(Rule)]
        right = ", ".join(f"{100 * float(toy.value().detach()):.0f} % ({toy.rule})" for toy in toys)
        by_model[by] = judge_all(toys, args.draws, groups=1000)
        text = table(by_model[by], get_args(Rule))
        sys.stdout.write(f"Trained by {by}, right in {right}:\n\n{text}\n\n")
        sys.stdout.flush()
    if args.picture:
        with user_errors(OSError):
            plot(by_model, args.picture)


if __name__ == "__main__":
    main()
