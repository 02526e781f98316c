"""Pre-filled puzzles as tensors."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sudoku_env.logic import definite_cells
from sudoku_env.tokens import PreFilled, TokenLayout, reference_ids

Tail = Literal["free", "prefill", "scored"]


@dataclass(frozen=True, eq=False)
class PuzzleBatch:
    """Q pre-filled puzzles of one answer layout; prompts may differ in length.

    Attributes:
        prompt_ids: int64 `(Q, P)`, padded on the left.
        prompt_mask: bool `(Q, P)`, false at padding, or None where all prompts are equally long.
        responses: int64 `(Q, R)`, the pre-filled responses.
        solutions: uint8 `(Q, n²)`, the digits that solve each puzzle.
        solution_ids: int64 `(Q, R)`, the solution's token at every cell; elsewhere 0, or with a `tail_id` the
            reference answer's token.
        in_map: bool `(R,)`, true at the cells.
        layout: The layout of the first puzzle; cell positions, digit ids and the mask are common to all.
        tail_id: The reference answer's token at the masked positions outside the map; None where it is not known.
        tail: What the positions outside the map are: "free", where any token earns λ (seed 001), "prefill", filled
            with `tail_id` before the start, or "scored", where the reference's token alone earns λ.
    """

    prompt_ids: Tensor
    prompt_mask: Tensor | None
    responses: Tensor
    solutions: NDArray[np.uint8]
    solution_ids: Tensor
    in_map: Tensor
    layout: TokenLayout
    tail_id: int | None = None
    tail: Tail = "free"

    def __len__(self) -> int:
        return len(self.responses)

    @classmethod
    def collate(
        cls,
        puzzles: Sequence[PreFilled],
        *,
        pad_id: int,
        device: torch.device | str = "cpu",
        tail_id: int | None = None,
        tail: Tail = "free",
    ) -> "PuzzleBatch":
        """Stack puzzles, padding prompts on the left with `pad_id`.

        Args:
            puzzles: Pre-filled puzzles of one answer layout.
            pad_id: Padding token.
            device: Where the tensors go.
            tail_id: Token of the reference answer after the map, usually the end token; see `reference_ids`.
            tail: What the positions outside the map are; see the class.

        Raises:
            ValueError: No puzzle, puzzles that differ in answer layout, board size or response length, an unknown
                `tail`, or one that needs a `tail_id` without one.
            TokenLayoutError: `tail_id` is the mask token.
        """
        if tail not in get_args(Tail):
            raise ValueError(f"tail {tail!r} is unknown; use one of {get_args(Tail)}")
        if tail != "free" and tail_id is None:
            raise ValueError(f"tail {tail!r} needs tail_id, the token that the reference answer has after the map")
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
        lengths = [puzzle.layout.prompt_length for puzzle in puzzles]
        longest = max(lengths)
        sequences = [puzzle.token_ids for puzzle in puzzles]
        prompts = [[pad_id] * (longest - n) + list(ids[:n]) for ids, n in zip(sequences, lengths, strict=True)]
        mask = torch.arange(longest)[None, :] >= longest - torch.tensor(lengths)[:, None]
        responses = torch.tensor([ids[n:] for ids, n in zip(sequences, lengths, strict=True)])
        cells = torch.tensor(first.cell_positions)
        if tail_id is None:
            solution_ids = torch.zeros_like(responses)
            solution_ids[:, cells] = torch.from_numpy(np.stack([puzzle.layout.solution_ids for puzzle in puzzles]))
        else:
            solution_ids = torch.from_numpy(np.stack([reference_ids(puzzle, tail_id) for puzzle in puzzles]))
        in_map = torch.zeros(responses.shape[1], dtype=torch.bool)
        in_map[cells] = True
        if tail == "prefill":
            responses = torch.where(in_map, responses, solution_ids)
        return cls(
            prompt_ids=torch.tensor(prompts).to(device),
            prompt_mask=None if min(lengths) == longest else mask.to(device),
            responses=responses.to(device),
            solutions=np.stack([puzzle.layout.solution for puzzle in puzzles]),
            solution_ids=solution_ids.to(device),
            in_map=in_map.to(device),
            layout=first,
            tail_id=tail_id,
            tail=tail,
        )

    def to(self, device: torch.device | str, non_blocking: bool = False) -> "PuzzleBatch":
        """The same batch with its tensors on a device."""
        return replace(
            self,
            prompt_ids=self.prompt_ids.to(device, non_blocking=non_blocking),
            prompt_mask=None if self.prompt_mask is None else self.prompt_mask.to(device, non_blocking=non_blocking),
            responses=self.responses.to(device, non_blocking=non_blocking),
            solution_ids=self.solution_ids.to(device, non_blocking=non_blocking),
            in_map=self.in_map.to(device, non_blocking=non_blocking),
        )

    def select(self, puzzles: Tensor) -> "PuzzleBatch":
        """The puzzles of the given numbers, int64 `(N,)`, padded and laid out as here."""
        return replace(
            self,
            prompt_ids=self.prompt_ids[puzzles],
            prompt_mask=None if self.prompt_mask is None else self.prompt_mask[puzzles],
            responses=self.responses[puzzles],
            solutions=self.solutions[puzzles.cpu().numpy()],
            solution_ids=self.solution_ids[puzzles],
        )

    def prompts_of(self, puzzles: Tensor) -> tuple[Tensor, Tensor | None]:
        """Prompt ids `(N, P)` and their mask `(N, P)` (None without padding) of puzzles by number, int64 `(N,)`."""
        return self.prompt_ids[puzzles], None if self.prompt_mask is None else self.prompt_mask[puzzles]

    def tail_of(self, responses: Tensor) -> Tensor:
        """S2, bool `(N, R)`: the masked positions outside the map, of responses `(N, R)`."""
        return (responses == self.layout.mask_id) & ~self.in_map

    def forced_of(self, responses: Tensor, rule: str = "singles") -> Tensor:
        """S1, bool `(N, R)`: the masked cells that are definite under a rule (`sudoku_env.definite_cells`).

        A cell that holds no digit after an error reads as a blank, but it is not masked.
        """
        forced = torch.zeros_like(responses, dtype=torch.bool)
        cells = torch.from_numpy(definite_cells(self.boards(responses), rule) > 0).to(forced.device)
        forced[:, torch.tensor(self.layout.cell_positions, device=forced.device)] = cells
        return forced & (responses == self.layout.mask_id)

    def boards(self, responses: Tensor) -> NDArray[np.uint8]:
        """Boards uint8 `(N, n²)` of responses `(N, R)`; masked cells and tokens that are no digit are blanks."""
        ids = responses.cpu().numpy()[:, self.layout.cell_positions]
        digits = np.arange(1, self.layout.size + 1, dtype=np.uint8)
        return ((ids[..., None] == self.layout.digit_ids) * digits).sum(-1, dtype=np.uint8)
