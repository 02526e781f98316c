"""Which token is which cell: fits an answer layout to a tokenizer, by encoding and decoding."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from sudoku_env.board import SYMBOLS, Board, geometry, size_of
from sudoku_env.errors import TokenLayoutError
from sudoku_env.prompts.text import ANSWER_LAYOUTS, DEFAULT_SYSTEM_PROMPT, AnswerLayout

LLADA_MASK_TOKEN = "<|mdm_mask|>"
ALONE = {"return_attention_mask": False, "return_token_type_ids": False}


class Tokenizer(Protocol):
    """What a tokenizer needs; tokenizers of transformers have it, and so has `CharTokenizer`.

    Used where present: `mask_token_id`, `bos_token_id`, `unk_token_id`, `all_special_ids`, `added_tokens_decoder`,
    `chat_template` with `apply_chat_template`, `convert_tokens_to_ids`, and the name of an answer layout in
    `init_kwargs["answer_layout"]`.
    """

    def encode(self, text: str, *, add_special_tokens: bool = ...) -> list[int]:
        """Token ids of a text."""

    def decode(
        self, token_ids: Any, *, skip_special_tokens: bool = ..., clean_up_tokenization_spaces: bool = ...
    ) -> Any:
        """Text of token ids."""


def check_types(tokenizer: Tokenizer, *, texts: dict[str, Any], numbers: dict[str, Any]) -> None:
    """Raises `TypeError` for the first argument of another type, by its name."""
    for name, value in texts.items():
        if not isinstance(value, str):
            raise TypeError(f"{name} must be a text, got {value!r:.60}")
    for name, value in numbers.items():
        if not hasattr(value, "__index__"):
            raise TypeError(f"{name} must be a whole number, got {value!r:.60}")
    if not (callable(getattr(tokenizer, "encode", None)) and callable(getattr(tokenizer, "decode", None))):
        raise TypeError(f"tokenizer must have encode and decode, got {tokenizer!r:.60}")


@dataclass(frozen=True, eq=False)
class AnswerTokens:
    """The tokens of opening and grid, the same for every solution but for the cells; arrays are read-only.

    Attributes:
        ids: int64 `(m,)`, -1 in the cells.
        cell_positions: int64 `(n²,)`, the index in `ids` of each cell, ascending.
        digit_ids: int64 `(n,)`, the token of digit d at `digit_ids[d - 1]`.
    """

    ids: NDArray[np.int64]
    cell_positions: NDArray[np.int64]
    digit_ids: NDArray[np.int64]

    def __post_init__(self) -> None:
        for array in (self.ids, self.cell_positions, self.digit_ids):
            array.flags.writeable = False

    def write(self, board: Board, blank_id: int) -> NDArray[np.int64]:
        """int64 `(…, m)`, the tokens with boards `(…, n²)` in the cells and `blank_id` for their blanks."""
        filled = np.broadcast_to(self.ids, (*board.shape[:-1], self.ids.size)).copy()
        filled[..., self.cell_positions] = np.append(blank_id, self.digit_ids)[board]
        return filled

    def holds(self, puzzle: Board, response: NDArray[np.integer]) -> bool:
        """Whether a response `(R,)` begins with these tokens and has a puzzle's givens in its cells."""
        if puzzle.size != self.cell_positions.size or response.size < self.ids.size:
            return False
        expected = self.write(puzzle, -1)
        return bool(((expected == -1) | (expected == response[: expected.size])).all())

    def find(self, ids: NDArray[np.integer]) -> list[int]:
        """All starts in a sequence `(L,)` where every token matches, whatever stands in the cells."""
        starts = np.arange(max(ids.size - self.ids.size + 1, 0))
        for position in np.flatnonzero(self.ids >= 0).tolist():
            starts = starts[ids[starts + position] == self.ids[position]]
        return starts.tolist()


_fitted: WeakKeyDictionary[Tokenizer, dict[tuple[str, int, str], AnswerTokens | str]] = WeakKeyDictionary()


