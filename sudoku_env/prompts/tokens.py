"""Cells, response positions and token ids: the pre-filled response and what its states mean.

States, S1 and what counts as an error are those of docs/objective.md. Cells are read by fixed position, never by
decoding a state to text: a token that is no digit cannot shift the cells behind it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sudoku_env.answers import REMEDY, Answers, are_definite, check_answers, definite_rule, solutions_to_count
from sudoku_env.board import SIZES, Board, as_boards, size_of
from sudoku_env.errors import PuzzleParseError, TokenLayoutError
from sudoku_env.prompts.alignment import (
    AnswerTokens,
    Tokenizer,
    check_types,
    choose,
    decode_prompt,
    encode_prompts,
    find_mask_id,
    fit,
    layouts_to_try,
    write_all,
)
from sudoku_env.prompts.text import DEFAULT_OPENING, DEFAULT_SYSTEM_PROMPT, AnswerLayout, build_prompt, parse_puzzle
from sudoku_env.solver import completable, solve_batch


@dataclass(frozen=True, eq=False)
class TokenLayout:
    """Where the cells of one puzzle stand in its response, and which tokens mean what; arrays are read-only.

    A state is the sequence of `prompt_length + response_length` token ids. Positions are relative to the response.

    Attributes:
        size: n.
        prompt_length: Tokens before the response.
        response_length: Tokens of the response.
        mask_id: The mask token.
        cell_positions: int64 `(n²,)`, ascending, the response position of each cell.
        digit_ids: int64 `(n,)`, the token of digit d at `digit_ids[d - 1]`.
        puzzle: uint8 `(n²,)`, the givens, 0 for a blank.
        solution: uint8 `(n²,)`, the only solution; where any answer is right, one of them.
        name: The answer layout, a key of `ANSWER_LAYOUTS`.
        answers: The right answers.
    """

    size: int
    prompt_length: int
    response_length: int
    mask_id: int
    cell_positions: NDArray[np.int64]
    digit_ids: NDArray[np.int64]
    puzzle: Board
    solution: Board
    name: str
    answers: Answers = "one"

    def __post_init__(self) -> None:
        for field in ("cell_positions", "digit_ids", "puzzle", "solution"):
            view = getattr(self, field).view()
            view.flags.writeable = False
            object.__setattr__(self, field, view)

    @property
    def map_range(self) -> tuple[int, int]:
        """The map `[a, b)`: from the first cell to one past the last, separators included."""
        return int(self.cell_positions[0]), int(self.cell_positions[-1]) + 1

    @property
    def solution_ids(self) -> NDArray[np.int64]:
        """int64 `(n²,)`, the token of each cell in `solution`."""
        return self.digit_ids[self.solution.astype(np.int64) - 1]

    def cell_tokens(self, states: ArrayLike) -> NDArray[np.int64]:
        """int64 `(..., n²)`, the token in each cell of full sequences `(..., prompt_length + response_length)`.

        Raises:
            TokenLayoutError: The states are no integers or have another length.
        """
        tokens = np.asarray(states)
        length = self.prompt_length + self.response_length
        if tokens.dtype.kind not in "iu" or tokens.ndim == 0 or tokens.shape[-1] != length:
            raise TokenLayoutError(
                f"a state is {length} token ids ({self.prompt_length} of the prompt and {self.response_length} of the "
                f"response), got dtype {tokens.dtype} with shape {tokens.shape}"
            )
        return tokens[..., self.prompt_length + self.cell_positions].astype(np.int64)

    def read_boards(self, states: ArrayLike) -> NDArray[np.int16]:
        """The boards in full sequences `(..., prompt_length + response_length)`.

        Returns:
            int16 `(..., n²)`: 0 for a mask, 1..n for a digit, -1 for any other token.

        Raises:
            TokenLayoutError: The states are no integers or have another length.
        """
        tokens = self.cell_tokens(states)
        order = np.argsort(self.digit_ids)
        rank = np.searchsorted(self.digit_ids[order], tokens).clip(max=self.size - 1)
        digits = order[rank]
        boards = np.where(self.digit_ids[digits] == tokens, digits + 1, -1)
        return np.where(tokens == self.mask_id, 0, boards).astype(np.int16)

    @classmethod
    def from_state(
        cls,
        state: ArrayLike,
        tokenizer: Tokenizer,
        *,
        mask_token_id: int | None = None,
        prompt_length: int | None = None,
        opening: str = DEFAULT_OPENING,
        layout: str | None = None,
        answers: str = "one",
    ) -> Self:
        """Rebuild the layout from any state that `pre_fill` and decoding can lead to, wrong tokens included.

        The response is found by its opening and the tokens between its cells; the puzzle is parsed from what stands
        before. A find counts only when that puzzle's givens stand in its cells. A state without a prompt (layout
        "bare") does not tell givens from digits decoded: keep the layout that `pre_fill` returned.

        Args:
            state: int `(L,)`, prompt and response.
            tokenizer: The tokenizer that `pre_fill` was given.
            mask_token_id: The mask token, as in `pre_fill`.
            prompt_length: Where the response begins, if known.
            opening: First words of the response, as in `pre_fill`.
            layout: The answer layout, as in `pre_fill`.
            answers: The right answers, as in `pre_fill`.

        Raises:
            TokenLayoutError: The state is no such state, or its layout has no prompt.
            PuzzleParseError: Its prompt holds a puzzle without a solution or, with `answers="one"`, with several.
            SudokuError: `answers` is unknown.
        """
        wanted = check_answers(answers)
        ids = np.asarray(state)
        if ids.ndim != 1 or ids.dtype.kind not in "iu":
            raise TokenLayoutError(f"a state is one row of token ids, got dtype {ids.dtype} with shape {ids.shape}")
        mask_id = find_mask_id(tokenizer, mask_token_id)
        found: list[tuple[AnswerLayout, AnswerTokens, Board, int]] = []
        written = layouts_to_try(tokenizer, layout)
        if not all(answer.prompted for answer in written):
            raise TokenLayoutError(
                f"a state in layout {written[0].name!r} has no prompt, so its givens cannot be told from digits "
                "decoded; keep the layout that pre_fill returned"
            )
        for answer, size in product(written, SIZES):
            tokens = fit(tokenizer, answer, size, opening)
            if not isinstance(tokens, AnswerTokens):
                continue
            for start in tokens.find(ids):
                if prompt_length not in (None, start) or mask_id in ids[:start]:
                    continue
                puzzle = _puzzle_before(tokenizer, ids[:start], wanted)
                if puzzle is not None and tokens.holds(puzzle, ids[start:]):
                    found.append((answer, tokens, puzzle, start))
        if len(found) == 1:
            answer, tokens, puzzle, start = found[0]
            return cls(
                size=size_of(puzzle.size),
                prompt_length=start,
                response_length=ids.size - start,
                mask_id=mask_id,
                cell_positions=tokens.cell_positions,
                digit_ids=tokens.digit_ids,
                puzzle=puzzle,
                solution=_right_solution(puzzle, wanted),
                name=answer.name,
                answers=wanted,
            )
        starts = f"several, at {[start for *_, start in found]} (pass prompt_length)" if found else "none"
        raise TokenLayoutError(
            f"a state of {ids.size} tokens should hold one response that begins with {opening!r} and has the prompt's "
            f"puzzle in its grid, found {starts}; opening, layout and mask token must be those given to pre_fill"
        )


class PreFilled(tuple[list[int], list[int], int, tuple[int, int]]):
    """What `pre_fill` returns: unpacks into token ids, filled indices, prompt length and map range.

    Attributes:
        layout: The `TokenLayout` of the sequence.
    """

    layout: TokenLayout

    def __new__(cls, token_ids: list[int], filled_indices: list[int], layout: TokenLayout) -> Self:
        """Bundle a pre-filled sequence with its layout."""
        self = super().__new__(cls, (token_ids, filled_indices, layout.prompt_length, layout.map_range))
        self.layout = layout
        return self

    def __getnewargs__(self) -> tuple[Any, ...]:
        return self[0], self[1], self.layout

    @property
    def token_ids(self) -> list[int]:
        """Prompt and response, `prompt_length + max_gen_length` ids."""
        return self[0]

    @property
    def filled_indices(self) -> list[int]:
        """Response-relative positions that hold no mask, ascending."""
        return self[1]

    @property
    def prompt_length(self) -> int:
        """Number of prompt tokens, the absolute position of the first response token."""
        return self[2]

    @property
    def map_range(self) -> tuple[int, int]:
        """The Sudoku map `[a, b)`, response-relative."""
        return self[3]


def pre_fill(
    prompt: str,
    tokenizer: Tokenizer,
    max_gen_length: int,
    *,
    system_prompt: str = DEFAULT_SYSTEM_PROMPT,
    opening: str = DEFAULT_OPENING,
    mask_token_id: int | None = None,
    layout: str | None = None,
    answers: str = "one",
) -> PreFilled:
    """Tokenize a prompt and a response in which all that is known beforehand is filled.

    The response is the opening, the separators of the grid and the givens, and masks everywhere else up to
    `max_gen_length`. Prompt and response are tokenized separately. In layout "bare" the prompt, which only repeats the
    givens, is left out: 93 tokens of a 9×9 puzzle where a digit is one.

    Args:
        prompt: A text with one puzzle that `parse_puzzle` reads. It is tokenized as it is, characters that are not
            seen included.
        tokenizer: Its chat template is applied where it has one; else the system prompt, the prompt and a line end go
            in as text, after the bos token if there is one.
        max_gen_length: Number of response tokens.
        system_prompt: Put before the prompt; "" for none. A template that refuses the system role gets it as the
            beginning of the user's message. A template may leave the default out, as that of the models in
            `data/models` does, which never saw one; layout "bare" has no place for any.
        opening: First words of the response; white space at their end is the answer layout's to choose.
        mask_token_id: The mask token; None takes the tokenizer's, or LLaDA's `<|mdm_mask|>`.
        layout: The answer layout, a key of `ANSWER_LAYOUTS`; None takes `tokenizer.init_kwargs["answer_layout"]`, and
            without one the first layout with a prompt in which every cell is one token, a digit's token is the same
            in every cell, and text and tokens round-trip.
        answers: "one": the puzzle must have exactly one solution. "any": it may have several, any of which is right,
            and be blank; `layout.solution` is then one of them, and `judge_error` calls wrong what leaves none.

    Returns:
        `(token_ids, filled_indices, prompt_length, map_range)` with `.layout`.

    Raises:
        PuzzleParseError: No puzzle, several, a malformed one, or one without exactly one solution, or with
            `answers="any"` without any.
        SudokuError: `answers` is unknown.
        TokenLayoutError: No layout suits the tokenizer, the mask token is unknown or taken, the response is longer
            than `max_gen_length`, the chat template leaves out a system prompt of your own, or two bos tokens stand in
            front.
        TypeError: An argument is of another type; the message names it.
    """
    check_types(
        tokenizer,
        texts={"prompt": prompt, "system_prompt": system_prompt, "opening": opening, "layout": layout or ""},
        numbers={"max_gen_length": max_gen_length, "mask_token_id": 0 if mask_token_id is None else mask_token_id},
    )
    wanted = check_answers(answers)
    puzzle = parse_puzzle(prompt, wanted)
    rows = ([prompt], puzzle[None], _right_solution(puzzle, wanted)[None], wanted)
    (found,) = _filled(*rows, tokenizer, max_gen_length, system_prompt, opening, mask_token_id, layout)
    assert found is not None, "the layout is that of the one solution"
    return found


def pre_fill_boards(
    boards: NDArray[np.integer],
    tokenizer: Tokenizer,
    max_gen_length: int,
    *,
    template: str = "rules",
    answers: str = "one",
    **options: Any,
) -> list[PreFilled]:
    """What `pre_fill` gives for the prompt of each of many boards, several times as fast.

    Nothing is taken on trust: every prompt is encoded, many in a call where the tokenizer is a fast one of
    transformers. So is every answer, unless the tokenizer cuts at white space first and a cell is a word.

    Args:
        boards: `(N, n²)` integers, 0 for a blank.
        tokenizer: As in `pre_fill`.
        max_gen_length: As in `pre_fill`.
        template: The words of a prompt, a key of `sudoku_env.prompts.text.TEMPLATES`, as in `build_prompt`.
        answers: As in `pre_fill`.
        **options: Further arguments of `pre_fill`.

    Raises:
        BoardError: The boards have a wrong shape or a value out of range.
        SudokuError: No template has that name; or what `pre_fill` raises.
        TypeError: See `pre_fill`.
    """
    wanted, puzzles = check_answers(answers), np.atleast_2d(as_boards(boards)).copy()
    if not len(puzzles):
        return []
    prompts = write_all(partial(build_prompt, template=template), puzzles)
    solutions, counts = solve_batch(puzzles, limit=solutions_to_count(wanted))

    def alone(prompt: str) -> PreFilled:
        return pre_fill(prompt, tokenizer, max_gen_length, answers=answers, **options)

    alone(prompts[int(np.argmax(counts != 1))])  # raises of the first board that is refused, and of the arguments
    found = _filled(prompts, puzzles, solutions, wanted, tokenizer, max_gen_length, **options)
    return [one or alone(prompt) for one, prompt in zip(found, prompts, strict=True)]


def _filled(
    prompts: Sequence[str],
    puzzles: Board,
    solutions: Board,
    answers: Answers,
    tokenizer: Tokenizer,
    max_gen_length: int,
    system_prompt: str = DEFAULT_SYSTEM_PROMPT,
    opening: str = DEFAULT_OPENING,
    mask_token_id: int | None = None,
    layout: str | None = None,
) -> list[PreFilled | None]:
    """Puzzles with their prompts and solutions; None for those whose answer has another layout than that of most."""
    size = size_of(puzzles.shape[1])
    answer, tokens, agree = choose(tokenizer, layout, solutions, opening)
    mask_id = find_mask_id(tokenizer, mask_token_id)
    if mask_id in tokens.ids or mask_id in tokens.digit_ids:
        raise TokenLayoutError(f"mask token {mask_id} is a token of the answer; pass another mask_token_id")
    needed = tokens.ids.size
    if max_gen_length < needed:
        raise TokenLayoutError(
            f"the opening and a {size}×{size} grid in layout {answer.name!r} take {needed} tokens, more than "
            f"max_gen_length={max_gen_length}; raise it to {needed} or more"
        )
    encoded = encode_prompts(tokenizer, prompts, system_prompt, answer)
    if any(mask_id in ids for ids in encoded):
        raise TokenLayoutError(f"the prompt contains the mask token {mask_id}; pass another mask_token_id")
    responses = np.full((len(prompts), max_gen_length), mask_id, dtype=np.int64)
    responses[:, :needed] = tokens.write(puzzles, mask_id)
    found: list[PreFilled | None] = []
    positions, digits, name = tokens.cell_positions, tokens.digit_ids, answer.name
    for ids, response, puzzle, solution, same in zip(encoded, responses, puzzles, solutions, agree, strict=True):
        of = (size, len(ids), max_gen_length, mask_id, positions, digits, puzzle, solution, name, answers)
        filled = np.flatnonzero(response != mask_id).tolist()
        found.append(PreFilled(ids + response.tolist(), filled, TokenLayout(*of)) if same else None)
    return found


def reference_ids(prefilled: PreFilled, tail_id: int) -> NDArray[np.int64]:
    """A right response: the solution in the cells and `tail_id`, e.g. the end token, at the masks outside the map.

    Returns:
        int64 `(max_gen_length,)`.

    Raises:
        TokenLayoutError: `tail_id` is the mask token.
    """
    layout = prefilled.layout
    if tail_id == layout.mask_id:
        raise TokenLayoutError(f"tail_id {tail_id} is the mask token; pass another, such as the end token")
    response = np.array(prefilled.token_ids[layout.prompt_length :], dtype=np.int64)
    response[layout.cell_positions] = layout.solution_ids
    response[response == layout.mask_id] = tail_id
    return response


@overload
def detect_definite(state: Sequence[int], layout: TokenLayout, rule: str | None = ...) -> list[int]: ...
@overload
def detect_definite(state: Any, layout: Sequence[TokenLayout], rule: str | None = ...) -> list[list[int]]: ...
@overload
def detect_definite(state: Any, layout: TokenLayout, rule: str | None = ...) -> Any: ...
def detect_definite(
    state: Any, layout: TokenLayout | Sequence[TokenLayout], rule: str | None = None
) -> list[int] | list[list[int]]:
    """The masked cells that are definite, S1 of docs/objective.md: naked and hidden singles, or by another rule.

    In a state with errors they follow from the digits as they stand, a token that is no digit counting as a blank.

    Args:
        state: int `(L,)`, or a batch: `(B, L)` with one layout, or B states with a sequence of B layouts.
        layout: The layout of the state, or one a state.
        rule: The rule by which cells are definite. None: "singles", or "backbone", the same digit in every solution,
            where any answer is right.

    Returns:
        Response-relative positions, ascending; one list a state for a batch.

    Raises:
        BoardError: The rule is unknown.
        TokenLayoutError: A state does not fit its layout, or the numbers of states and layouts differ.
    """
    if not isinstance(layout, TokenLayout):
        return [detect_definite(one, of, rule) for one, of in _pairs(state, layout)]
    boards = layout.read_boards(state)
    digits = np.where(boards > 0, boards, 0).astype(np.uint8).reshape(-1, boards.shape[-1])
    definite = are_definite(digits, definite_rule(rule, layout.answers)).reshape(boards.shape) & (boards == 0)
    if definite.ndim == 1:
        return layout.cell_positions[definite].tolist()
    return [layout.cell_positions[row].tolist() for row in definite]


@overload
def judge_error(state: Sequence[int], layout: TokenLayout) -> bool: ...
@overload
def judge_error(state: Any, layout: Sequence[TokenLayout]) -> NDArray[np.bool_]: ...
@overload
def judge_error(state: Any, layout: TokenLayout) -> Any: ...
def judge_error(state: Any, layout: TokenLayout | Sequence[TokenLayout]) -> bool | NDArray[np.bool_]:
    """Whether a filled cell differs from the solution, be it by a digit or by a token that is none.

    Where any answer is right: whether the filled cells leave no solution, or one holds a token that is no digit.

    Args:
        state: int `(L,)`, or a batch: `(B, L)` with one layout, or B states with a sequence of B layouts.
        layout: The layout of the state, or one a state.

    Returns:
        One bool, or bool `(B,)` for a batch.

    Raises:
        TokenLayoutError: A state does not fit its layout, or the numbers of states and layouts differ.
    """
    if not isinstance(layout, TokenLayout):
        return np.array([judge_error(one, of) for one, of in _pairs(state, layout)], dtype=np.bool_)
    if layout.answers == "any":
        boards = layout.read_boards(state)
        rows, given = boards.reshape(-1, boards.shape[-1]), layout.puzzle > 0
        changed = (rows < 0) | ((rows > 0) & given & (rows != layout.puzzle))
        wrong = changed.any(-1) | ~completable(np.where(given, layout.puzzle, rows.clip(min=0)))
        wrong = wrong.reshape(boards.shape[:-1])
    else:
        tokens = layout.cell_tokens(state)
        wrong = ((tokens != layout.mask_id) & (tokens != layout.solution_ids)).any(-1)
    return bool(wrong) if wrong.ndim == 0 else wrong


def _pairs(states: Any, layouts: Sequence[TokenLayout]) -> Iterator[tuple[Any, TokenLayout]]:
    if len(states) != len(layouts):
        raise TokenLayoutError(f"{len(states)} states with {len(layouts)} layouts; pass one layout a state")
    return zip(states, layouts, strict=True)


def _right_solution(puzzle: Board, answers: Answers) -> Board:
    solutions, counts = solve_batch(puzzle[None], limit=solutions_to_count(answers))
    if counts[0] == 0:
        raise PuzzleParseError("a contradiction: the puzzle has no solution")
    if counts[0] > 1:
        raise PuzzleParseError(f"the puzzle is not unique: it has more than one solution; {REMEDY}")
    return solutions[0]


def _puzzle_before(tokenizer: Tokenizer, prompt_ids: NDArray[np.integer], answers: Answers) -> Board | None:
    try:
        return parse_puzzle(decode_prompt(tokenizer, prompt_ids.tolist()), answers)
    except PuzzleParseError:
        return None
