"""A task small enough to be enumerated: three tokens of three kinds, all different, behind one token of prompt.

The sampler fills one position a pass with a token drawn from the model, at temperature 1; which position is a rule that
has no gradient. With V(s) the probability that a completion of the state s is right,

    V(s) = Σ_ℓ w(ℓ|s) Σ_v p(v | ℓ, s) V(s with v at ℓ)

is a sum over all trajectories, and its derivative at the prompt is the exact policy gradient of the expected reward;
under the rule "confident" wherever no two positions are as confident. What an objective expects is such a sum too,
right after a roll-out, where every ratio is 1, without a divergence from a reference (`expected_gradients`).
"""

import math
from functools import cached_property
from itertools import permutations, product
from typing import Literal, get_args

import torch
from torch import Tensor

from scripts.referee.objectives.copies import Completions, Copies, Objective
from scripts.referee.tiny import TinyModel

Rule = Literal["random", "confident", "left"]
"""Which position a pass fills: any; the one whose most probable token is most probable; the first."""
PROMPT, TOKENS, KINDS = 1, 3, 3
MASK, LENGTH = KINDS, PROMPT + TOKENS
BASE = KINDS + 1
GROUP = 4
"""Completions that are compared."""
START = torch.tensor([0] + [MASK] * TOKENS)


class Toy:
    """The task with one model and one rule."""

    def __init__(self, rule: Rule, model: TinyModel) -> None:
        """Ask the model about every input there is.

        Args:
            rule: Which position a pass fills.
            model: The model.

        Raises:
            ValueError: The rule is unknown.
        """
        if rule not in get_args(Rule):
            raise ValueError(f"rule={rule!r} is unknown; choose one of {', '.join(get_args(Rule))}")
        self.rule = rule
        self.model = model
        self.inputs = torch.tensor(list(product(range(BASE), repeat=LENGTH)))  # (256, L)
        self.logprobs = self.model(self.inputs).logits.log_softmax(-1)  # (256, L, KINDS), with its gradient

    @cached_property
    def weights(self) -> Tensor:
        """w(ℓ|s), `(256, L)` without gradient; 0 where nothing is masked."""
        masked = (self.inputs == MASK) & (torch.arange(LENGTH) >= PROMPT)
        if self.rule == "random":
            return masked / masked.sum(1, keepdim=True).clamp(min=1).double()
        score = self.logprobs.detach().amax(-1)
        if self.rule == "left":
            score = -torch.arange(LENGTH).expand(score.shape).double()
        best = score.masked_fill(~masked, -torch.inf).argmax(1)
        return torch.nn.functional.one_hot(best, LENGTH).double() * masked

    @cached_property
    def jacobian(self) -> Tensor:
        """d log p / d parameters, `(256, L, KINDS, parameters)`."""
        flat, parameters = self.logprobs.flatten(), list(self.model.parameters())
        each = torch.eye(len(flat), dtype=flat.dtype)
        parts = torch.autograd.grad(flat, parameters, each, retain_graph=True, is_grads_batched=True)
        return torch.cat([part.flatten(1) for part in parts], dim=1).unflatten(0, self.logprobs.shape)

    def code(self, inputs: Tensor) -> Tensor:
        """The number of an input `(…, L)` among all, `(…)`."""
        return (inputs * BASE ** torch.arange(LENGTH - 1, -1, -1)).sum(-1)

    def reward(self, tokens: Tensor) -> Tensor:
        """float64 `(…)` for tokens `(…, L)`: 1 where the completion has all kinds."""
        return (tokens[..., PROMPT:].sort(-1).values == torch.arange(KINDS)).all(-1).double()

    def value(self) -> Tensor:
        """The expected reward, with its gradient."""
        values, missing = self.reward(self.inputs), (self.inputs == MASK).sum(1)
        digits = BASE ** torch.arange(LENGTH - 1, -1, -1).unsqueeze(1)
        after = torch.arange(len(values)).reshape(-1, 1, 1) + (torch.arange(KINDS) - MASK) * digits  # (256, L, KINDS)
        for number in range(1, TOKENS + 1):
            states = (missing == number).nonzero().squeeze(1)
            chances = self.weights[states].unsqueeze(2) * self.logprobs[states].exp()
            worth = (chances * values[after[states].clamp(min=0)]).sum((1, 2))
            values = values.index_put((states,), worth)
        return values[self.code(START)]

    def gradient(self) -> Tensor:
        """The exact policy gradient, `(parameters,)`."""
        parts = torch.autograd.grad(self.value(), list(self.model.parameters()), retain_graph=True)
        return torch.cat([part.flatten() for part in parts])

    def trajectories(self, merged: bool = False) -> tuple[Completions, Tensor]:
        """Every trajectory that the sampler may take, and its probability `(B,)`.

        Args:
            merged: Whether those that write the same completion are one, with the passes of any of them.
        """
        kinds = torch.tensor(list(product(range(KINDS), repeat=TOKENS)))  # (27, TOKENS)
        orders = torch.tensor(list(permutations(range(TOKENS))))  # (6, TOKENS), the pass of each position
        written, passes = kinds.repeat(len(orders), 1), orders.repeat_interleave(len(kinds), 0)
        tokens, rows = START.repeat(len(written), 1), torch.arange(len(written))
        chance = torch.ones(len(written), dtype=torch.float64)
        for step in range(TOKENS):
            code, place = self.code(tokens), PROMPT + (passes == step).long().argmax(1)
            kind = written[rows, place - PROMPT]
            chance = chance * self.weights[code, place] * self.logprobs.detach()[code, place, kind].exp()
            tokens[rows, place] = kind
        if merged:
            rows, chance = rows[: len(kinds)], chance.reshape(len(orders), -1).sum(0)
        taken = rows[chance > 0]
        steps = torch.nn.functional.pad(passes[taken], (PROMPT, 0), value=-1)
        completed = torch.arange(LENGTH).expand(steps.shape) >= PROMPT
        return Completions(tokens[taken], completed, completed, steps), chance[chance > 0]

    def at(self, completions: Completions, copies: Copies) -> tuple[Tensor, Tensor, Tensor]:
        """Where the log-probabilities of the completions' tokens in their copies stand in `logprobs`."""
        code = self.code(copies.inputs(completions, MASK)).unsqueeze(-1)  # (B, M, 1)
        kind = completions.tokens.unsqueeze(1).expand(copies.masked.shape)
        return code.expand(kind.shape), torch.arange(LENGTH).expand(kind.shape), kind


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