def fit(tokenizer: Tokenizer, layout: AnswerLayout, size: int, opening: str) -> AnswerTokens | str:
    """Fit a layout to a tokenizer; the result is kept as long as the tokenizer lives.

    n grids in which every cell takes every digit must encode to the same tokens but for the cells, with one token a
    cell, one token a digit, no digit's token between the cells, and decode to the text they came from.

    Returns:
        The tokens, or the reason why the layout does not suit the tokenizer.
    """
    kept = _fitted.setdefault(tokenizer, {})
    key = (layout.name, size, opening)
    if key not in kept:
        try:
            kept[key] = _fit(tokenizer, layout, size, opening)
        except TokenLayoutError as reason:
            kept[key] = str(reason)
    return kept[key]


def layouts_to_try(tokenizer: Tokenizer, name: str | None) -> Sequence[AnswerLayout]:
    """The layout named by the caller, else by the tokenizer, else all with a prompt in order."""
    name = name or (getattr(tokenizer, "init_kwargs", None) or {}).get("answer_layout")
    if name is None:
        return [layout for layout in ANSWER_LAYOUTS.values() if layout.prompted]
    return [get_answer_layout(name)]


def get_answer_layout(name: str) -> AnswerLayout:
    """The layout of that name; a `TokenLayoutError` where there is none."""
    if name not in ANSWER_LAYOUTS:
        raise TokenLayoutError(f"unknown answer layout {name!r}; choose one of {list(ANSWER_LAYOUTS)}")
    return ANSWER_LAYOUTS[name]


def choose(
    tokenizer: Tokenizer, layout: str | None, solutions: Board, opening: str
) -> tuple[AnswerLayout, AnswerTokens, NDArray[np.bool_]]:
    """The first layout that suits the tokenizer and encodes some of N solutions to the tokens expected, and which.

    Raises:
        TokenLayoutError: There is none; the message says what was tried and why each failed.
    """
    size = size_of(solutions.shape[1])
    tried = []
    for answer in layouts_to_try(tokenizer, layout):
        tokens = fit(tokenizer, answer, size, opening)
        if isinstance(tokens, AnswerTokens):
            if _cells_are_words(tokenizer, answer):
                return answer, tokens, np.ones(len(solutions), dtype=bool)  # `fit` has seen all these words
            encoded = encode_all(tokenizer, write_all(lambda board, to=answer: to.write(board, opening)[0], solutions))
            expected = tokens.write(solutions, -1).tolist()
            agree = np.array([ids == other for ids, other in zip(encoded, expected, strict=True)])
            if agree.any():
                return answer, tokens, agree
            tokens = "this solution encodes to other tokens than other solutions do"
        tried.append(f"{answer.name}: {tokens}")
    raise TokenLayoutError(
        f"no answer layout gives each cell of a {size}×{size} grid one stable token with {type(tokenizer).__name__}; "
        f"tried {'; '.join(tried)}. Use a tokenizer with a token for each digit, or another opening"
    )


def _cells_are_words(tokenizer: Any, answer: AnswerLayout) -> bool:
    """Whether every cell is encoded by itself: it stands between spaces, where the tokenizer cuts before all else."""
    backend: Any = getattr(tokenizer, "backend_tokenizer", None)
    cut: Any = getattr(backend, "pre_tokenizer", None)
    cut = cut[0] if type(cut).__name__ == "Sequence" else cut
    return (
        type(cut).__name__ == "WhitespaceSplit"
        and backend.normalizer is None
        and answer.cell_break.isspace()
        and answer.row_break.isspace()
        and not any(any(map(str.isspace, str(token))) for token in tokenizer.added_tokens_decoder.values())
    )


def write_all(write: Callable[..., str], boards: Board) -> list[str]:
    """The text of each board `(N, n²)`, of which cells, a symbol each, are all that differs."""
    text, other = (np.array(list(write(np.full_like(boards[0], digit)))) for digit in (1, 2))
    rows = np.tile(text, (len(boards), 1))
    rows[:, text != other] = np.array(list("." + SYMBOLS))[boards]
    return rows.view(f"U{text.size}")[:, 0].tolist()


