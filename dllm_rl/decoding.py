"""Decoding for inference: complete answers, one or several positions from one forward pass, some of them taken back."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dllm_rl.batch_check import check_batch
from dllm_rl.policy import PolicyConfig
from dllm_rl.strategies import Strategy
from dllm_rl.taking_back import Pass, TakeBack, taking_back_passes
from dllm_rl.task import UnmaskBatch
from dllm_rl.trajectories import OnError, Step, Trajectories, decoding_steps, draw_uniforms
from llm_rl.training.modes import in_evaluation_mode


@dataclass(frozen=True, eq=False)
class Decode:
    """One decode of each of N problems, in at most K steps of one forward pass each.

    A step number is that of the last step that wrote a position, where tokens were taken back.

    Attributes:
        problems: The N problems.
        responses: int64 `(N, R)`, the answers; masked is only what was left when an error ended the decode.
        step_of: int64 `(N, R)`, the step that filled each position, -1 where none did.
        definite: bool `(N, R)`, whether the position was definite when it was filled.
        greedy: int64 `(N, K)`, the masked position of the largest margin before each step, -1 after the last.
        greedy_definite: bool `(N, K)`, whether that position was definite.
        forward_passes: int64 `(N,)`, steps until the decode ended.
        taken_back: int64 `(N,)`, how often a token was masked again or replaced.
    """

    problems: UnmaskBatch
    responses: Tensor
    step_of: Tensor
    definite: Tensor
    greedy: Tensor
    greedy_definite: Tensor
    forward_passes: Tensor
    taken_back: Tensor

    @property
    def judged(self) -> Tensor:
        """bool `(N, R)`, the judged positions that were open at the start."""
        return self.problems.judged & (self.problems.responses == self.problems.mask_id)

    @property
    def right(self) -> Tensor:
        """bool `(N, R)`, those of them that hold the answer's token."""
        return self.judged & (self.responses == self.problems.answers)

    @property
    def error_step(self) -> Tensor:
        """int64 `(N,)`, the step that wrote the first wrong token at a judged position; all where there is none."""
        wrong = self.judged & (self.step_of >= 0) & ~self.right
        return torch.where(wrong, self.step_of, self.forward_passes[:, None]).amin(1)

    @property
    def live_choices(self) -> Tensor:
        """bool `(N, R)`, the judged positions filled in steps up to and with the one of the first error."""
        return self.judged & (self.step_of >= 0) & (self.step_of <= self.error_step[:, None])

    @property
    def live_greedy(self) -> Tensor:
        """bool `(N, K)`, the states up to and with the one of the first error whose greedy position is judged."""
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
@in_evaluation_mode
def decode(
    model: nn.Module,
    problems: UnmaskBatch,
    strategy: Strategy,
    *,
    tokens_per_step: int | None = 1,
    threshold: float | None = None,
    entropy_bound: float | None = None,
    take_back: TakeBack | None = None,
    on_error: OnError = "continue",
    policy: PolicyConfig | None = None,
    generator: torch.Generator | None = None,
    max_tokens: int = 65536,
) -> Decode:
    """Fill the masked positions, at each step the strategy's best ones: a number, or as many as the model is sure of.

    The positions of a step and their tokens are chosen from one forward pass, so none of them sees the others. Equal
    scores go to the left one. A strategy that samples draws positions without replacement, in proportion to exp(score)
    of those left. A step takes fewer positions where fewer are masked, i.e. the last one, and where the strategy allows
    fewer: no step leaves its semi-autoregressive block, and as long as a cell is definite, `definite_first` fills such
    cells only. Wrong digits stay on the board, and unless errors end it decoding goes on.

    With a threshold a step fills the positions that score at least so much, the best one in any case and at most
    `tokens_per_step` of them (confidence-aware parallel decoding, Fast-dLLM, arXiv:2505.22618). It is on the scale of
    the strategy's own score: log p₁ for "probability" and "semi_autoregressive", so log 0.9 for a confidence of 0.9;
    the log-ratio of p₁ and p₂ for "margin" and "definite_first"; p₁ − p₂ for "margin_difference"; minus nats for
    "entropy".

    With an entropy bound γ a step fills the best positions as long as the sum of their entropies, the largest left out,
    is at most γ nats (the EB-sampler, arXiv:2505.24857); the strategy gives their order, and `tokens_per_step` may
    limit their number. Entropies are those of the model's own distributions, at temperature 1.

    With `take_back` each pass also looks at the tokens that earlier ones have written, and masks some of them again or
    replaces them (`dllm_rl.taking_back`); passes that fill nothing count too.

    Args:
        model: A model as `score_states` takes it (`dllm_rl.models.adapter.as_policy_model` makes one); it is put in
            evaluation mode for the call.
        problems: The N problems to decode.
        strategy: How positions and tokens are chosen.
        tokens_per_step: Most positions to fill at each step; None is no bound.
        threshold: Least score of the positions filled beside the best one; None is no threshold.
        entropy_bound: γ; None is no bound.
        take_back: Which tokens are masked again or replaced, and for how many passes; None is none.
        on_error: "continue" to the end, or "end" after the step that wrote a wrong token at a judged position. To
            "correct" it is for roll-outs: a decode does not know the answer.
        policy: Temperatures, for the strategies that draw.
        generator: Source of randomness; None is torch's global one.
        max_tokens: Largest number of tokens in one forward pass.

    Raises:
        ValueError: `tokens_per_step`, `entropy_bound` or `max_tokens` is too small; a threshold or an entropy bound
            comes with the other one, with a strategy that draws positions or with one token a step; errors are to be
            corrected; tokens are to be taken back although errors end a decode or the strategy draws; the strategy
            leaves a state without a position or chooses one that is not masked; or the problems are not what
            `UnmaskBatch` says (`check_batch`).
    """
    if on_error == "correct":
        raise ValueError("on_error='correct' is for roll-outs; a decode knows no answer, use 'end' or 'continue'")
    if take_back is not None and on_error == "end":
        raise ValueError("on_error='end' leaves no error to take back; use on_error='continue' with take_back")
    check_batch(problems, model=model)
    trajectories, policy = Trajectories(problems), policy or PolicyConfig()
    passes: Iterator[Pass]
    if take_back is None:
        most = trajectories.most_positions
        steps = decoding_steps(
            model,
            trajectories,
            strategy,
            policy=policy,
            uniforms=draw_uniforms(strategy, trajectories, generator),
            tokens_per_step=tokens_per_step,
            threshold=threshold,
            entropy_bound=entropy_bound,
            on_error=on_error,
            max_tokens=max_tokens,
        )
        passes = map(_as_pass, steps)
    else:
        most = max(take_back.max_passes, trajectories.most_positions)
        passes = taking_back_passes(
            model,
            problems,
            trajectories.responses,
            strategy,
            take_back,
            policy=policy,
            tokens_per_step=tokens_per_step,
            threshold=threshold,
            entropy_bound=entropy_bound,
            generator=generator,
            max_tokens=max_tokens,
        )
    return _record(trajectories, passes, most)


