"""Sudoku as a task for diffusion models: the only file of this package that knows `sudoku_env`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dllm_rl.task import UnmaskBatch
from llm_rl.rollout.data import pad
from sudoku_env.board import conflicts
from sudoku_env.logic import definite_cells, rule_index
from sudoku_env.order import easiest_tier, ladder_rounds, random_order_tiers, tier_shares
from sudoku_env.prompts.tokens import PreFilled, TokenLayout, reference_ids
from sudoku_env.solver import completable, solve_batch

Tail = Literal["free", "prefill", "scored"]


def check_tail(tail: str, tail_id: int | None) -> None:
    """Refuse a tail that is unknown, or needs a `tail_id` and has none."""
    if tail not in get_args(Tail):
        raise ValueError(f"tail {tail!r} is unknown; use one of {get_args(Tail)}")
    if tail != "free" and tail_id is None:
        raise ValueError(f"tail {tail!r} needs tail_id, the token that the reference answer has after the map")


@dataclass(frozen=True, eq=False, kw_only=True)
class PuzzleBatch(UnmaskBatch):
    """Q pre-filled puzzles of one answer layout; judged are the cells of the map.

    Attributes:
        layout: The layout of the first puzzle; cell positions, digit ids and the mask are common to all.
        rule: Cells definite under this rule (or group of rules) of `sudoku_env.definite_cells` are S1.
    """

    layout: TokenLayout
    rule: str = "singles"

    tier_shares = staticmethod(tier_shares)

    @classmethod
    def collate(
        cls,
        puzzles: Sequence[PreFilled],
        *,
        pad_id: int,
        device: torch.device | str = "cpu",
        tail_id: int | None = None,
        tail: Tail = "free",
        rule: str = "singles",
    ) -> "PuzzleBatch":
        """Stack puzzles, padding prompts on the left with `pad_id`.

        Args:
            puzzles: Pre-filled puzzles of one answer layout.
            pad_id: Padding token.
            device: Where the tensors go.
            tail_id: Token of the reference answer after the map, usually the end token (`reference_ids`).
            tail: What the positions outside the map are: "free", where any token earns λ, "prefill", filled with
                `tail_id` before the start, or "scored", where `tail_id` alone earns λ.
            rule: Cells definite under this rule (or group of rules) are S1.

        Raises:
            ValueError: No puzzle, puzzles that differ in answer layout, board size, response length or in which answers
                are right, an unknown `tail` or `rule`, or a tail that needs a `tail_id` without one.
            TokenLayoutError: `tail_id` is the mask token.
        """
        check_tail(tail, tail_id)
        rule_index(rule)
        first = _common_layout(puzzles)

        # Prompts end side by side, and so responses begin.
        cut = [(puzzle.token_ids, puzzle.layout.prompt_length) for puzzle in puzzles]
        prompts, mask = pad([ids[:length] for ids, length in cut], pad_id, "left")
        responses = torch.tensor([ids[length:] for ids, length in cut])

        # What is right, what is judged, and what stands there from the start.
        cells = torch.tensor(first.cell_positions)
        if tail_id is None:
            answers = torch.full_like(responses, first.mask_id)
            answers[:, cells] = torch.from_numpy(np.stack([puzzle.layout.solution_ids for puzzle in puzzles]))
        else:
            answers = torch.from_numpy(np.stack([reference_ids(puzzle, tail_id) for puzzle in puzzles]))
        judged = torch.zeros_like(responses, dtype=torch.bool)
        judged[:, cells] = True
        if tail == "prefill":
            responses = torch.where(judged, responses, answers)
        return cls(
            prompt_ids=prompts,
            prompt_mask=None if bool(mask.all()) else mask,
            responses=responses,
            answers=answers,
            judged=judged,
            scored=~judged if tail == "scored" else torch.zeros_like(judged),
            mask_id=first.mask_id,
            layout=first,
            rule=rule,
        ).to(device)

    def definite(self, responses: Tensor, of: Tensor | None = None) -> Tensor:
        """S1, bool `(N, R)`: the masked cells that are definite under the rule in responses `(N, R)` of any puzzles.

        A cell that holds no digit after an error reads as a blank, but it is not masked.
        """
        found = self._at_cells(definite_cells(self.boards(responses), self.rule) > 0, responses)
        return found & (responses == self.mask_id)

    @property
    def several(self) -> bool:
        """Whether the puzzles were filled in with `answers="any"`: wrong is then what leaves no completion."""
        return self.layout.answers == "any"

    def completable(self, responses: Tensor, of: Tensor) -> Tensor:
        """Whether boards can still be completed; one with a token that is no digit in a cell cannot."""
        if not self.several:
            return super().completable(responses, of)
        read = responses.cpu()
        boards, written = self.boards(read), read.numpy()[:, self.layout.cell_positions] != self.mask_id
        found = completable(boards) & ((boards > 0) == written).all(1)
        return torch.from_numpy(found).to(responses.device)

    def answers_to(self, responses: Tensor, of: Tensor) -> Tensor:
        """y* in states: of puzzles with several right answers the solver's first that a board can be completed to."""
        if not self.several:
            return super().answers_to(responses, of)
        solutions, counts = solve_batch(self.boards(responses))
        # One more than the token, so that 0 says: none.
        ids = np.where(counts[:, None] > 0, self.layout.digit_ids[solutions.astype(int) - 1] + 1, 0)
        solved = self._at_cells(ids, responses)  # (N, R)
        return torch.where(solved > 0, solved - 1, self.answers[of])

    def allowed(self, responses: Tensor, of: Tensor) -> Tensor:
        """Whether no digit stands twice in a unit, and no other token in a cell."""
        return ~self.contradictions(responses, of).any(1)

    def contradictions(self, responses: Tensor, of: Tensor) -> Tensor:
        """The filled cells whose digit stands twice in a unit, or that hold no digit, bool `(N, R)`; none was given."""
        boards = self.boards(responses)
        found = self._at_cells(conflicts(boards) | (boards == 0), responses)
        return found & (self.responses[of] == self.mask_id) & (responses != self.mask_id)

    def _at_cells(self, values: NDArray[Any], responses: Tensor) -> Tensor:
        """`(N, R)` beside the responses: values `(N, n²)` at the cells, 0 elsewhere; one transfer."""
        found = np.zeros(responses.shape, dtype=values.dtype)
        found[:, self.layout.cell_positions] = values
        return torch.from_numpy(found).to(responses.device)

    def read_states(self, states: Tensor) -> NDArray[np.int16]:
        """Boards int16 `(N, n²)` of states `(N, R)`: 0 at masked cells, -1 at tokens that are no digit."""
        return self.layout.read_boards(np.pad(states.cpu().numpy(), ((0, 0), (self.layout.prompt_length, 0))))

    def boards(self, responses: Tensor) -> NDArray[np.uint8]:
        """Boards uint8 `(N, n²)` of responses `(N, R)`; masked cells and tokens that are no digit are blanks."""
        ids = responses.cpu().numpy()[:, self.layout.cell_positions]
        digits = np.arange(1, self.layout.size + 1, dtype=np.uint8)
        return ((ids[..., None] == self.layout.digit_ids) * digits).sum(-1, dtype=np.uint8)

    def easiest_tiers(self, states: Tensor, cells: Tensor) -> NDArray[np.int64]:
        """The easiest group of rules, int64 `(N,)`, under which cells int64 `(N,)` are definite in states `(N, R)`.

        The indices are those of `sudoku_env.order.TIERS`.
        """
        return easiest_tier(self.boards(states), cells.cpu().numpy())

    def random_order_tiers(
        self, cell_steps: NDArray[np.float64], live_cells: NDArray[np.int64], *, seed: int
    ) -> NDArray[np.int64]:
        """The floor of decodes: the tiers of a random order that fills as many cells (`sudoku_env.order`)."""
        boards, solutions = self.boards(self.responses), self.boards(self.answers)
        return random_order_tiers(boards, solutions, cell_steps=cell_steps, live_cells=live_cells, seed=seed)

    def ladder_rounds(self) -> NDArray[np.float64]:
        """The round of the rule ladder that gives each cell, float64 `(Q, n²)` (`sudoku_env.order.ladder_rounds`)."""
        return ladder_rounds(self.boards(self.responses))


