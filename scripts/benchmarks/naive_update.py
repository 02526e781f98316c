"""The update as public implementations of RL for masked-diffusion models write it, as a reference to measure against.

Step by step over the trajectories of a roll-out: one forward and one backward pass of the whole batch at each step,
logits at every position, softmax over the full vocabulary at every response position, nothing shared between
trajectories. The objective is that of `dllm_rl.terms.objective`; only the work differs from `dllm_rl.training.update`.
Beside it stands a roll-out without shared states, to measure that saving apart.
"""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from dllm_rl import ObjectiveConfig, PolicyConfig, Rollout
from dllm_rl.reward import log_expected_reward
from dllm_rl.terms import rollout_advantages
from dllm_rl.training import Backward, step_weights
from llm_rl.core import clipped_surrogate
from llm_rl.core._checks import promote


def unshared(rollout: Rollout) -> Rollout:
    """A roll-out with a state of its own for every visit, in the order of the steps."""
    step, trajectory = rollout.live.T.nonzero(as_tuple=True)
    visited = rollout.state_of[trajectory, step]
    state_of = torch.full_like(rollout.state_of, -1)
    state_of[trajectory, step] = torch.arange(len(visited), device=visited.device)
    per_state = ("responses", "problem_of", "definite", "expected_reward", "entropy", "top_prob", "greedy")
    return replace(rollout, state_of=state_of, **{name: getattr(rollout, name)[visited] for name in per_state})


def in_float64(record: Rollout) -> Rollout:
    """A roll-out whose log-probabilities and rewards are float64."""
    wide: dict[str, Any] = {
        name: value.double()
        for name, value in vars(record).items()
        if isinstance(value, Tensor) and value.is_floating_point()
    }
    return replace(record, **wide)


def naive_pass(
    model: nn.Module, rollout: Rollout, backward: Backward, *, config: ObjectiveConfig
) -> tuple[float, float]:
    """Evaluate J over a roll-out, one step of all T trajectories at a time; those that have ended have weight 0.

    Args:
        model: Takes `(input_ids, attention_mask)` and returns `.logits` `(T, L, V)`.
        rollout: A roll-out of this policy, now or some updates ago; its temperatures are used. In float64, if the
            model is.
        backward: Called with the two terms of each step, as by `dllm_rl.training.update.objective_pass`.
        config: The objective.

    Returns:
        The first and the second term of J.
    """
    problems, live = rollout.problems, rollout.live
    visited = torch.where(live, rollout.expected_reward[rollout.state_of.clamp_min(0)], 0.0)
    advantages = rollout_advantages(visited, rollout.num_generations, config)
    weights = step_weights(live, rollout.decisions, config.reduction, rollout.old_logprobs.dtype)
    owner = torch.arange(len(problems)).repeat_interleave(rollout.num_generations)
    last_visit = rollout.state_of[:, 0]
    incoming = torch.ones_like(rollout.old_logprobs[:, 0])
    rl_total = sft_total = 0.0
    for step, acting in enumerate(live.unbind(1)):
        last_visit = torch.where(acting, rollout.state_of[:, step], last_visit)
        responses, definite = rollout.responses[last_visit], rollout.definite[last_visit]
        position_logprobs, token_logprobs = _policy(
            model, *problems.prompts_of(owner), responses, problems.mask_id, rollout.policy
        )

        logprobs, left = position_logprobs.new_zeros(len(owner)), position_logprobs
        for rank in range(rollout.positions.shape[2]):
            some = (acting & (rollout.positions[:, step, rank] >= 0)).nonzero().squeeze(1)
            position, token = rollout.positions[some, step, rank], rollout.tokens[some, step, rank]
            of_position = left[some, position] - left[some].logsumexp(1)  # one after the other, without replacement
            logprobs = logprobs.index_add(0, some, of_position + token_logprobs[some, position, token])
            left = left.index_put((some, position), left.new_tensor(float("-inf")))
        surrogate = clipped_surrogate(
            logprobs, rollout.old_logprobs[:, step], advantages[:, step], config.clip_low, config.clip_high
        )
        in_rl_sum = acting & (step < rollout.decisions - 1)
        rl = (surrogate.objective * weights[:, step] * in_rl_sum).sum() * config.policy_weight

        answer_logprobs = token_logprobs.gather(2, problems.answers[owner][:, :, None]).squeeze(2)
        tail = (responses == problems.mask_id) & ~problems.judged[owner]
        f = log_expected_reward(
            position_logprobs, answer_logprobs, definite, tail, problems.scored[owner], config.lam
        ).exp()
        sft = (f * weights[:, step] * incoming).sum() * config.f_weight
        incoming = surrogate.ratio.detach()
        backward(rl, sft)
        rl_total, sft_total = rl_total + float(rl.detach()), sft_total + float(sft.detach())
    return rl_total, sft_total


def _policy(
    model: nn.Module,
    prompt_ids: Tensor,
    prompt_mask: Tensor | None,
    responses: Tensor,
    mask_id: int,
    policy: PolicyConfig,
) -> tuple[Tensor, Tensor]:
    """log π(ℓ|s) `(T, R)` and log π(v|ℓ,s) `(T, R, V)`, at masked and other positions alike."""
    masked = responses == mask_id
    attention_mask = None if prompt_mask is None else torch.cat([prompt_mask, torch.ones_like(masked)], dim=1)
    output = model(input_ids=torch.cat([prompt_ids, responses], dim=1), attention_mask=attention_mask)
    logits = promote(output.logits[:, prompt_ids.shape[1] :])
    logits = logits.masked_fill(torch.arange(logits.shape[-1]) == mask_id, float("-inf"))
    top = logits.log_softmax(-1).topk(2, dim=-1).values
    first, second = torch.logaddexp(top, top.new_tensor(policy.margin_eps).log()).unbind(-1)
    margins = (first - second).masked_fill(~masked, float("-inf"))
    position_logprobs = (margins / policy.position_temperature).log_softmax(-1)
    return position_logprobs, (logits / policy.token_temperature).log_softmax(-1)
