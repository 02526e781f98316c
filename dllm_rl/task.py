"""What a problem tells the trainer of a diffusion model: its answer, what is judged, and what follows now."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Literal, Protocol, Self

import torch
from torch import Tensor, nn

from llm_rl.training.unsupported import refuse_without_float64

Learned = Literal["masked", "definite"]
"""Which open positions a cross-entropy counts, see `UnmaskBatch.learned`."""


@dataclass(frozen=True, eq=False, kw_only=True)
class UnmaskBatch(ABC):
    """Q problems whose answers are partly written, as tensors; prompts may differ in length.

    A decision writes one token at a masked position. A wrong token at a judged position ends the trajectory and earns
    nothing; the answer's token at a judged position earns 1 where it is definite, i.e. follows from what stands there,
    and 0 elsewhere. Any token at a position that is not judged earns λ, or where it is scored the answer's token alone.

    Attributes:
        prompt_ids: int64 `(Q, P)`, padded on the left.
        prompt_mask: bool `(Q, P)`, false at padding, or None where all prompts are equally long.
        responses: int64 `(Q, R)`, what is written at the start, `mask_id` at open positions.
        answers: int64 `(Q, R)`, y*, the right token at each position, of one right answer where there are `several`;
            `mask_id` where none is known.
        judged: bool `(Q, R)`, where a wrong token ends the trajectory; y* is known there, unless there are `several`.
        scored: bool `(Q, R)`, where a token that is not judged earns λ for y* alone; y* is known there.
        mask_id: The mask token.
    """

    prompt_ids: Tensor
    prompt_mask: Tensor | None
    responses: Tensor
    answers: Tensor
    judged: Tensor
    scored: Tensor
    mask_id: int

    per_problem: ClassVar[tuple[str, ...]] = ("prompt_ids", "prompt_mask", "responses", "answers", "judged", "scored")
    """The fields with a row for each problem; a subclass with more of them, all tensors, adds their names."""

    @abstractmethod
    def definite(self, responses: Tensor, of: Tensor) -> Tensor:
        """S1, the open judged positions whose token follows from what is written.

        Args:
            responses: int64 `(N, R)`, states.
            of: int64 `(N,)`, the problem of each.

        Returns:
            bool `(N, R)`, on the device of the responses.
        """

    @property
    def several(self) -> bool:
        """Whether a problem may have several right answers; wrong is then what leaves none (`completable`)."""
        return False

    def completable(self, responses: Tensor, of: Tensor) -> Tensor:
        """Whether states can still be completed to a right answer.

        Where problems have one answer each, these are the states whose judged positions hold none but its tokens.

        Args:
            responses: int64 `(N, R)`, states.
            of: int64 `(N,)`, the problem of each.

        Returns:
            bool `(N,)`, on the device of the responses.
        """
        written = responses != self.mask_id
        return ~(self.judged[of] & written & (responses != self.answers[of])).any(1)

    def answers_to(self, responses: Tensor, of: Tensor) -> Tensor:
        """y* in states: a right answer that agrees with each as far as one does; arguments are those of `completable`.

        Returns:
            int64 `(N, R)`, `mask_id` where no token is known. Where problems have several right answers it must be
            known at definite positions, as all answers that are left agree there.
        """
        return self.answers[of]

    def contradictions(self, responses: Tensor, of: Tensor) -> Tensor:
        """The open positions whose tokens contradict others or the problem, as its rules tell without the answer.

        Arguments are those of `completable`, the responses complete; returns bool `(N, R)` on their device.

        Raises:
            ValueError: This kind of problem has no such rules.
        """
        raise ValueError(
            f"{type(self).__name__} does not say which answers contradict themselves; define contradictions(responses, "
            "of), or leave restart_share out"
        )

    def allowed(self, responses: Tensor, of: Tensor) -> Tensor:
        """Whether states break no rule so far, which `Decoding(guard="rules")` asks: bool `(N,)`.

        A cheap check that need not see what can still be completed, but holds with less written wherever it holds with
        more. Arguments are those of `completable`.

        Raises:
            ValueError: This kind of problem has no such rules.
        """
        raise ValueError(
            f"{type(self).__name__} does not say which states its rules allow; define allowed(responses, of), or leave "
            "guard='rules' out"
        )

    def __len__(self) -> int:
        return len(self.responses)

    @property
    def length(self) -> int:
        """Tokens of a sequence, prompt and response."""
        return self.prompt_ids.shape[1] + self.responses.shape[1]

    @property
    def known(self) -> Tensor:
        """bool `(Q, R)`, where y* is known."""
        return self.answers != self.mask_id

    def open_tail(self, responses: Tensor, of: Tensor) -> Tensor:
        """S2, bool `(N, R)`: the open positions that are not judged, of states `(N, R)` of the problems `(N,)`."""
        return (responses == self.mask_id) & ~self.judged[of]

    def learned(self, open_: Tensor, of: Tensor, definite: Tensor, on: Learned) -> Tensor:
        """bool `(N, R)`: the open positions of N states whose answer a cross-entropy counts.

        Args:
            open_: bool `(N, R)`, the open positions.
            of: int64 `(N,)`, the problem of each state.
            definite: bool `(N, R)`, S1; not looked at for "masked".
            on: "masked": all positions whose answer is known. "definite": of the judged ones those alone whose token
                follows from the state; a token that does not can be learned only by heart.
        """
        counted = open_ & self.known[of]
        return counted if on == "masked" else counted & (definite | ~self.judged[of])

    def prompts_of(self, of: Tensor) -> tuple[Tensor, Tensor | None]:
        """Prompt ids `(N, P)` and their mask `(N, P)` (None without padding) of problems by number, int64 `(N,)`."""
        return self.prompt_ids[of], None if self.prompt_mask is None else self.prompt_mask[of]

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Self:
        """This batch with its tensors on a device."""
        return self._each(lambda column: column.to(device, non_blocking=non_blocking))

    def beside(self, model: nn.Module) -> Self:
        """This batch where a model's weights are, wherever it is itself.

        Raises:
            ValueError: That device has no float64.
        """
        place = next(model.parameters(), self.responses).device
        refuse_without_float64(place)
        return self if self.responses.device == place else self.to(place)

    def select(self, problems: Tensor) -> Self:
        """The Q problems of the given numbers, int64 `(Q,)`, padded as here."""
        return self._each(lambda column: column[problems])

    def _each(self, change: Any) -> Self:
        columns = {name: getattr(self, name) for name in self.per_problem}
        changed = {name: None if value is None else change(value) for name, value in columns.items()}
        return type(self)(**{**vars(self), **changed})


class UnmaskTask(Protocol):
    """A kind of problem, as `UnmaskTrainer`, `evaluate` and `decode` take it.

    Attributes:
        record_classes: The data classes that its batches consist of, for checkpoints
            (`llm_rl.training.storage.save_record`).
    """

    record_classes: ClassVar[tuple[type, ...]]

    def batch(self, problems: Sequence[Any]) -> UnmaskBatch:
        """Problems as tensors on the CPU.

        Raises:
            ValueError: There are none, or they do not fit into one batch.
        """


def check_lam(lam: float) -> None:
    """Refuse a λ that is no finite number, or negative."""
    if not isinstance(lam, Real) or not 0 <= lam < math.inf:
        raise ValueError(f"lam must be 0 or larger and finite, got {lam!r}")


def unmask_rewards(judged: Tensor, definite: Tensor, scored: Tensor, right: Tensor, lam: float) -> Tensor:
    """The reward r(s, a) of B choices, fp32 `(B,)`; its expectation is `objective.log_expected_reward`, in logarithms.

    Args:
        judged: bool `(B,)`, whether the position is judged.
        definite: bool `(B,)`, whether it was definite before the decision.
        scored: bool `(B,)`, whether λ is paid for the answer's token alone.
        right: bool `(B,)`, whether the token is the answer's.
        lam: λ.
    """
    return torch.where(judged, (definite & right).float(), lam * (right | ~scored).float())
