"""The update as public implementations of RL for masked-diffusion models write it, as a reference to measure against.

Step by step over the trajectories of a roll-out: one forward and one backward pass of the whole batch at each step,
logits at every position, softmax over the full vocabulary at every response position, nothing shared between
trajectories. The objective is that of `dllm_rl.terms.objective`; only the work differs from `dllm_rl.training.update`.
Beside it stand the parts of the lean update with one of its savings taken back, to measure each apart.
"""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from transformers.modeling_outputs import MaskedLMOutput

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


class LogitsEverywhere(nn.Module):
    """A model that computes logits at every position before it selects those that were asked for."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None, logits_mask: Tensor) -> MaskedLMOutput:
        """Logits `(logits_mask.sum(), V)` of sequences `(B, L)`."""
        output = self.model(input_ids=input_ids, attention_mask=attention_mask)
        return MaskedLMOutput(logits=output.logits[logits_mask])


def in_float64(record: Rollout) -> Rollout:
    """A roll-out whose log-probabilities and rewards are float64."""
    wide: dict[str, Any] = {
        name: value.double()
        for name, value in vars(record).items()
        if isinstance(value, Tensor) and value.is_floating_point()
    }
    return replace(record, **wide)


def naive_pass(
    model: nn.Module,
    rollout: Rollout,
    backward: Backward,
    *,
    config: ObjectiveConfig,
    drop_ended: bool = False,
) -> tuple[float, float]:
    """Evaluate J over a roll-out, one step of all T trajectories at a time.

    Args:
        model: Takes `(input_ids, attention_mask)` and returns `.logits` `(T, L, V)`.
        rollout: A roll-out of this policy, now or some updates ago; its temperatures are used. In float64, if the
            model is.
        backward: Called with the two terms of each step, as by `dllm_rl.training.update.objective_pass`.
        config: The objective.
        drop_ended: Leave trajectories that have ended out of the batch; otherwise it keeps its shape, as usual, and
            they have weight 0.

    Returns:
        The first and the second term of J.
    """
    problems, live = rollout.problems, rollout.live
    count, steps = live.shape
    visited = torch.where(live, rollout.expected_reward[rollout.state_of.clamp_min(0)], 0.0)
    advantages = rollout_advantages(visited, rollout.num_generations, config)
    weights = step_weights(live, rollout.decisions, config.reduction, rollout.old_logprobs.dtype)
    owner = torch.arange(len(problems)).repeat_interleave(rollout.num_generations)
    last_visit = rollout.state_of[:, 0]
    incoming = torch.ones_like(rollout.old_logprobs[:, 0])
    rl_total = sft_total = 0.0
    for step in range(steps):
        last_visit = torch.where(live[:, step], rollout.state_of[:, step], last_visit)
        rows = live[:, step].nonzero().squeeze(1) if drop_ended else torch.arange(count)
        if len(rows) == 0:
            break
        states = last_visit[rows]
        responses, definite = rollout.responses[states], rollout.definite[states]
        masked = responses == problems.mask_id
        position_logprobs, token_logprobs = _policy(
            model, *problems.prompts_of(owner[rows]), responses, problems.mask_id, rollout.policy
        )

        acting = live[rows, step]
        logprobs, left = position_logprobs.new_zeros(len(rows)), position_logprobs
        for rank in range(rollout.positions.shape[2]):
            some = (acting & (rollout.positions[rows, step, rank] >= 0)).nonzero().squeeze(1)
            position, token = rollout.positions[rows[some], step, rank], rollout.tokens[rows[some], step, rank]
            of_position = left[some, position] - left[some].logsumexp(1)  # one after the other, without replacement
            logprobs = logprobs.index_add(0, some, of_position + token_logprobs[some, position, token])
            left = left.index_put((some, position), left.new_tensor(float("-inf")))
        surrogate = clipped_surrogate(
            logprobs, rollout.old_logprobs[rows, step], advantages[rows, step], config.clip_low, config.clip_high
        )
        in_rl_sum = acting & (step < rollout.decisions[rows] - 1)
        rl = (surrogate.objective * weights[rows, step] * in_rl_sum).sum() * config.policy_weight

        of = owner[rows]
        answer_logprobs = token_logprobs.gather(2, problems.answers[of][:, :, None]).squeeze(2)
        tail = masked & ~problems.judged[of]
        f = log_expected_reward(
            position_logprobs, answer_logprobs, definite, tail, problems.scored[of], config.lam
        ).exp()
        sft = (f * weights[rows, step] * incoming[rows]).sum() * config.f_weight
        incoming[rows] = surrogate.ratio.detach()
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
