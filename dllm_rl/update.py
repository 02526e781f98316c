"""The gradient of the objective over a roll-out, in micro-batches of distinct states.

Each distinct state is forwarded once, however many trajectories visit it, and a micro-batch holds no more than its
budget of tokens and of masked positions, so memory grows neither with K, G nor the number of puzzles. States come in
the order of their step, so the ratio that a state's second term needs, that of the decision leading to it, is known by
the time it is needed.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dllm_rl.objective import ObjectiveConfig, expected_reward, incoming_ratio, rollout_advantages, step_weights
from dllm_rl.policy import PolicyConfig, action_logprobs, score_states
from dllm_rl.rollout import Rollout, micro_batches
from llm_rl.core.surrogate import clipped_surrogate

Backward = Callable[[Tensor, Tensor], None]


@dataclass(frozen=True, eq=False)
class UpdateResult:
    """What a pass over a roll-out gave.

    Attributes:
        rl: The first term of J.
        sft: The second term of J.
        logprobs: fp32 `(T, K)`, log π(a|s) under the current parameters, 0 where ended.
        clipped: bool `(T, K)`, where the minimum took the clipped branch.
        in_rl_sum: bool `(T, K)`, the decisions in the first term: all live ones but the last of a full trajectory.
    """

    rl: float
    sft: float
    logprobs: Tensor
    clipped: Tensor
    in_rl_sum: Tensor


def objective_pass(
    model: nn.Module,
    rollout: Rollout,
    backward: Backward,
    *,
    policy: PolicyConfig,
    config: ObjectiveConfig,
    max_tokens: int = 65536,
    max_masked: int | None = None,
) -> UpdateResult:
    """Evaluate J over a roll-out and hand the two terms of each micro-batch to `backward`.

    Args:
        model: The policy that is trained.
        rollout: A roll-out of this policy, now or some updates ago.
        backward: Called with the first and the second term of a micro-batch (to be maximized, weights included);
            summed over the calls they are J.
        policy: The temperatures of the roll-out.
        config: The objective.
        max_tokens: Largest number of tokens in one forward pass.
        max_masked: Largest number of masked positions, i.e. rows of full-vocabulary logits, in one forward pass; None
            is no bound but `max_tokens`. With a large vocabulary it is this that bounds memory.

    Raises:
        ValueError: A budget does not hold one state.
    """
    puzzles = rollout.puzzles
    length = puzzles.prompt_ids.shape[1] + puzzles.responses.shape[1]
    live = rollout.live
    visited = torch.where(live, rollout.expected_reward[rollout.state_of.clamp_min(0)], 0.0)
    advantages = rollout_advantages(visited, rollout.group_size, config)
    weights = step_weights(live, rollout.decisions, config.reduction)
    steps = torch.arange(live.shape[1], device=live.device)
    in_rl_sum = live & (steps < rollout.decisions[:, None] - 1)

    trajectory, step = live.nonzero(as_tuple=True)
    state = rollout.state_of[trajectory, step]
    state, order = state.sort(stable=True)
    trajectory, step = trajectory[order], step[order]

    ratio = torch.ones_like(rollout.old_logprobs)
    logprobs = torch.zeros_like(rollout.old_logprobs)
    clipped = torch.zeros_like(live)
    rl_total, sft_total = 0.0, 0.0
    masked = (rollout.responses == puzzles.layout.mask_id).sum(1)
    for first, last in micro_batches(masked, length, max_tokens, max_masked):
        responses = rollout.responses[first:last]
        of_puzzle = rollout.puzzle_of[first:last]
        scores = score_states(model, *puzzles.prompts_of(of_puzzle), responses, puzzles.layout.mask_id, policy)
        begin, end = torch.searchsorted(state, torch.tensor([first, last], device=state.device)).tolist()
        rows, cols, local = trajectory[begin:end], step[begin:end], state[begin:end] - first
        positions, tokens = rollout.positions[rows, cols], rollout.tokens[rows, cols]
        current = action_logprobs(scores, local, positions, tokens, policy)
        surrogate = clipped_surrogate(
            current, rollout.old_logprobs[rows, cols], advantages[rows, cols], config.clip_low, config.clip_high
        )
        rl = (surrogate.objective * weights[rows, cols] * in_rl_sum[rows, cols]).sum() * config.rl_weight
        ratio[rows, cols] = surrogate.ratio.detach()
        logprobs[rows, cols] = current.detach()
        clipped[rows, cols] = surrogate.clipped

        f = expected_reward(
            scores,
            forced=rollout.forced[first:last],
            tail=puzzles.tail_of(responses),
            solution_ids=puzzles.solution_ids[of_puzzle],
            policy=policy,
            lam=config.lam,
        )
        visit_weight = weights[rows, cols] * incoming_ratio(ratio)[rows, cols]
        state_weight = torch.zeros_like(f).index_add(0, local, visit_weight)
        sft = (f * state_weight).sum() * config.sft_weight
        backward(rl, sft)
        rl_total, sft_total = rl_total + float(rl.detach()), sft_total + float(sft.detach())
    return UpdateResult(rl_total, sft_total, logprobs, clipped & in_rl_sum, in_rl_sum)
