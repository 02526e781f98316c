"""How to decode, in one place: `Decoding`, and the rules that it is put together from."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from math import inf, isnan
from typing import Literal, Protocol, get_args, runtime_checkable

from torch import Tensor

from dllm_rl.decoding.strategies import Strategy, get_strategy
from dllm_rl.policy import PolicyConfig
from dllm_rl.task import UnmaskBatch
from llm_rl.core._checks import check_choice, check_count

OnError = Literal["end", "continue", "correct", "redraw"]
Check = Callable[[UnmaskBatch, Tensor, Tensor], Tensor]
"""Whether states may stand, bool `(N,)`: from the problems, the states, int64 `(N, R)`, and the problem of each."""
NamedCheck = Literal["completable", "rules"]
"""`UnmaskBatch.completable` and `UnmaskBatch.allowed`."""


class Look(Protocol):
    """What a check makes of A states while one pass is decided; what is written it takes into the states."""

    def write(self, rows: Tensor, positions: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Write at a masked position of each row `(B,)` the first of its tokens `(B, C)` with which the check holds.

        Returns:
            Whether there is one, bool `(B,)`, and which, int64 `(B,)`; where there is none, any.
        """

    def tokens(self, rows: Tensor, positions: Tensor, count: int) -> Tensor | None:
        """Which of `count` tokens may stand at a position of each row, bool `(B, count)`; None if only trying tells."""


@runtime_checkable
class Looking(Protocol):
    """A check with a `Look` of its own, `dllm_rl.Pattern` for one."""

    def look(self, problems: UnmaskBatch, states: Tensor, of: Tensor) -> Look:
        """Of states, int64 `(A, R)`, of the problems `(A,)`; a ValueError where one of them cannot be completed."""


Guard = NamedCheck | Check | Looking


@dataclass(frozen=True)
class Threshold:
    """A step fills the positions that score at least so much, and the best one in any case.

    This is confidence-aware parallel decoding (Fast-dLLM, arXiv:2505.22618).

    Attributes:
        score: On the scale of the strategy's own score: log p₁ for "probability" and "semi_autoregressive", so log 0.9
            for a confidence of 0.9; the log-ratio of p₁ and p₂ for "margin" and "definite_first"; p₁ − p₂ for
            "margin_difference"; minus nats for "entropy".

    Raises:
        ValueError: The score is NaN.
    """

    score: float

    def __post_init__(self) -> None:
        if isnan(self.score):
            raise ValueError(f"a threshold of {self.score} is none; give a number, e.g. log 0.9 with 'probability'")


@dataclass(frozen=True)
class EntropyBound:
    """A step fills the best positions as long as the sum of their entropies, the largest left out, is at most γ.

    This is the EB-sampler (arXiv:2505.24857, `within_entropy_bound`). The strategy gives the order; entropies are those
    of the model's own distributions, at temperature 1.

    Attributes:
        nats: γ.

    Raises:
        ValueError: γ is negative, infinite or NaN.
    """

    nats: float

    def __post_init__(self) -> None:
        if not 0 <= self.nats < inf:
            raise ValueError(f"an entropy bound of {self.nats} nats must be at least 0 and finite, e.g. 0.1")


@dataclass(frozen=True)
class TakeBack:
    """Which committed tokens are taken back (`dllm_rl.decoding.taking_back`), and how long that may go on.

    Tokens that were given are never touched. Filling always goes to the end: a position is masked again only while all
    masks could then be filled, one a pass, within `max_passes`. So a decode takes at most `max_passes` forward passes,
    or as many as it would take without taking back where these are more. It ends earlier when it is complete and holds
    the same tokens as when it was complete the last time.

    Attributes:
        max_passes: Most forward passes of a decode, those that fill included.
        remask_threshold: A committed token is masked again if its probability is below this; None is no threshold.
        remask_count: Most tokens masked again from one pass, the least probable first; None is no bound. Without a
            threshold so many are masked again from every pass (lowest-confidence remasking).
        edit_threshold: A committed token is replaced by the most probable one where that is another and its
            probability above this; None replaces nothing. What is replaced is not masked again from the same pass.
        restart_share: When an answer is complete and contradicts itself, what clashes is masked again, and of the other
            tokens a share that is drawn from [restart_share, 1]; from then on this decode draws its tokens at
            temperature 1. None never looks.

    Raises:
        ValueError: A number is out of range, or nothing would ever be taken back.
    """

    max_passes: int
    remask_threshold: float | None = None
    remask_count: int | None = None
    edit_threshold: float | None = None
    restart_share: float | None = None

    def __post_init__(self) -> None:
        check_count("max_passes", self.max_passes)
        if self.remask_threshold is not None and not 0 < self.remask_threshold <= 1:
            raise ValueError(f"remask_threshold={self.remask_threshold} must be a probability above 0, e.g. 0.3")
        if self.remask_count is not None:
            check_count("remask_count", self.remask_count, ", or None for no bound")
        if self.edit_threshold is not None and not 0 < self.edit_threshold < 1:
            raise ValueError(f"edit_threshold={self.edit_threshold} must lie between 0 and 1, e.g. 0.9")
        if self.restart_share is not None and not 0 <= self.restart_share <= 1:
            raise ValueError(f"restart_share={self.restart_share} must lie in [0, 1], e.g. 0.4")
        if not self.looks_back and self.restart_share is None:
            raise ValueError(
                "nothing would be taken back; set remask_threshold, remask_count, edit_threshold or restart_share"
            )
        # The model looks at tokens of earlier passes, contradictions are seen at once; filling again takes a pass.
        least = 3 if self.restart_share is None else 2
        if self.edit_threshold is None and self.max_passes < least:
            raise ValueError(
                f"max_passes={self.max_passes} leaves no pass that fills again what is masked again; give {least} or "
                "more, or set edit_threshold"
            )

    @property
    def looks_back(self) -> bool:
        """Whether the model is asked what it makes of committed tokens."""
        return self.remasks or self.edit_threshold is not None

    @property
    def remasks(self) -> bool:
        """Whether tokens that the model doubts are masked again."""
        return self.remask_threshold is not None or self.remask_count is not None


