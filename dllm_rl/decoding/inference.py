"""Decoding for inference: complete answers, one or several positions from one forward pass, some of them taken back."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dllm_rl.batch_check import check_batch
from dllm_rl.decoding.loop import Step, decoding_steps
from dllm_rl.decoding.settings import Decoding
from dllm_rl.decoding.trajectories import Trajectories, sums_at
from dllm_rl.task import UnmaskBatch
from llm_rl.training.modes import evaluation_mode


@dataclass(frozen=True, eq=False)
class Decode:
    """One decode of each of Q problems, in at most K steps of one forward pass each.

    A step number is that of the last step that wrote a position, where tokens were taken back.

    Attributes:
        problems: The Q problems.
        responses: int64 `(Q, R)`, the answers; masked is only what an error or a dead end has left so.
        step_of: int64 `(Q, R)`, the step that filled each position, -1 where none did.
        definite: bool `(Q, R)`, whether the position was definite when it was filled.
        greedy: int64 `(Q, K)`, the masked position of the largest margin before each step, -1 after the last.
        greedy_definite: bool `(Q, K)`, whether that position was definite.
        forward_passes: int64 `(Q,)`, steps until the decode ended.
        taken_back: int64 `(Q,)`, how often a token was masked again or replaced.
        checks: int64 `(Q, K)`, how often each step asked the guard, 0 after the last.
        rejected: int64 `(Q, K)`, positions that each step chose and the guard left masked, 0 after the last.
        dead_end: bool `(Q,)`, whether the guard refused every token at the surest position, which ends a decode.
    """

    problems: UnmaskBatch
    responses: Tensor
    step_of: Tensor
    definite: Tensor
    greedy: Tensor
    greedy_definite: Tensor
    forward_passes: Tensor
    taken_back: Tensor
    checks: Tensor
    rejected: Tensor
    dead_end: Tensor

    @property
    def judged(self) -> Tensor:
        """bool `(Q, R)`, the judged positions that were open at the start."""
        return self.problems.judged & (self.problems.responses == self.problems.mask_id)

    @property
    def right(self) -> Tensor:
        """bool `(Q, R)`, those of them that hold the answer's token."""
        return self.judged & (self.responses == self.problems.answers)

    @property
    def error_step(self) -> Tensor:
        """int64 `(Q,)`, the step that wrote the first wrong token at a judged position; all where there is none."""
        wrong = self.judged & (self.step_of >= 0) & ~self.right
        return torch.where(wrong, self.step_of, self.forward_passes[:, None]).amin(1)

    @property
    def live_choices(self) -> Tensor:
        """bool `(Q, R)`, the judged positions filled in steps up to and with the one of the first error."""
        return self.judged & (self.step_of >= 0) & (self.step_of <= self.error_step[:, None])

    @property
    def live_greedy(self) -> Tensor:
        """bool `(Q, K)`, the states up to and with the one of the first error whose greedy position is judged."""
        steps = torch.arange(self.greedy.shape[1], device=self.greedy.device)
        judged = self.problems.judged.gather(1, self.greedy.clamp_min(0))
        return judged & (self.greedy >= 0) & (steps <= self.error_step[:, None])

    def states_of(self, row: int) -> Tensor:
        """The states of one decode, int64 `(steps + 1, R)`, the problem first.

        Raises:
            ValueError: It took tokens back, and states are not kept.
        """
        if self.taken_back[row]:
            raise ValueError(f"decode {row} took {int(self.taken_back[row])} tokens back; its states are not kept")
        steps = torch.arange(int(self.forward_passes[row]) + 1, device=self.step_of.device)
        return torch.where(self.step_of[row] < steps[:, None], self.responses[row], self.problems.mask_id)


