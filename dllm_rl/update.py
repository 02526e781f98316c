"""The gradient of the objective over a roll-out, in micro-batches of distinct states.

Each distinct state is forwarded once, however many trajectories visit it, and a micro-batch holds no more than its
budget of tokens and of masked positions, so activations grow neither with K, G nor the number of problems. What does is
the record of the roll-out and about 45 bytes a decision here, of tables `(T, K)`. States come in the order of their
step, so the ratios that a state's second term needs, those of the decisions leading to it, are known by the time they
are needed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from dllm_rl.closed_form import closed_form_terms, log_expected_value_of
from dllm_rl.decoding.trajectories import micro_batches
from dllm_rl.objective import (
    ObjectiveConfig,
    f_term,
    f_weights,
    log_expected_reward_of,
    rollout_advantages,
    step_weights,
)
from dllm_rl.policy import action_logprobs, score_states
from dllm_rl.reference import Reference
from dllm_rl.rollouts import Rollout
from dllm_rl.state_terms import further_terms
from dllm_rl.values import ScoredStates, Values
from llm_rl.core.surrogate import clipped_surrogate

Backward = Callable[[Tensor, Tensor], None]


@dataclass(frozen=True, eq=False)
class UpdateResult:
    """What a pass over a roll-out gave.

    Attributes:
        rl: The first term of J.
        sft: The second term of J; in closed form and in logarithms both in one.
        logprobs: fp32 `(T, K)`, log π(a|s) under the current parameters, 0 where not evaluated.
        clipped: bool `(T, K)`, where the minimum took the clipped branch.
        in_rl_sum: bool `(T, K)`, the decisions in the first term: all evaluated ones but the last of a full trajectory,
            after which nothing is of value.
        evaluated: bool `(T, K)`, the live decisions whose state was drawn; all live ones unless states are sampled.
        kl: What the divergence from the reference adds to J, at most 0 up to rounding.
        entropy: What the entropy of the position policy adds to J.
        ce: What the log-likelihood of the reference answer adds to J.
    """

    rl: float
    sft: float
    logprobs: Tensor
    clipped: Tensor
    in_rl_sum: Tensor
    evaluated: Tensor
    kl: float = 0.0
    entropy: float = 0.0
    ce: float = 0.0

    @property
    def objective(self) -> float:
        """J, the sum of all terms."""
        return self.rl + self.sft + self.kl + self.entropy + self.ce


def objective_pass(
    model: nn.Module,
    rollout: Rollout,
    backward: Backward,
    *,
    config: ObjectiveConfig,
    max_tokens: int = 65536,
    max_masked: int | None = None,
    reference: Reference | None = None,
    values: Values | None = None,
    generator: torch.Generator | None = None,
) -> UpdateResult:
    """Evaluate J over a roll-out and hand the terms of each micro-batch to `backward`.

    Args:
        model: The policy that is trained.
        rollout: A roll-out of this policy, now or some updates ago; its temperatures are used.
        backward: Called with the first term of a micro-batch, and the second and any further ones in one sum (to be
            maximized, weights included); summed over the calls they are J.
        config: The objective.
        max_tokens: Largest number of tokens in one forward pass.
        max_masked: Largest number of masked positions, i.e. rows of full-vocabulary logits, in one forward pass; None
            is no bound but `max_tokens`. With a large vocabulary it is this that bounds memory.
        reference: Needed with a `kl_weight` alone.
        values: What states that follow are worth, needed with `objective="closed"` and an `rl_weight` alone.
        generator: Source of randomness of `state_fraction`; None is torch's global one. Ratios of decisions whose state
            is not drawn count as 1, as they are on a fresh roll-out: on a later update use `f_weight="none"`.

    Raises:
        ValueError: A budget does not hold one state, or the reference or the values are missing.
    """
    closed = config.objective == "closed" and config.rl_weight > 0
    if closed and values is None:
        raise ValueError(f"objective='closed' with rl_weight={config.rl_weight} needs values; pass CellValues(...)")
    if config.kl_weight > 0 and reference is None:
        raise ValueError(f"kl_weight={config.kl_weight} needs a reference model; pass Reference(model)")
    problems, policy = rollout.problems, rollout.policy

    # What each decision of the roll-out counts for: its advantage, and its weight in the sums over steps.
    advantages = torch.zeros_like(rollout.old_logprobs)  # (T, K)
    if not closed:
        advantages = rollout_advantages(rollout.visited_rewards, rollout.num_generations, config)
    weights = step_weights(rollout.live, rollout.decisions, config.reduction, rollout.old_logprobs.dtype)  # (T, K)
    weights = weights / config.state_fraction

    # The states of this update, and the decisions that were taken in them.
    drawn, decided = _draw_states(rollout, config.state_fraction, generator)  # (D,), (E,) each
    evaluated = torch.zeros_like(rollout.live)
    evaluated[decided.trajectory, decided.step] = True
    steps = torch.arange(evaluated.shape[1], device=evaluated.device)
    in_rl_sum = evaluated & (steps < rollout.decisions[:, None] - 1)  # the last decision has no future

    # What the passes find out about the decisions, and the terms of J.
    ratio = torch.ones_like(rollout.old_logprobs)
    logprobs = torch.zeros_like(rollout.old_logprobs)
    clipped = torch.zeros_like(rollout.live)
    totals = dict.fromkeys(("rl", "sft", "kl", "entropy", "ce"), 0.0)
    for first, last in micro_batches(rollout.masked[drawn], problems.length, max_tokens, max_masked):
        # The policy at the states of this pass.
        states = drawn[first:last]
        responses, of = rollout.responses[states], rollout.problem_of[states]  # (N, R), (N,)
        inputs = (*problems.prompts_of(of), responses, problems.mask_id, policy)
        scores = score_states(model, *inputs)

        # The decisions taken there: their ratios, and what the first term is if it is sampled.
        at, local = decided.between(first, last)  # (B,) each: places in the tables (T, K), and states of this pass
        current = action_logprobs(scores, local, rollout.positions[at], rollout.tokens[at], policy)
        surrogate = clipped_surrogate(
            current, rollout.old_logprobs[at], advantages[at], config.clip_low, config.clip_high
        )
        ratio[at], logprobs[at], clipped[at] = surrogate.ratio.detach(), current.detach(), surrogate.clipped

        # f of each state, as often as it was visited, weighted by the ratios that led there.
        tail, answers = problems.open_tail(responses, of), problems.answers[of]
        log_f = log_expected_reward_of(
            scores,
            definite=rollout.definite[states],
            tail=tail,
            scored=problems.scored[of],
            answers=answers,
            policy=policy,
            lam=config.lam,
        )  # (N,)
        visits = weights[at]
        f_weight = torch.zeros_like(log_f).index_add(0, local, visits * f_weights(ratio, config.f_weight)[at])

        # The two terms of J: sampled decisions and f, or both over all decisions of a state.
        if closed and values is not None:
            part = ScoredStates(problems, responses, of, scores)
            log_value = log_expected_value_of(scores, tail=tail, answers=answers, values=values.at(part), policy=policy)
            of_value, of_f = closed_form_terms(log_value, log_f, config)
            rl, sft = (of_value * f_weight).sum(), (of_f * f_weight).sum()
        else:
            rl = (surrogate.objective * visits * in_rl_sum[at]).sum() * config.rl_weight
            sft = (f_term(log_f, config.f_form) * f_weight).sum() * config.sft_weight
        terms = {"sft": sft}

        # Further terms depend on the states alone, each as often as it was visited.
        state_weight = torch.zeros_like(log_f).index_add(0, local, visits)
        anchor = reference.score(*inputs) if reference is not None and config.kl_weight > 0 else None
        for name, value in further_terms(
            scores, anchor, problems, of, rollout.definite[states], policy, config
        ).items():
            terms[name] = (value * state_weight).sum()

        backward(rl, sum(terms.values(), torch.zeros_like(rl)))
        for name, term in (("rl", rl), *terms.items()):
            totals[name] += float(term.detach())
    return UpdateResult(
        logprobs=logprobs, clipped=clipped & in_rl_sum, in_rl_sum=in_rl_sum, evaluated=evaluated, **totals
    )


class _Decisions(NamedTuple):
    """The E decisions that were taken in the drawn states, state by state.

    Attributes:
        trajectory: int64 `(E,)`.
        step: int64 `(E,)`.
        slot: int64 `(E,)`, the place of the state among the drawn ones, rising.
    """

    trajectory: Tensor
    step: Tensor
    slot: Tensor

    def between(self, first: int, last: int) -> tuple[tuple[Tensor, Tensor], Tensor]:
        """The trajectories and steps of the decisions in the drawn states from `first` to `last`, and their states."""
        begin, end = torch.searchsorted(self.slot, torch.tensor([first, last], device=self.slot.device)).tolist()
        return (self.trajectory[begin:end], self.step[begin:end]), self.slot[begin:end] - first


def _draw_states(rollout: Rollout, fraction: float, generator: torch.Generator | None) -> tuple[Tensor, _Decisions]:
    """States drawn with probability `fraction` each, int64 `(D,)` in their order, and the decisions taken in them."""
    count, device = len(rollout.responses), rollout.responses.device
    drawn = torch.arange(count, device=device)
    if fraction < 1:
        source = device if generator is None else generator.device
        drawn = drawn[(torch.rand(count, generator=generator, device=source) < fraction).to(device)]
    slot_of = torch.full((count,), -1, device=device)  # -1 where not drawn
    slot_of[drawn] = torch.arange(len(drawn), device=device)

    trajectory, step = (rollout.live & (slot_of[rollout.state_of] >= 0)).nonzero(as_tuple=True)
    slot, order = slot_of[rollout.state_of[trajectory, step]].sort(stable=True)
    return drawn, _Decisions(trajectory[order], step[order], slot)