def _as_pass(step: Step) -> Pass:
    """What a step without taking back did."""
    largest = step.scores.margins.argmax(1)[step.states]  # (A,)
    none = step.trajectories[:0]
    return Pass(
        step.number,
        step.trajectories,
        largest,
        step.definite[step.states, largest],
        (step.trajectories[step.rows], step.positions),
        step.definite[step.states[step.rows], step.positions],
        (none, none),
        (none, none),
    )


def _record(trajectories: Trajectories, passes: Iterable[Pass], most: int) -> Decode:
    """Take the passes, `most` at most, of decodes that write into the responses of trajectories, one a problem."""
    problems = trajectories.problems
    step_of = torch.full_like(problems.responses, -1)
    definite = torch.zeros_like(problems.judged)
    greedy = step_of.new_full((len(problems), most), -1)
    greedy_definite = torch.zeros_like(greedy, dtype=torch.bool)
    forward_passes, taken_back = torch.zeros_like(trajectories.to_fill), torch.zeros_like(trajectories.to_fill)
    for done in passes:
        greedy[done.decodes, done.number] = done.greedy
        greedy_definite[done.decodes, done.number] = done.greedy_definite
        step_of[done.filled] = step_of[done.replaced] = done.number
        step_of[done.remasked] = -1
        definite[done.filled] = done.definite
        definite[done.replaced] = definite[done.remasked] = False
        forward_passes[done.decodes] = done.number + 1
        for problem, _ in (done.replaced, done.remasked):
            taken_back += problem.bincount(minlength=len(problems))
    steps = int(forward_passes.max())
    return Decode(
        problems=problems,
        responses=trajectories.responses,
        step_of=step_of,
        definite=definite,
        greedy=greedy[:, :steps].clone(),
        greedy_definite=greedy_definite[:, :steps].clone(),
        forward_passes=forward_passes,
        taken_back=taken_back,
    )