@torch.no_grad()
def decode(
    model: nn.Module,
    problems: UnmaskBatch,
    how: Decoding,
    *,
    generator: torch.Generator | None = None,
    max_tokens: int | None = None,
    max_masked: int | None = None,
) -> Decode:
    """Fill the masked positions to the end, or until errors or a dead end of a guard end the decode.

    Wrong digits stay on the board, and unless errors end it decoding goes on. With `take_back` each pass also looks at
    the tokens that earlier ones have written; passes that fill nothing count too.

    Args:
        model: A model as `score_states` takes it (`dllm_rl.models.adapter.as_policy_model` makes one); it is put in
            evaluation mode for the call.
        problems: The Q problems to decode, on any device; they go where the model is.
        how: How to decode, e.g. `Decoding("margin", tokens_per_step=4)`.
        generator: Source of randomness; None is torch's global one.
        max_tokens: Largest number of tokens in one forward pass; None: 65,536, or the 8,192 that a processor's caches
            hold.
        max_masked: Largest number of positions in one forward pass at which the model is asked, i.e. rows of
            full-vocabulary logits; None is no bound but `max_tokens`. With a large vocabulary it is this that bounds
            memory.

    Raises:
        ValueError: `max_tokens` or `max_masked` is too small; errors are to be corrected; the strategy leaves a state
            without a position or chooses one that is not masked; the problems lack the check that the guard names, or
            are not what `UnmaskBatch` says (`check_batch`); the model's device has no float64.
        TypeError: The guard returns something else than bool `(N,)`.
    """
    if how.on_error == "correct":
        raise ValueError("on_error='correct' is for roll-outs; a decode knows no answer, use 'end' or 'continue'")
    check_batch(problems, model=model)
    problems = problems.beside(model)
    trajectories = Trajectories(problems)
    most = trajectories.most_positions
    if how.take_back is not None:
        most = max(how.take_back.max_passes, most)
    if max_tokens is None:
        max_tokens = 8192 if problems.responses.device.type == "cpu" else 65536
    steps = decoding_steps(model, trajectories, how, generator=generator, max_tokens=max_tokens, max_masked=max_masked)
    with evaluation_mode(model):
        return _record(trajectories, steps, most)


def _record(trajectories: Trajectories, steps: Iterable[Step], most: int) -> Decode:
    problems = trajectories.problems
    step_of = torch.full_like(problems.responses, -1)
    definite = torch.zeros_like(problems.judged)
    greedy = step_of.new_full((len(problems), most), -1)
    greedy_definite = torch.zeros_like(greedy, dtype=torch.bool)
    checks, rejected = torch.zeros_like(greedy), torch.zeros_like(greedy)
    forward_passes, taken_back = torch.zeros_like(trajectories.to_fill), torch.zeros_like(trajectories.to_fill)
    for step in steps:
        # The surest position, where one was masked.
        states = step.states
        open_, largest = (step.responses == problems.mask_id).any(1)[states], step.scores.margins.argmax(1)[states]
        greedy[step.trajectories, step.number] = largest.masked_fill(~open_, -1)
        greedy_definite[step.trajectories, step.number] = step.definite[states, largest]
        checks[step.trajectories, step.number] = step.checks
        rejected[step.trajectories, step.number] = step.rejected

        # What was filled, and what was taken back.
        filled = (step.trajectories[step.rows], step.positions)
        step_of[filled] = step_of[step.replaced] = step.number
        step_of[step.remasked] = -1
        definite[filled] = step.definite[states[step.rows], step.positions]
        definite[step.replaced] = definite[step.remasked] = False
        forward_passes[step.trajectories] = step.number + 1
        for problem, _ in (step.replaced, step.remasked):
            taken_back += sums_at(problem, torch.ones_like(problem), len(problems))
    steps_taken = int(forward_passes.max())
    return Decode(
        problems=problems,
        responses=trajectories.responses,
        step_of=step_of,
        definite=definite,
        greedy=greedy[:, :steps_taken].clone(),
        greedy_definite=greedy_definite[:, :steps_taken].clone(),
        forward_passes=forward_passes,
        taken_back=taken_back,
        checks=checks[:, :steps_taken].clone(),
        rejected=rejected[:, :steps_taken].clone(),
        dead_end=trajectories.stuck,
    )
