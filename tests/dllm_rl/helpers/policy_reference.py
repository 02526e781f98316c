"""The MDP by definition: one state at a time, the whole vocabulary, probabilities in float64, nothing shared.

A trajectory is a list of actions (position, token); states are full sequences of one puzzle, without padding.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from dllm_rl.decoding.rollouts import Rollout
from dllm_rl.policy import PolicyConfig
from dllm_rl.sudoku import PuzzleBatch
from dllm_rl.terms.objective import ObjectiveConfig
from sudoku_env.envs.dynamics import StepBatch
from sudoku_env.logic import definite_cells
from sudoku_env.prompts.tokens import PreFilled, detect_definite, judge_error
from tests.helpers.one_step import step_batch

Action = tuple[int, int]
Played = tuple[list[Action], list[float]]
"""The actions of a trajectory with their log-probabilities."""


class Policy(NamedTuple):
    """log π(ℓ|s), log π(v|ℓ,s) over the vocabulary, and the margin, for each masked position ℓ."""

    position: dict[int, Tensor]
    token: dict[int, Tensor]
    margin: dict[int, Tensor]

    def log_prob(self, *actions: Action) -> Tensor:
        """Of choices made one after the other, each position drawn from those that are left."""
        total, left = torch.zeros((), dtype=torch.float64), torch.ones((), dtype=torch.float64)
        for ell, token in actions:
            total = total + self.position[ell] - left.log() + self.token[ell][token]
            left = left - self.position[ell].exp()
        return total


def policy_at(model: nn.Module, state: Sequence[int], puzzle: PreFilled, config: PolicyConfig) -> Policy:
    layout = puzzle.layout
    logits = model(input_ids=torch.tensor([list(state)])).logits[0].double()
    masked = [ell for ell in range(layout.response_length) if state[layout.prompt_length + ell] == layout.mask_id]
    margin, token = {}, {}
    for ell in masked:
        row = logits[layout.prompt_length + ell]
        kept = torch.cat([row[: layout.mask_id], row[layout.mask_id + 1 :]])
        first, second = kept.softmax(0).sort(descending=True).values[:2]
        margin[ell] = torch.log((first + config.margin_eps) / (second + config.margin_eps))
        log_token = (kept / config.token_temperature).log_softmax(0)
        nothing = torch.tensor([-torch.inf], dtype=torch.float64)
        token[ell] = torch.cat([log_token[: layout.mask_id], nothing, log_token[layout.mask_id :]])
    scaled = torch.stack([margin[ell] for ell in masked]) / config.position_temperature
    position = dict(zip(masked, scaled.log_softmax(0), strict=True))
    return Policy(position, token, margin)


def after(state: Sequence[int], action: Action, puzzle: PreFilled) -> list[int]:
    result = list(state)
    result[puzzle.layout.prompt_length + action[0]] = action[1]
    return result


def actions_at(record: Rollout, trajectory: int, k: int) -> list[Action]:
    """What a decision of a roll-out chose, in order; nothing where the trajectory has ended."""
    pairs = zip(record.positions[trajectory, k].tolist(), record.tokens[trajectory, k].tolist(), strict=True)
    return [(ell, token) for ell, token in pairs if ell >= 0]


def is_over(state: Sequence[int], puzzle: PreFilled) -> bool:
    return bool(judge_error(state, puzzle.layout)) or puzzle.layout.mask_id not in state


def f_of(policy: Policy, state: Sequence[int], puzzle: PreFilled, lam: float, tail_id: int | None = None) -> Tensor:
    """With the token of a tail that is scored."""
    layout = puzzle.layout
    solution = dict(zip(layout.cell_positions.tolist(), layout.solution_ids.tolist(), strict=True))
    f = torch.zeros((), dtype=torch.float64)
    for ell in policy.position:
        if ell not in solution:
            right = torch.zeros(()) if tail_id is None else policy.token[ell][tail_id]
            f = f + lam * (policy.position[ell] + right).exp()
    for ell in detect_definite(state, layout):
        f = f + (policy.position[ell] + policy.token[ell][solution[ell]]).exp()
    return f


def environment(
    batch: PuzzleBatch, of: Tensor, states: Tensor, positions: Tensor, tokens: Tensor, lam: float
) -> tuple[StepBatch, np.ndarray]:
    """What `sudoku_env` does and pays; a scored tail, which it does not know, pays for the right token alone."""
    outcome = step_batch(
        states.numpy(), positions.numpy(), tokens.numpy(), cell_positions=batch.layout.cell_positions,
        digit_ids=batch.layout.digit_ids, mask_id=batch.mask_id, solutions=batch.boards(batch.answers)[of.numpy()],
        definite=definite_cells(batch.boards(states), batch.rule) > 0, lam=lam,
    )  # fmt: skip
    scored, right = batch.scored[of, positions], batch.answers[of, positions] == tokens
    assert not bool((scored & batch.judged[of, positions]).any())
    return outcome, np.where(scored.numpy(), lam * right.numpy(), outcome.rewards)


def value(model: nn.Module, state: Sequence[int], puzzle: PreFilled, config: PolicyConfig, lam: float) -> Tensor:
    """E[Σ f] from a state on, by recursion over every action, with its gradient."""
    if is_over(state, puzzle):
        return torch.zeros((), dtype=torch.float64)
    policy = policy_at(model, state, puzzle, config)
    total = f_of(policy, state, puzzle, lam)
    for action in _actions(policy):
        following = value(model, after(state, action, puzzle), puzzle, config, lam)
        total = total + policy.log_prob(action).exp() * following
    return total


def trajectories(model: nn.Module, puzzle: PreFilled, config: PolicyConfig) -> Iterator[Played]:
    """Every trajectory."""
    policies: dict[tuple[int, ...], Policy] = {}
    stack: list[tuple[list[int], list[Action], list[float]]] = [(list(puzzle.token_ids), [], [])]
    while stack:
        state, actions, log_probs = stack.pop()
        if is_over(state, puzzle):
            yield actions, log_probs
            continue
        if tuple(state) not in policies:
            policies[tuple(state)] = policy_at(model, state, puzzle, config)
        policy = policies[tuple(state)]
        for action in _actions(policy):
            log_prob = float(policy.log_prob(action).detach())
            stack.append((after(state, action, puzzle), [*actions, action], [*log_probs, log_prob]))


def _actions(policy: Policy) -> Iterator[Action]:
    for ell, log_token in policy.token.items():
        for token in torch.isfinite(log_token).nonzero()[:, 0].tolist():
            yield ell, token


def as_rollout(model: nn.Module, puzzle: PreFilled, played: list[Played], config: PolicyConfig, lam: float) -> Rollout:
    """Trajectories of one puzzle, each a group of its own, as if a roll-out had recorded them."""
    layout, start = puzzle.layout, list(puzzle.token_ids)
    decisions = start.count(layout.mask_id)
    shape, visits = (len(played), decisions), [[tuple(start)] for _ in played]
    for row, (actions, _) in enumerate(played):
        for action in actions[:-1]:
            visits[row].append(tuple(after(visits[row][-1], action, puzzle)))
    visited = [(step, visit[step]) for step in range(decisions) for visit in visits if step < len(visit)]
    seen = {state: number for number, state in enumerate(dict.fromkeys(visited))}
    state_of, positions, tokens = (torch.full(shape, -1) for _ in range(3))
    old_logprobs = torch.zeros(shape, dtype=torch.float64)
    for row, (actions, log_probs) in enumerate(played):
        for step, (ell, token) in enumerate(actions):
            state_of[row, step] = seen[step, visits[row][step]]
            positions[row, step], tokens[row, step] = ell, token
            old_logprobs[row, step] = log_probs[step]
    states = [state for _, state in seen]
    definite = torch.zeros(len(states), layout.response_length, dtype=torch.bool)
    for index, state in enumerate(states):
        definite[index, detect_definite(state, layout)] = True
    with torch.no_grad():
        rewards = [f_of(policy_at(model, state, puzzle, config), state, puzzle, lam) for state in states]
    nothing = torch.zeros(len(states))
    return Rollout(
        problems=PuzzleBatch.collate([puzzle], pad_id=0), num_generations=1, policy=config, definite=definite,
        responses=torch.tensor(states)[:, layout.prompt_length :], problem_of=nothing.long(), entropy=nothing,
        top_prob=nothing, greedy=nothing.long(), expected_reward=torch.stack(rewards), state_of=state_of,
        positions=positions[..., None], tokens=tokens[..., None], old_logprobs=old_logprobs,
        rewards=torch.zeros(shape), wrong=torch.zeros(shape, dtype=torch.bool),
        decisions=torch.full((len(played),), decisions),
    )  # fmt: skip


def objective(
    model: nn.Module, puzzles: Sequence[PreFilled], record: Rollout, settings: ObjectiveConfig
) -> tuple[Tensor, Tensor, int]:
    """Both terms of J with their gradients and the number of clipped decisions, by loops over what was played."""
    scored_tail_id = _answer_at(record, record.problems.scored)
    gamma, steps = settings.gamma, record.positions.shape[1]
    returns: list[list[float]] = []  # of each trajectory after each decision
    for states in record.state_of.tolist():
        f = [float(record.expected_reward[state]) if state >= 0 else 0.0 for state in states]
        returns.append([sum(gamma ** (j - k - 1) * f[j] for j in range(k + 1, steps)) for k in range(steps)])
    rl = sft = torch.zeros((), dtype=torch.float64)
    clipped_count = 0
    for index, puzzle in enumerate(puzzles):
        decisions = -(-list(puzzle.token_ids).count(puzzle.layout.mask_id) // record.positions.shape[2])
        group = returns[index * record.num_generations :][: record.num_generations]
        for member in range(record.num_generations):
            trajectory = index * record.num_generations + member
            state, ratios = list(puzzle.token_ids), [1.0]
            weight = 1 / (len(puzzles) * record.num_generations)
            if settings.reduction == "mean":
                weight /= decisions
            for k in range(decisions):
                actions = actions_at(record, trajectory, k)
                if not actions:
                    break
                policy = policy_at(model, state, puzzle, record.policy)
                ratio = (policy.log_prob(*actions) - float(record.old_logprobs[trajectory, k])).exp()
                if k < decisions - 1:
                    advantage = _advantage(np.array([each[k] for each in group]), member, settings)
                    bounded = ratio.clamp(1 - settings.clip_low, 1 + settings.clip_high)
                    clipped_count += bool(bounded * advantage < ratio * advantage)
                    rl = rl + weight * torch.minimum(ratio * advantage, bounded * advantage)
                f = f_of(policy, state, puzzle, settings.lam, scored_tail_id)
                if settings.f_form == "linear" or f > 0:
                    sft = sft + weight * ratios[-1] * (f if settings.f_form == "linear" else f.log())
                ratios.append(float(ratio.detach()))
                for action in actions:
                    state = after(state, action, puzzle)
    return rl * settings.policy_weight, sft * settings.f_weight, clipped_count


def cross_entropy(model: nn.Module, puzzles: Sequence[PreFilled], record: Rollout, settings: ObjectiveConfig) -> Tensor:
    """The log-likelihood in J, by loops over the visits."""
    total = torch.zeros((), dtype=torch.float64)
    plain = replace(record.policy, token_temperature=1.0)
    for row, column in record.live.nonzero().tolist():
        puzzle = puzzles[row // record.num_generations]
        state = [*puzzle.token_ids[: puzzle.prompt_length], *record.responses[record.state_of[row, column]].tolist()]
        policy = policy_at(model, state, puzzle, plain)
        weight = 1 / len(record.live) / (int(record.decisions[row]) if settings.reduction == "mean" else 1)
        solution = dict(zip(puzzle.layout.cell_positions.tolist(), puzzle.layout.solution_ids.tolist(), strict=True))
        tail_id = _answer_at(record, ~record.problems.judged)
        definite = detect_definite(state, puzzle.layout)
        known = [
            policy.token[ell][solution.get(ell, tail_id)]
            for ell in policy.position
            if (ell in solution and (settings.ce_on == "masked" or ell in definite))
            or (ell not in solution and tail_id is not None)
        ]
        if known:
            total = total + settings.ce_weight * weight * torch.stack(known).mean()
    return total


def _answer_at(record: Rollout, where: Tensor) -> int | None:
    """The one token that answers all open positions among these; None where there are none or it is not known."""
    start = record.problems.responses == record.problems.mask_id
    found = record.problems.answers[where & start].unique().tolist()
    assert len(found) <= 1
    return found[0] if found and found != [record.problems.mask_id] else None


def _advantage(column: np.ndarray, member: int, settings: ObjectiveConfig) -> float:
    baseline = column.mean() if settings.advantage_baseline != "leave_one_out" else np.delete(column, member).mean()
    advantage = column[member] - baseline
    if settings.advantage_scale == "none":
        return float(advantage)
    spread = column.std()
    return 0.0 if spread < 1e-6 else float(advantage / spread)


def gradients(loss: Tensor, model: nn.Module) -> list[Tensor]:
    """Gradients of all parameters; zeros where none arrives."""
    return list(torch.autograd.grad(loss, list(model.parameters()), retain_graph=True, materialize_grads=True))
