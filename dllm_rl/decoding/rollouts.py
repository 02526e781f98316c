"""Roll-outs for training: G trajectories for each problem, recorded with f, log-probabilities and rewards.

A decision fills one position or several from one forward pass. Trajectories that are complete, or ended by an error,
leave the batch; every distinct state is forwarded once.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dllm_rl.decoding.loop import Step, decoding_steps
from dllm_rl.decoding.settings import Decoding
from dllm_rl.decoding.strategies import get_strategy
from dllm_rl.decoding.trajectories import Trajectories, sums_at
from dllm_rl.policy import PolicyConfig, action_logprobs
from dllm_rl.reward import log_expected_reward_of
from dllm_rl.task import UnmaskBatch, check_lam, unmask_rewards
from llm_rl.core.logprobs import entropy_from_logits
from llm_rl.training.modes import evaluation_mode

AS_TRAINED = Decoding("policy", on_error="end")
"""Drawn from the policy, one position a decision, to the first error: the roll-outs of docs/sources.md."""


@dataclass(frozen=True, eq=False)
class Rollout:
    """T = Q·G trajectories of at most K decisions over S distinct states; trajectory t belongs to problem t // G.

    Attributes:
        problems: The Q problems.
        num_generations: G.
        responses: int64 `(S, R)`, the distinct states, in the order of their step.
        problem_of: int64 `(S,)`, the problem of each state: one of those with its prompt, response and answer.
        definite: bool `(S, R)`, the open judged positions whose token follows from the state (S1).
        expected_reward: fp32 `(S,)`, f(s) under the policy that acted.
        entropy: fp32 `(S,)`, entropy of the position policy in nats.
        top_prob: fp32 `(S,)`, its largest probability.
        greedy: int64 `(S,)`, the position of the largest margin.
        state_of: int64 `(T, K)`, the state before decision k, -1 where the trajectory has ended.
        positions: int64 `(T, K, k)`, the positions filled, in the order of choice, -1 where there is none.
        tokens: int64 `(T, K, k)`, the tokens chosen, -1 where there is none.
        old_logprobs: fp32 `(T, K)` (float64 of a model in float64, as f), log π(a|s) when acting, 0 where ended.
        rewards: fp32 `(T, K)`, the rewards of a decision's positions (`unmask_rewards`) in all, 0 where ended.
        wrong: bool `(T, K)`, whether a wrong token was chosen at a judged position.
        decisions: int64 `(T,)`, decisions of a full trajectory: the masked positions at the start, over k, rounded up;
            under a guard, which may keep one position of each, these positions themselves.
        policy: The temperatures and ε of the policy that acted.
    """

    problems: UnmaskBatch
    num_generations: int
    responses: Tensor
    problem_of: Tensor
    definite: Tensor
    expected_reward: Tensor
    entropy: Tensor
    top_prob: Tensor
    greedy: Tensor
    state_of: Tensor
    positions: Tensor
    tokens: Tensor
    old_logprobs: Tensor
    rewards: Tensor
    wrong: Tensor
    decisions: Tensor
    policy: PolicyConfig

    @property
    def live(self) -> Tensor:
        """bool `(T, K)`, where a decision was taken."""
        return self.state_of >= 0

    @property
    def masked(self) -> Tensor:
        """int64 `(S,)`, masked positions of each state."""
        return (self.responses == self.problems.mask_id).sum(1)

    @property
    def errors(self) -> Tensor:
        """bool `(T,)`, whether a wrong token was chosen at a judged position."""
        return self.wrong.any(1)

    @property
    def solved(self) -> Tensor:
        """bool `(T,)`, complete without an error."""
        filled, open_ = (self.positions >= 0).sum((1, 2)), self.problems.responses == self.problems.mask_id
        return ~self.errors & (filled == open_.sum(1).repeat_interleave(self.num_generations))

    @property
    def steps_before_error(self) -> Tensor:
        """int64 `(T,)`, right decisions before the first error, or all of them."""
        return torch.where(self.errors, self.wrong.byte().argmax(1), self.live.sum(1))

    @property
    def visited_rewards(self) -> Tensor:
        """fp32 `(T, K)`, f at the state before each decision, 0 where ended."""
        return torch.where(self.live, self.expected_reward[self.state_of.clamp_min(0)], 0.0)

    @property
    def greedy_judged(self) -> Tensor:
        """bool `(T, K)`, the decisions before which the greedy position was judged, i.e. lay in the map."""
        judged = self.problems.judged[self.problem_of, self.greedy]  # (S,)
        return judged[self.state_of.clamp_min(0)] & self.live

    @property
    def greedy_definite(self) -> Tensor:
        """bool `(T, K)`, the decisions before which the greedy position was definite."""
        definite = self.definite.gather(1, self.greedy[:, None]).squeeze(1)  # (S,)
        return definite[self.state_of.clamp_min(0)] & self.live


@torch.no_grad()
def rollout(
    model: nn.Module,
    problems: UnmaskBatch,
    how: Decoding = AS_TRAINED,
    *,
    num_generations: int = 1,
    lam: float = 0.5,
    generator: torch.Generator | None = None,
    noise: Tensor | None = None,
    max_tokens: int = 65536,
    max_masked: int | None = None,
) -> Rollout:
    """Decode every problem `num_generations` times until it is complete, holds an error or is at a guard's dead end.

    Under a guard a decision is what was kept of it, and a step that kept nothing is none. The strategy draws nothing
    then: of a decision that was drawn, and kept in part or with another token, the policy's log-probability would be
    wrong, and so the ratio.

    Args:
        model: A model as `score_states` takes it; it is put in evaluation mode for the call.
        problems: The Q problems to decode, on any device; they go where the model is, and so does the roll-out.
        how: How to decode, and the temperatures, which enter f and the log-probabilities whatever the strategy. A
            decision fills `tokens_per_step` positions from one forward pass, fewer where fewer are masked.
        num_generations: G, trajectories for each problem.
        lam: λ, the reward of a position that is not judged.
        generator: Source of the uniforms of a strategy that draws; None is torch's global one.
        noise: Those uniforms themselves, float64 `(T, C, 2)` in [0, 1), for the position and the token of the first,
            second … of the C choices of the longest trajectory (`puzzle_noise`). Decisions then depend on nothing
            else, however the states are cut into passes.
        max_tokens: Largest number of tokens in one forward pass.
        max_masked: Largest number of masked positions in one forward pass (`micro_batches`).

    Returns:
        The recorded roll-out.

    Raises:
        ValueError: `num_generations`, `max_tokens` or `max_masked` is too small, a problem has no masked position,
            `noise` has another shape or comes with a generator, `lam` is negative or not finite, or `how` is of no
            roll-out: without a number of positions, with a limit or tokens taken back, with a guard and draws or
            without its check, with errors corrected where several answers are right; or a choice is not masked.
    """
    # A ratio needs the probability of what was written, so that what would change this afterwards is refused.
    check_lam(lam)
    if (what := how.take_back or how.limit) is not None:
        raise ValueError(f"{what} is for decodes; a decision of a roll-out fills tokens_per_step positions for good")
    if how.guard is not None and get_strategy(how.strategy).draws:
        raise ValueError(
            f"guard={how.guard!r} keeps a part of what strategy {get_strategy(how.strategy).name!r} draws, so that the "
            "log-probability of a decision, and its ratio, would be wrong; use one that takes the best, e.g. 'margin', "
            "or leave the guard out"
        )
    if problems.several and how.on_error == "correct":
        raise ValueError(
            "on_error='correct' writes the answer's token, and these problems have several answers; use 'end', or "
            "'redraw' for another decision"
        )
    trajectories = Trajectories(problems.beside(model), num_generations)
    if not bool(trajectories.to_fill.all()):
        problem = int(trajectories.problem_of[(trajectories.to_fill == 0).nonzero()[0]])
        raise ValueError(f"problem {problem} has no masked position, so there is nothing to decide; leave it out")
    count = how.tokens_per_step
    if count is None:
        raise ValueError("tokens_per_step=None is for decodes; a roll-out needs a number of positions a decision")
    decisions = -(-trajectories.to_fill // count) if how.guard is None else trajectories.to_fill  # rounded up
    record = Record(trajectories, count, decisions, how.policy, lam)
    uniforms = _checked(noise, generator, trajectories, how.tries)
    steps = decoding_steps(
        model, trajectories, how, uniforms=uniforms, generator=generator, max_tokens=max_tokens, max_masked=max_masked
    )
    return record.result(model, steps, num_generations)


def _checked(
    noise: Tensor | None, generator: torch.Generator | None, trajectories: Trajectories, tries: int
) -> Tensor | None:
    """The uniforms `(T, C · D, 2)` that were given for a roll-out, on its device."""
    if noise is None:
        return None
    if generator is not None:
        raise ValueError("a roll-out takes a generator or noise, not both; leave one of them out")
    shape = (len(trajectories.responses), trajectories.most_positions * tries, 2)
    if noise.shape != shape or noise.dtype != torch.float64:
        raise ValueError(f"noise is {noise.dtype} {tuple(noise.shape)}; give float64 {shape}, see puzzle_noise")
    return noise.to(trajectories.responses.device)


class Record:
    """What has been seen so far of a roll-out with at most `decisions`, int64 `(T,)`, of up to `count` positions."""

    def __init__(
        self, trajectories: Trajectories, count: int, decisions: Tensor, policy: PolicyConfig, lam: float
    ) -> None:
        self.problems, self.decisions, self.policy, self.lam = trajectories.problems, decisions, policy, lam
        table, device = (len(self.decisions), int(self.decisions.max())), trajectories.responses.device
        self.state_of = torch.full(table, -1, device=device)
        self.positions = torch.full((*table, count), -1, device=device)
        self.tokens = torch.full((*table, count), -1, device=device)
        self.old_logprobs = torch.zeros(table, device=device)
        self.rewards = torch.zeros(table, device=device)
        self.wrong = torch.zeros(table, dtype=torch.bool, device=device)
        self.seen = 0
        self.columns: dict[str, list[Tensor]] = {}

    def add(self, step: Step) -> None:
        """Take in one step."""
        problems, scores, of = self.problems, step.scores, step.of
        answers = problems.answers_to(step.responses, of)  # (N, R)
        # Each state, under the parameters that act: f, and how sure the policy is.
        seen = {
            "responses": step.responses,
            "problem_of": of,
            "definite": step.definite,
            "expected_reward": log_expected_reward_of(
                scores,
                definite=step.definite,
                tail=problems.open_tail(step.responses, of),
                scored=problems.scored[of],
                answers=answers,
                policy=self.policy,
                lam=self.lam,
            ).exp(),
            "entropy": entropy_from_logits(scores.position_logprobs),
            "top_prob": scores.position_logprobs.amax(1).exp(),
            "greedy": scores.margins.argmax(1),
        }
        for name, column in seen.items():
            self.columns.setdefault(name, []).append(column)

        # Each choice at its trajectory, step and rank; each decision at its trajectory and step.
        if step.number >= self.state_of.shape[1]:
            raise ValueError("the strategy fills fewer positions a step than asked for; take tokens_per_step=1 with it")
        chosen, rows, positions, tokens = step.trajectories[step.rows], step.rows, step.positions, step.tokens  # (B,)
        self.positions[chosen, step.number, step.ranks] = positions
        self.tokens[chosen, step.number, step.ranks] = tokens
        at = step.trajectories, step.number
        acted = self.positions[at][:, 0] >= 0  # a dead end is no decision
        self.state_of[at] = (self.seen + step.states).where(acted, -1)
        logprobs = action_logprobs(scores, step.states, self.positions[at], self.tokens[at], self.policy)
        self.old_logprobs = self.old_logprobs.to(logprobs.dtype)  # float64 of a model in float64
        self.old_logprobs[at] = logprobs.where(acted, 0.0)

        # The rewards and errors of a decision are those of its positions, all judged by the state before it.
        states = step.states[rows]
        problem = of[states]
        rewards = unmask_rewards(
            problems.judged[problem, positions],
            step.definite[states, positions],
            problems.scored[problem, positions],
            answers[states, positions] == tokens,
            self.lam,
        )
        self.rewards[at] = self.rewards[at].index_add(0, rows, rewards)
        self.wrong[at] = sums_at(rows, step.wrong.long(), len(acted)) > 0
        self.seen += len(step.responses)

    def result(self, model: nn.Module, steps: Iterable[Step], num_generations: int) -> Rollout:
        """The roll-out of all steps, which a model in evaluation mode takes."""
        with evaluation_mode(model):
            for step in steps:
                self.add(step)
        columns = {name: torch.cat(self.columns.pop(name)) for name in list(self.columns)}  # no two copies of all
        return Rollout(
            problems=self.problems,
            num_generations=num_generations,
            state_of=self.state_of,
            positions=self.positions,
            tokens=self.tokens,
            old_logprobs=self.old_logprobs,
            rewards=self.rewards,
            wrong=self.wrong,
            decisions=self.decisions,
            policy=self.policy,
            **columns,
        )