@dataclass(frozen=True)
class Decoding:
    """How to decode: which positions each forward pass fills with which tokens, and what becomes of them later.

    The positions of a step and their tokens are chosen from one forward pass, so none of them sees the others. A step
    fills the strategy's best positions, equal scores from the left, or draws them without replacement, in proportion to
    exp(score) of those left. It fills fewer than `tokens_per_step` where the limit says so, where fewer are masked, and
    where the strategy allows fewer: no step leaves its semi-autoregressive block, and as long as a cell is definite,
    `definite_first` fills such cells only.

    Attributes:
        strategy: How positions and tokens are chosen: a `Strategy`, or the name of one of `STRATEGIES`.
        tokens_per_step: Most positions that a step fills; None is no bound.
        limit: Which of them it fills; None is all of them.
        policy: Temperatures, for the strategies that draw, and for what a roll-out records.
        take_back: Which tokens are masked again or replaced, and for how many passes; None is none.
        on_error: What a wrong token at a judged position does: "end" the decode after the step that wrote it,
            "continue" with it on the board, or "correct" it, the answer's token being written in its place. "redraw"
            draws another decision from the same forward pass, `draws` in all, and ends where none is right.
        draws: Decisions that "redraw" draws at most.
        guard: A check of states, by name, a function or a `Pattern`, with which all that is written must hold
            (`dllm_rl.decoding.guards`): what a step chose and is refused stays masked. None checks nothing.

    Raises:
        ValueError: The strategy, `on_error` or the guard is unknown; `tokens_per_step` is too small; a limit or `draws`
            decides nothing; or two do not go together: a limit and drawn positions, tokens taken back and a strategy
            that draws or errors that do not stay, a guard and tokens taken back or errors corrected or redrawn.
        TypeError: The limit is no limit, or the guard no guard.
    """

    strategy: Strategy | str = "margin"
    _: KW_ONLY
    tokens_per_step: int | None = 1
    limit: Threshold | EntropyBound | None = None
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    take_back: TakeBack | None = None
    on_error: OnError = "continue"
    draws: int = 32
    guard: Guard | None = None

    def __post_init__(self) -> None:
        strategy = get_strategy(self.strategy)
        if self.tokens_per_step is not None:
            check_count("tokens_per_step", self.tokens_per_step, ", or None for no bound")
        check_choice("on_error", self.on_error, OnError)
        check_count("draws", self.draws)
        if self.on_error == "redraw" and strategy.name != "policy":
            raise ValueError(
                f"on_error='redraw' draws from the policy, not by strategy {strategy.name!r}; use 'policy'"
            )
        if self.on_error != "redraw" and self.draws != Decoding.draws:
            raise ValueError(f"draws={self.draws} does nothing with on_error={self.on_error!r}; use 'redraw'")
        if self.limit is not None:
            self._check_limit(strategy)
        if self.take_back is not None and strategy.draws:
            raise ValueError(
                f"strategy {strategy.name!r} draws, and what is filled again would need fresh randomness; take tokens "
                "back with one that takes the best, e.g. 'margin' or 'probability'"
            )
        if self.take_back is not None and self.on_error != "continue":
            raise ValueError(
                f"on_error={self.on_error!r} leaves no error to take back; use on_error='continue' with take_back"
            )
        if self.guard is not None:
            self._check_guard()

    @property
    def tries(self) -> int:
        """Decisions that a step may draw, one of which is taken."""
        return self.draws if self.on_error == "redraw" else 1

    def _check_guard(self) -> None:
        if not isinstance(self.guard, Looking | Callable) and self.guard not in get_args(NamedCheck):
            kind = ValueError if isinstance(self.guard, str) else TypeError
            names = get_args(NamedCheck)
            raise kind(f"guard={self.guard!r} is no guard; use one of {names}, a function of states or a Pattern")
        if self.take_back is not None or self.on_error in ("correct", "redraw"):
            other = self.take_back or f"on_error={self.on_error!r}"
            raise ValueError(
                f"{other} writes or removes tokens that guard={self.guard!r} would not have seen; leave one of the two "
                "out (on_error='end' or 'continue')"
            )

    def _check_limit(self, strategy: Strategy) -> None:
        if not isinstance(self.limit, Threshold | EntropyBound):
            raise TypeError(f"limit={self.limit!r} is no limit; use Threshold(score), EntropyBound(nats) or None")
        if strategy.sample_position:
            raise ValueError(
                f"{self.limit} does not fit strategy {strategy.name!r}, which draws positions; use one that takes the "
                "best, e.g. 'margin' or 'probability'"
            )
        if self.tokens_per_step == 1:
            raise ValueError(
                f"{self.limit} decides nothing at tokens_per_step=1; use None for no bound, or a larger number"
            )
        least, most = strategy.bounds(self.policy)
        if isinstance(self.limit, Threshold) and not least < self.limit.score <= most:
            raise ValueError(
                f"{self.limit} is reached by {'none' if self.limit.score > most else 'all'} of the scores of strategy "
                f"{strategy.name!r}, which lie in [{least:.4g}, {most:.4g}] (the scale is {strategy.scale}); give one "
                "within, or leave the limit out"
            )