@dataclass(frozen=True)
class SudokuTask:
    """Pre-filled puzzles (`sudoku_env.pre_fill`) of one answer layout as problems.

    Attributes:
        pad_id: Padding token for prompts of different length.
        tail_id: Token of the reference answer after the map, usually the end token; with it the masked cross-entropy
            counts the tail as well. Needed unless `tail` is "free".
        tail: What the positions outside the map are: free, prefill or scored (`PuzzleBatch.collate`).
        rule: Cells definite under this rule (or group of rules) are S1.

    Raises:
        ValueError: The rule or the tail is unknown, or the tail needs a `tail_id`.
    """

    pad_id: int
    tail_id: int | None = None
    tail: Tail = "free"
    rule: str = "singles"

    record_classes: ClassVar[tuple[type, ...]] = (PuzzleBatch, TokenLayout)

    def __post_init__(self) -> None:
        rule_index(self.rule)
        check_tail(self.tail, self.tail_id)

    def batch(self, problems: Sequence[PreFilled]) -> PuzzleBatch:
        """The puzzles as tensors; it raises what `PuzzleBatch.collate` does."""
        return PuzzleBatch.collate(problems, pad_id=self.pad_id, tail_id=self.tail_id, tail=self.tail, rule=self.rule)


def _common_layout(puzzles: Sequence[PreFilled]) -> TokenLayout:
    """The layout of the first puzzle, which those of the others agree with."""
    if not puzzles:
        raise ValueError("cannot build a batch of no puzzles")
    first = puzzles[0].layout
    for puzzle in puzzles[1:]:
        other = puzzle.layout
        same = (
            other.response_length == first.response_length
            and other.mask_id == first.mask_id
            and np.array_equal(other.cell_positions, first.cell_positions)
            and np.array_equal(other.digit_ids, first.digit_ids)
        )
        if not same:
            raise ValueError(
                f"puzzles of one batch share size, answer layout and response length; got size {first.size} layout "
                f"{first.name!r} and size {other.size} layout {other.name!r}: use one data set for each"
            )
        if other.answers != first.answers:
            raise ValueError(
                f"puzzles of one batch have the same right answers; got answers={first.answers!r} and "
                f"{other.answers!r}: pre_fill all with the same"
            )
    return first
