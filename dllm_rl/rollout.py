"""Roll-outs: G trajectories for each problem, every distinct state forwarded once.

A state depends on which positions hold which tokens, not on the order in which they were filled, and all trajectories
of a problem start in the same state; so at each step the live trajectories are mapped to their distinct states
first; problems that occur twice in a batch share theirs. Trajectories that made an error or are complete leave the
batch.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from dllm_rl.decoding import STRATEGIES, Strategy, in_evaluation_mode
from dllm_rl.noise import inverse_cdf
from dllm_rl.objective import expected_reward
from dllm_rl.policy import PolicyConfig, StateScores, action_logprobs, score_states
from dllm_rl.task import UnmaskBatch, check_lam, unmask_rewards
from llm_rl.core.logprobs import entropy_from_logits


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
        positions: int64 `(T, K)`, the position filled, -1 where ended.
        tokens: int64 `(T, K)`, the token written, -1 where ended.
        old_logprobs: fp32 `(T, K)`, log π(a|s) when acting, 0 where ended.
        rewards: fp32 `(T, K)`, the reward (`unmask_rewards`), 0 where ended.
        decisions: int64 `(T,)`, decisions of a full trajectory, i.e. masked positions at the start.
        errors: bool `(T,)`, whether it ended with a wrong token at a judged position.
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
    decisions: Tensor
    errors: Tensor
    policy: PolicyConfig

    @property
    def live(self) -> Tensor:
        """bool `(T, K)`, where a decision was taken."""
        return self.state_of >= 0

    @property
    def masked(self) -> Tensor:
        """int64 `(S,)`, masked positions of each state: one less than at the start for every decision before it."""
        trajectory, step = self.live.nonzero(as_tuple=True)
        counts = torch.zeros_like(self.problem_of)
        counts[self.state_of[trajectory, step]] = self.decisions[trajectory] - step
        return counts

    @property
    def solved(self) -> Tensor:
        """bool `(T,)`, complete without an error."""
        return ~self.errors

    @property
    def steps_before_error(self) -> Tensor:
        """int64 `(T,)`, right decisions before the error, or all of them."""
        return self.live.sum(1) - self.errors.long()

    @property
    def visited_rewards(self) -> Tensor:
        """fp32 `(T, K)`, f at the state before each decision, 0 where ended."""
        return torch.where(self.live, self.expected_reward[self.state_of.clamp_min(0)], 0.0)

    def select(self, problems: Tensor) -> "Rollout":
        """The trajectories of some problems, whole groups, over the states that they visit.

        Args:
            problems: int64 `(N,)`, numbers of problems without repetition, in the order that they shall have.
        """
        groups = torch.arange(len(self.state_of), device=self.state_of.device).reshape(-1, self.num_generations)
        rows = groups[problems].flatten()
        live, state_of = self.live[rows], self.state_of[rows]
        states, of_visit = state_of[live].unique(return_inverse=True)
        owner = torch.arange(len(problems), device=rows.device).repeat_interleave(self.num_generations)
        visitor = owner[live.nonzero()[:, 0]]
        first = visitor.new_full((len(states),), len(problems)).scatter_reduce(0, of_visit, visitor, "amin")
        per_state = ("responses", "definite", "expected_reward", "entropy", "top_prob", "greedy")
        per_trajectory = ("positions", "tokens", "old_logprobs", "rewards", "decisions", "errors")
        return replace(
            self,
            problems=self.problems.select(problems),
            problem_of=first,
            state_of=state_of.masked_scatter(live, of_visit),
            **{name: getattr(self, name)[states] for name in per_state},
            **{name: getattr(self, name)[rows] for name in per_trajectory},
        )


def micro_batches(masked: Tensor, length: int, max_tokens: int, max_masked: int | None) -> Iterator[tuple[int, int]]:
    """Cut a list of states into runs that fit in one pass, each as long as possible.

    Args:
        masked: int64 `(S,)`, masked positions of each state, i.e. its rows of full-vocabulary logits.
        length: Tokens of a sequence.
        max_tokens: Largest number of tokens of a run.
        max_masked: Largest number of masked positions of a run; None is no bound but `max_tokens`.

    Yields:
        The first state of a run, and the first after it.

    Raises:
        ValueError: A budget does not hold one state.
    """
    if max_tokens < length:
        raise ValueError(f"max_tokens={max_tokens} does not hold one sequence of {length} tokens; raise it")
    before = torch.cat([masked.new_zeros(1), masked.cumsum(0)])
    first = 0
    while first < len(masked):
        last = min(first + max_tokens // length, len(masked))
        if max_masked is not None:
            fitting = int(torch.searchsorted(before, before[first] + max_masked, right=True)) - 1
            if fitting == first:
                raise ValueError(
                    f"max_masked={max_masked} does not hold one state with {int(masked[first])} masked positions; "
                    "raise it"
                )
            last = min(last, fitting)
        yield first, last
        first = last


@torch.no_grad()
@in_evaluation_mode
def rollout(
    model: nn.Module,
    problems: UnmaskBatch,
    *,
    num_generations: int = 1,
    policy: PolicyConfig | None = None,
    strategy: Strategy = STRATEGIES["policy"],
    lam: float = 0.5,
    generator: torch.Generator | None = None,
    noise: Tensor | None = None,
    max_tokens: int = 65536,
    max_masked: int | None = None,
) -> Rollout:
    """Decode every problem `num_generations` times until it is complete or holds an error.

    Args:
        model: A model as `score_states` takes it; it is put in evaluation mode for the call.
        problems: The Q problems to decode.
        num_generations: G, trajectories for each problem.
        policy: Temperatures; they enter f and the log-probabilities whatever the strategy.
        strategy: How positions and tokens are chosen.
        lam: λ, the reward of a position that is not judged.
        generator: Source of the uniforms of a strategy that draws; None is torch's global one.
        noise: Those uniforms themselves, float64 `(T, K, 2)` in [0, 1), for the position and the token of each decision
            (`dllm_rl.noise.puzzle_noise`). Decisions then depend on nothing else, however the states are cut into
            passes. Trajectories in one state share its forward pass, not their uniforms.
        max_tokens: Largest number of tokens in one forward pass.
        max_masked: Largest number of masked positions in one forward pass (`micro_batches`).

    Returns:
        The recorded roll-out.

    Raises:
        ValueError: `num_generations`, `max_tokens` or `max_masked` is too small, a problem has no masked position,
            `noise` has another shape or comes with a generator, `lam` is negative or not finite, or the strategy
            chooses a position that is not masked.
    """
    policy = policy or PolicyConfig()
    if num_generations < 1:
        raise ValueError(f"num_generations={num_generations} must be at least 1")
    check_lam(lam)
    record = _Record(problems, num_generations, policy)
    uniforms = _uniforms(strategy, record.old_logprobs, generator, noise)
    while len(record.alive):
        responses, problem_of, inverse = record.distinct_states()
        definite = problems.definite(responses, problem_of)
        masked = (responses == problems.mask_id).sum(1)
        for first, last in micro_batches(masked, problems.length, max_tokens, max_masked):
            chunk = responses[first:last]
            members = ((inverse >= first) & (inverse < last)).nonzero().squeeze(1)
            of = problem_of[first:last]
            scores = score_states(model, *problems.prompts_of(of), chunk, problems.mask_id, policy)
            record.add_states(scores, chunk, of, definite[first:last], lam)
            states = inverse[members] - first
            drawn = uniforms[record.alive[members], record.step]
            positions, tokens = _choose(scores, definite[first:last], states, strategy, policy, drawn)
            logprobs = action_logprobs(scores, states, positions, tokens, policy)
            record.add_decisions(members, inverse[members], positions, tokens, logprobs)
        record.advance(definite[inverse], lam)
    return record.result()


def _uniforms(strategy: Strategy, table: Tensor, generator: torch.Generator | None, noise: Tensor | None) -> Tensor:
    """The uniforms `(T, K, 2)` of a roll-out with decisions `(T, K)`, on the device of that table."""
    shape = (*table.shape, 2)
    if noise is None and (strategy.sample_position or strategy.sample_token):
        source = table.device if generator is None else generator.device
        noise = torch.rand(shape, dtype=torch.float64, generator=generator, device=source)
    elif noise is None:
        return table.new_zeros(shape)
    elif generator is not None:
        raise ValueError("a roll-out takes a generator or noise, not both; leave one of them out")
    elif noise.shape != shape or noise.dtype != torch.float64:
        raise ValueError(f"noise is {noise.dtype} {tuple(noise.shape)}; give float64 {shape}, see puzzle_noise")
    return noise.to(table.device)


def _first_alike(problems: UnmaskBatch) -> Tensor:
    """int64 `(Q,)`: for each problem the first that is the same in everything that a batch holds."""
    columns = [getattr(problems, name) for name in problems.per_problem]
    rows = torch.cat([column.double().reshape(len(problems), -1) for column in columns if column is not None], dim=1)
    distinct, kind = rows.unique(dim=0, return_inverse=True)
    numbers = torch.arange(len(problems), device=kind.device)
    return numbers.new_full((len(distinct),), len(problems)).scatter_reduce(0, kind, numbers, "amin")[kind]


def _choose(
    scores: StateScores,
    definite: Tensor,
    states: Tensor,
    strategy: Strategy,
    policy: PolicyConfig,
    uniforms: Tensor,
) -> tuple[Tensor, Tensor]:
    """Positions and tokens, each int64 `(A,)`, for A trajectories at the given states with uniforms `(A, 2)`."""
    score = strategy.score(scores, definite)[states]
    positions = inverse_cdf(score, uniforms[:, 0]) if strategy.sample_position else score.argmax(dim=1)
    rows = scores.row_of[states, positions]
    if bool((rows < 0).any()):
        raise ValueError(f"strategy {strategy.name!r} must give every state a finite score at a masked position")
    logits = scores.logits[rows]
    if strategy.sample_token:
        return positions, inverse_cdf(logits / policy.token_temperature, uniforms[:, 1])
    return positions, logits.argmax(dim=1)


class _Record:
    """A roll-out while it runs: the live trajectories, and what has been seen so far."""

    def __init__(self, problems: UnmaskBatch, num_generations: int, policy: PolicyConfig) -> None:
        device = problems.responses.device
        masked = (problems.responses == problems.mask_id).sum(1)
        self.problems, self.num_generations, self.policy = problems, num_generations, policy
        self.decisions = masked.repeat_interleave(num_generations)  # (T,)
        self.problem_of_trajectory = torch.arange(len(problems), device=device).repeat_interleave(num_generations)
        self.first_alike = _first_alike(problems)  # (Q,)
        self.current = problems.responses.repeat_interleave(num_generations, dim=0)  # (T, R)
        self.alive = torch.arange(len(self.current), device=device)
        self.errors = torch.zeros(len(self.current), dtype=torch.bool, device=device)
        table = (len(self.current), int(masked.max()))
        self.state_of = torch.full(table, -1, device=device)
        self.positions = torch.full(table, -1, device=device)
        self.tokens = torch.full(table, -1, device=device)
        self.old_logprobs = torch.zeros(table, device=device)
        self.rewards = torch.zeros(table, device=device)
        self.step, self.seen = 0, 0
        self.columns: dict[str, list[Tensor]] = {}

    def distinct_states(self) -> tuple[Tensor, Tensor, Tensor]:
        """Distinct live states `(N, R)`, the problem of each `(N,)`, and the state `(A,)` of each live trajectory."""
        problem = self.first_alike[self.problem_of_trajectory[self.alive]]
        rows = torch.cat([problem[:, None], self.current[self.alive]], dim=1)
        distinct, inverse = rows.unique(dim=0, return_inverse=True)
        return distinct[:, 1:], distinct[:, 0], inverse

    def add_states(
        self,
        scores: StateScores,
        responses: Tensor,
        problem_of: Tensor,
        definite: Tensor,
        lam: float,
    ) -> None:
        seen = {
            "responses": responses,
            "problem_of": problem_of,
            "definite": definite,
            "expected_reward": expected_reward(
                scores,
                definite=definite,
                tail=self.problems.open_tail(responses, problem_of),
                scored=self.problems.scored[problem_of],
                answers=self.problems.answers[problem_of],
                policy=self.policy,
                lam=lam,
            ),
            "entropy": entropy_from_logits(scores.position_logprobs),
            "top_prob": scores.position_logprobs.amax(1).exp(),
            "greedy": scores.margins.argmax(1),
        }
        for name, column in seen.items():
            self.columns.setdefault(name, []).append(column)

    def add_decisions(
        self, members: Tensor, states: Tensor, positions: Tensor, tokens: Tensor, logprobs: Tensor
    ) -> None:
        rows = self.alive[members]
        self.state_of[rows, self.step] = self.seen + states
        self.positions[rows, self.step] = positions
        self.tokens[rows, self.step] = tokens
        self.old_logprobs[rows, self.step] = logprobs

    def advance(self, definite: Tensor, lam: float) -> None:
        """Apply the decisions of this step; `definite` is bool `(A, R)`, of the live trajectories."""
        problems, alive = self.problems, self.alive
        of = self.problem_of_trajectory[alive]  # (A,)
        positions, tokens = self.positions[alive, self.step], self.tokens[alive, self.step]  # (A,) each
        rows = torch.arange(len(alive), device=alive.device)
        judged, right = problems.judged[of, positions], problems.answers[of, positions] == tokens
        self.current[alive, positions] = tokens
        self.rewards[alive, self.step] = unmask_rewards(
            judged, definite[rows, positions], problems.scored[of, positions], right, lam
        )
        errors = judged & ~right
        self.errors[alive] = errors
        self.seen = int(self.state_of[alive, self.step].max()) + 1
        self.step += 1
        self.alive = alive[~errors & (self.step < self.decisions[alive])]

    def result(self) -> Rollout:
        columns = {name: torch.cat(self.columns.pop(name)) for name in list(self.columns)}  # no two copies of all
        return Rollout(
            problems=self.problems,
            num_generations=self.num_generations,
            state_of=self.state_of,
            positions=self.positions,
            tokens=self.tokens,
            old_logprobs=self.old_logprobs,
            rewards=self.rewards,
            decisions=self.decisions,
            errors=self.errors,
            policy=self.policy,
            **columns,
        )