def encode_all(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    """Token ids of each text."""
    if len(texts) > 1 and getattr(tokenizer, "is_fast", False):
        many: list[list[int]] = tokenizer(texts, add_special_tokens=False, **ALONE)["input_ids"]
        return many
    return [tokenizer.encode(text, add_special_tokens=False) for text in texts]


def find_mask_id(tokenizer: Tokenizer, mask_token_id: int | None) -> int:
    """The mask token: the argument, else the tokenizer's, else LLaDA's token of that name.

    Raises:
        TokenLayoutError: None of them, or a negative id.
    """
    mask_id = mask_token_id if mask_token_id is not None else getattr(tokenizer, "mask_token_id", None)
    if mask_id is None and hasattr(tokenizer, "convert_tokens_to_ids"):
        mask_id = tokenizer.convert_tokens_to_ids(LLADA_MASK_TOKEN)
        mask_id = None if mask_id == getattr(tokenizer, "unk_token_id", None) else mask_id
    if mask_id is None:
        raise TokenLayoutError(
            f"{type(tokenizer).__name__} has no mask token; pass mask_token_id, or name one in its files"
        )
    if mask_id < 0:
        raise TokenLayoutError(f"mask_token_id {mask_id} is negative; pass a token id")
    return int(mask_id)


def encode_prompts(
    tokenizer: Tokenizer, prompts: Sequence[str], system_prompt: str, layout: AnswerLayout | None = None
) -> list[list[int]]:
    """Token ids of system prompt and each prompt, through the chat template where there is one.

    Before a layout without a prompt they are the bos token alone, or none where there is no such token.

    Raises:
        TokenLayoutError: The template leaves out a system prompt other than the default, or two bos tokens stand in
            front.
    """
    bos_id = getattr(tokenizer, "bos_token_id", None)
    begin = [] if bos_id is None else [bos_id]
    if layout is not None and not layout.prompted:
        return [begin.copy() for _ in prompts]
    if getattr(tokenizer, "chat_template", None):
        found = _apply_chat_template(tokenizer, prompts, system_prompt)
    else:
        start = f"{system_prompt}\n\n" if system_prompt else ""
        found = [[*begin, *ids] for ids in encode_all(tokenizer, [f"{start}{prompt}\n" for prompt in prompts])]
    for prompt, ids in zip(prompts, found, strict=True):
        if begin and ids[:2] == [bos_id, bos_id]:
            raise TokenLayoutError(f"the prompt {prompt[:40]!r} … has two bos tokens in front; pass it without one")
    return found


def decode_prompt(tokenizer: Tokenizer, ids: Iterable[int]) -> str:
    """Text of prompt tokens with a line end for each special token, so that none sticks to a word."""
    special = set(getattr(tokenizer, "all_special_ids", ()))
    special |= {index for index, token in getattr(tokenizer, "added_tokens_decoder", {}).items() if token.special}
    pieces: list[list[int]] = [[]]
    for index in ids:
        if index in special:
            pieces.append([])
        else:
            pieces[-1].append(index)
    return "\n".join(_decode(tokenizer, piece) for piece in pieces if piece)


def _apply_chat_template(tokenizer: Any, prompts: Sequence[str], system_prompt: str) -> list[list[int]]:
    from jinja2 import TemplateError

    def encoded(system: str, users: Sequence[str]) -> list[list[int]]:
        opened = [{"role": "system", "content": system}] if system else []
        asked: list[Any] = [[*opened, {"role": "user", "content": user}] for user in users]
        options = {"add_generation_prompt": True, "tokenize": True, "return_dict": False}
        if len(asked) > 1 and getattr(tokenizer, "is_fast", False):
            many: list[list[int]] = tokenizer.apply_chat_template(asked, **options, tokenizer_kwargs=ALONE)
            return many
        return [tokenizer.apply_chat_template(conversation, **options) for conversation in asked]

    try:
        found = encoded(system_prompt, prompts)
    except TemplateError:
        if not system_prompt:
            raise
        return encoded("", [f"{system_prompt}\n\n{prompt}" for prompt in prompts])
    # What a template writes shows where it is written twice. The default may be left out, as our models' template does.
    own = system_prompt not in ("", DEFAULT_SYSTEM_PROMPT)
    if own and any(map(list.__eq__, found, encoded(f"{system_prompt} {system_prompt}", prompts))):
        raise TokenLayoutError(
            f"the tokenizer's chat template leaves out system_prompt={system_prompt!r:.80}; write it into the prompt, "
            "set a chat_template with a system message, or leave system_prompt out"
        )
    return found


def _fit(tokenizer: Tokenizer, layout: AnswerLayout, size: int, opening: str) -> AnswerTokens:
    boards = _sample_boards(size)
    ids, positions = _align(tokenizer, *layout.write(boards[0], opening))
    digit_ids = np.zeros(size, dtype=np.int64)
    digit_ids[boards[0][:size] - 1] = ids[positions[:size]]
    fixed = ids.copy()
    fixed[positions] = -1
    answer = AnswerTokens(fixed, positions, digit_ids)
    if np.unique(digit_ids).size < size:
        raise TokenLayoutError("two digits share a token")
    if np.isin(fixed[positions[0] : positions[-1]], digit_ids).any():
        raise TokenLayoutError("a token between the cells is also a digit's")
    for board in boards:
        ids, positions = _align(tokenizer, *layout.write(board, opening))
        if not np.array_equal(positions, answer.cell_positions) or not np.array_equal(ids, answer.write(board, -1)):
            raise TokenLayoutError("the tokens of a digit, or those between the cells, depend on the neighbors")
    return answer


def _sample_boards(size: int) -> list[Board]:
    """n solved boards in which every cell takes every digit."""
    table = geometry(size)
    row, column = np.divmod(np.arange(table.cells), size)
    pattern = row % table.box_rows * table.box_columns + row // table.box_rows + column
    return [((pattern + shift) % size + 1).astype(np.uint8) for shift in range(size)]


def _align(tokenizer: Tokenizer, text: str, offsets: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Encode a text and find the token of each cell, given the cells' character offsets.

    Goes from the end to the first cell and leaves white space out, since decoding one token may add or drop it.

    Returns:
        int64 `(m,)` token ids and int64 `(n²,)` positions of the cells.

    Raises:
        TokenLayoutError: A cell is not one token, or the tokens do not decode to the text.
    """
    ids = tokenizer.encode(text, add_special_tokens=False)
    decoded = _decode(tokenizer, ids)
    if decoded.strip() != text.strip():
        raise TokenLayoutError(f"{text[:40]!r}… decodes to {decoded[:40]!r}…")
    written = "".join(text.split())
    ends = [len("".join(text[: offset + 1].split())) for offset in offsets]
    pieces = {index: "".join(_decode(tokenizer, [index]).split()) for index in set(ids)}
    positions: list[int] = []
    end = len(written)
    for position in reversed(range(len(ids))):
        piece = pieces[ids[position]]
        if written[end - len(piece) : end] != piece:
            raise TokenLayoutError(f"token {ids[position]} decodes to {piece!r} inside {text[:40]!r}…")
        if piece and end - len(piece) < ends[-1]:
            if end != ends.pop() or len(piece) > 1:
                raise TokenLayoutError(f"the token {piece!r} is more than one cell")
            positions.append(position)
        end -= len(piece)
        if not ends:
            break
    if ends:
        raise TokenLayoutError(f"{len(ends)} cells of {text[:40]!r}… have no token")
    return np.array(ids, dtype=np.int64), np.array(positions[::-1], dtype=np.int64)


def _decode(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    return tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
