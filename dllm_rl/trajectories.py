"""Trajectories: decodes in progress, and the loop that roll-outs and evaluation share.

A state depends on which positions hold which tokens, not on the order in which they were filled, and all trajectories
of a problem start in the same state; so at each step the live trajectories are mapped to their distinct states first,
and each of those is forwarded once; problems that occur twice in a batch share theirs.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from dllm_rl.policy import PolicyConfig, StateScores, score_states
from dllm_rl.strategies import Strategy, check_limits, choose
from dllm_rl.task import UnmaskBatch

OnError = Literal["end", "continue", "correct"]


class Step(NamedTuple):
    """What A trajectories did in one step, decided in one forward pass over the N distinct states that they were in.

    Attributes:
        number: The number of the step, from 0.
        responses: int64 `(N, R)`, the states.
        of: int64 `(N,)`, the problem of each: one of those with its prompt, response and answer.
        definite: bool `(N, R)`, the open judged positions whose token follows from the state (S1).
        scores: The policy at the states.
        trajectories: int64 `(A,)`, the trajectories.
        states: int64 `(A,)`, the state of each.
        rows: int64 `(B,)`, the place among the A of the trajectory that made each choice.
        ranks: int64 `(B,)`, its number among the choices of that trajectory in this step, from 0.
        positions: int64 `(B,)`, the position filled.
        tokens: int64 `(B,)`, the token chosen.
        wrong: bool `(B,)`, whether it is a wrong one at a judged position.
    """

    number: int
    responses: Tensor
    of: Tensor
    definite: Tensor
    scores: StateScores
    trajectories: Tensor
    states: Tensor
    rows: Tensor
    ranks: Tensor
    positions: Tensor
    tokens: Tensor
    wrong: Tensor


class Trajectories:
    """T = Q·G decodes in progress; trajectory t belongs to problem t // G.

    Args:
        problems: The Q problems.
        num_generations: G.

    Attributes:
        problem_of: int64 `(T,)`, the problem of each.
        to_fill: int64 `(T,)`, positions to fill in all.
        responses: int64 `(T, R)`, what is written now.
        filled: int64 `(T,)`, positions filled so far.
        errors: bool `(T,)`, whether a wrong token was written at a judged position.
        alive: int64 `(A,)`, the trajectories that go on.
    """

    def __init__(self, problems: UnmaskBatch, num_generations: int = 1) -> None:
        if num_generations < 1:
            raise ValueError(f"num_generations={num_generations} must be at least 1")
        start, device = problems.responses, problems.responses.device
        self.problems = problems
        self.problem_of = torch.arange(len(problems), device=device).repeat_interleave(num_generations)
        self.to_fill = (start == problems.mask_id).sum(1)[self.problem_of]
        self.responses = start[self.problem_of]
        self.filled = torch.zeros_like(self.to_fill)
        self.errors = torch.zeros_like(self.to_fill, dtype=torch.bool)
        self.alive = self.to_fill.nonzero().squeeze(1)
        self._first_alike = _first_alike(problems)  # (Q,)

    @property
    def most_positions(self) -> int:
        """How many positions the longest trajectory fills."""
        return int(self.to_fill.max())

    def distinct_states(self) -> tuple[Tensor, Tensor, Tensor]:
        """Distinct live states `(N, R)`, the problem of each `(N,)`, and the state `(A,)` of each live trajectory."""
        problem = self._first_alike[self.problem_of[self.alive]]
        rows = torch.cat([problem[:, None], self.responses[self.alive]], dim=1)
        distinct, inverse = rows.unique(dim=0, return_inverse=True)
        return distinct[:, 1:], distinct[:, 0], inverse

    def wrong(self, trajectories: Tensor, positions: Tensor, tokens: Tensor) -> Tensor:
        """bool `(B,)`: whether tokens are wrong ones at judged positions; the arguments are int64 `(B,)`."""
        of = self.problem_of[trajectories]
        return self.problems.judged[of, positions] & (self.problems.answers[of, positions] != tokens)

    def write(self, trajectories: Tensor, positions: Tensor, tokens: Tensor, wrong: Tensor, on_error: OnError) -> None:
        """Fill positions; takes what `wrong` took and gave, and a trajectory may come several times."""
        if on_error == "correct":
            tokens = torch.where(wrong, self.problems.answers[self.problem_of[trajectories], positions], tokens)
        self.responses[trajectories, positions] = tokens
        self.errors[trajectories[wrong]] = True
        self.filled += trajectories.bincount(minlength=len(self.filled))

    def go_on(self, on_error: OnError) -> None:
        """Leave out the trajectories that are complete and, if errors end them, those with an error."""
        ended = self.filled >= self.to_fill
        if on_error == "end":
            ended |= self.errors
        self.alive = self.alive[~ended[self.alive]]


def decoding_steps(
    model: nn.Module,
    trajectories: Trajectories,
    strategy: Strategy,
    *,
    policy: PolicyConfig,
    uniforms: Tensor | None,
    tokens_per_step: int | None = 1,
    threshold: float | None = None,
    entropy_bound: float | None = None,
    on_error: OnError = "end",
    max_tokens: int = 65536,
    max_masked: int | None = None,
) -> Iterator[Step]:
    """Take trajectories to their ends, one `Step` for each forward pass; `trajectories` are changed on the way.

    Args:
        model: A model as `score_states` takes it.
        trajectories: Where they are.
        strategy: How positions and tokens are chosen.
        policy: Temperatures.
        uniforms: float64 `(T, M, 2)` in [0, 1), for the position and the token of the first, second … position that a
            trajectory fills, M at most; None for a strategy that does not draw.
        tokens_per_step: Most positions of a trajectory in one step; None is no bound.
        threshold: Least score of the positions filled beside the best one; None is none.
        entropy_bound: Bound γ on the entropy of the positions of a step (`within_entropy_bound`); None is none.
        on_error: What a wrong token at a judged position does: "end" the trajectory after the step that wrote it,
            "continue" with it on the board, or "correct" it, the answer's token being written in its place.
        max_tokens: Largest number of tokens in one forward pass.
        max_masked: Largest number of masked positions in one forward pass (`micro_batches`).

    Raises:
        ValueError: An option is out of range, the limits of a step do not fit each other or the strategy
            (`check_limits`), or the strategy leaves a state without a position or chooses one that is not masked.
    """
    check_limits(
        strategy,
        tokens_per_step=tokens_per_step,
        threshold=threshold,
        entropy_bound=entropy_bound,
    )
    if on_error not in get_args(OnError):
        raise ValueError(f"on_error={on_error!r} is unknown; use one of {get_args(OnError)}")
    problems, number = trajectories.problems, 0
    while len(trajectories.alive):
        # The distinct states of the live trajectories, and what follows in each.
        alive = trajectories.alive
        responses, of, state_of = trajectories.distinct_states()  # (N, R), (N,), (A,)
        definite = problems.definite(responses, of)  # (N, R)
        masked = (responses == problems.mask_id).sum(1)  # (N,)

        # A pass over as many states as fit, and the choices of the trajectories that are in them.
        for first, last in micro_batches(masked, problems.length, max_tokens, max_masked):
            members = ((state_of >= first) & (state_of < last)).nonzero().squeeze(1)
            some, states = alive[members], state_of[members] - first
            part = (responses[first:last], of[first:last], definite[first:last])
            scores = score_states(model, *problems.prompts_of(part[1]), part[0], problems.mask_id, policy)
            rows, ranks, positions, tokens = choose(
                strategy,
                scores,
                part[2],
                states,
                policy=policy,
                uniforms=None if uniforms is None else _next_uniforms(uniforms, trajectories, some, tokens_per_step),
                tokens_per_step=tokens_per_step,
                threshold=threshold,
                entropy_bound=entropy_bound,
            )
            choices = (some[rows], positions, tokens)
            wrong = trajectories.wrong(*choices)
            yield Step(number, *part, scores, some, states, rows, ranks, positions, tokens, wrong)
            trajectories.write(*choices, wrong, on_error)
        trajectories.go_on(on_error)
        number += 1


def draw_uniforms(
    strategy: Strategy, trajectories: Trajectories, generator: torch.Generator | None = None
) -> Tensor | None:
    """Uniforms for `decoding_steps`, float64 `(T, M, 2)`; None, without drawing, where the strategy needs none."""
    if not (strategy.sample_position or strategy.sample_token):
        return None
    device = trajectories.responses.device
    shape = (len(trajectories.responses), trajectories.most_positions, 2)
    source = device if generator is None else generator.device
    return torch.rand(shape, dtype=torch.float64, generator=generator, device=source).to(device)


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


def _next_uniforms(uniforms: Tensor, trajectories: Trajectories, some: Tensor, tokens_per_step: int | None) -> Tensor:
    """The uniforms `(A, C, 2)` of the next choices of some trajectories `(A,)`, from those of all choices."""
    most = uniforms.shape[1]
    ahead = torch.arange(min(tokens_per_step or most, most), device=some.device)
    places = trajectories.filled[some, None] + ahead  # (A, C)
    return uniforms[some[:, None], places.clamp_max(most - 1)]


def _first_alike(problems: UnmaskBatch) -> Tensor:
    """int64 `(Q,)`: for each problem the first that is the same in everything that a batch holds."""
    columns = [getattr(problems, name) for name in problems.per_problem]
    rows = torch.cat([column.double().reshape(len(problems), -1) for column in columns if column is not None], dim=1)
    distinct, kind = rows.unique(dim=0, return_inverse=True)
    numbers = torch.arange(len(problems), device=kind.device)
    return numbers.new_full((len(distinct),), len(problems)).scatter_reduce(0, kind, numbers, "amin")[kind]
