"""4×4 Sudoku by tools in few tokens: a word is a token, a call is `<call> place 1 2 3 </call>`.

What is played is `SudokuText` as it is, with its replies, its board after each of them and its costs of hints; the
prompt is the puzzle alone, behind the names of the tools. A quarter of the 288 grids is for tests.
"""

import hashlib
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from llm_rl import CallFormat, TrajectoryDataset
from llm_rl.tools.calls import CallError, ToolCall
from llm_rl.tools.toolbox import methods_of
from sudoku_env import SudokuText, format_board, parse_board, solve, to_string
from sudoku_env.chat import PARAMETERS, Move, expert_rows, read_move
from sudoku_env.errors import MoveError
from sudoku_env.integrations.trl import SudokuTools, environment_factory

SIZE = 4
TAGS = ("<end>", "<user>", "<assistant>", "<tool>", "<call>", "</call>")
TEMPLATE = (
    "{% for tool in tools or [] %}{{ tool.function.name + ' ' }}{% endfor %}"
    "{% for message in messages %}{{ '<' + message.role + '> ' + message.content + '<end>' }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
SAID = (
    "Refused: row 1, column 2 is given by the puzzle and stays 3. box 1 already holds 4. digit must be from 1 to 4, "
    "got is empty already; again erase it wrong. nothing to undo. No turn is left. The game is over. You gave up."
)
"""Replies that the ladder's own games do not hold."""
CALL_TOKENS = len(PARAMETERS["place"]) + 4
"""Tags, name and numbers of a move, and the end token."""


def read_words(body: str) -> list[ToolCall]:
    """The move between two tags, `place 1 2 3`.

    Raises:
        CallError: It is none.
    """
    try:
        move = read_move(body)
    except MoveError as error:
        raise CallError(str(error)) from None
    return [ToolCall(move.name, dict(zip(PARAMETERS[move.name], move.numbers, strict=True)))]


def write_words(call: ToolCall) -> str:
    """The text that `read_words` reads as the call."""
    return f" {Move(call.name, tuple(call.arguments[name] for name in PARAMETERS[call.name]))} "


CALLS = CallFormat("<call>", "</call>", "<tool>", read_words, write_words)


def make_game(hint_cost: float) -> Any:
    """What trainers take as `environment_factory`; a hint of grade 1 costs so many blanks."""
    return environment_factory(size=SIZE, hint_cost=hint_cost)


@cache
def tokenizer() -> PreTrainedTokenizerFast:
    """A token for each word and mark of what is said in games; other words are one unknown token."""
    split = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()])
    games = [message for row in expert_rows(200, size=SIZE, clues=9, hints=1.0) for message in row["completion"]]
    said = [SAID, *PARAMETERS, "1 2 3 4", *(message["content"] for message in games if message["role"] == "tool")]
    words = sorted({word for text in said for word, _ in split.pre_tokenize_str(text)} | {*PARAMETERS})
    vocabulary = {word: index for index, word in enumerate(["<unknown>", *TAGS, *words])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unknown>"))
    backend.pre_tokenizer = split
    backend.add_tokens([AddedToken(tag) for tag in (*TAGS[1:], "give_up")])
    backend.add_special_tokens([AddedToken("<end>", special=True)])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="<end>", pad_token="<end>", unk_token="<unknown>", chat_template=TEMPLATE
    )


def games(count: int, seed: int, *, held_out: bool, clues: tuple[int, int], hints: float = 0.0) -> list[dict[str, Any]]:
    """Rows with the puzzle as "prompt", its "puzzle", and the ladder's game as "completion".

    Args:
        count: How many rows.
        seed: Of the puzzles.
        held_out: Whether their grids are those for tests.
        clues: Least and greatest number of givens.
        hints: The share of digits before which the ladder asks for a hint.
    """
    found: list[dict[str, Any]] = []
    for row in _drawn(seed, clues, hints):
        if len(found) == count:
            break
        if _for_tests(row["puzzle"]) == held_out:
            prompt = [{"role": "user", "content": format_board(parse_board(row["puzzle"]))}]
            found.append({"prompt": prompt, "puzzle": row["puzzle"], "completion": row["completion"]})
    return found


def _drawn(seed: int, clues: tuple[int, int], hints: float) -> Iterator[Any]:
    part = 0
    while True:
        yield from expert_rows(256, size=SIZE, clues=clues, seed=1000 * seed + part, reasons=False, hints=hints)
        part += 1


def _for_tests(puzzle: str) -> bool:
    grid = solve(parse_board(puzzle))
    assert grid is not None
    return hashlib.sha256(to_string(grid).encode()).digest()[0] % 4 == 0


def trajectories(rows: Sequence[dict[str, Any]]) -> TrajectoryDataset:
    """The ladder's games as tokens and labels."""
    tools = list(methods_of(SudokuTools(SudokuText(size=SIZE, tools=True))).values())
    return TrajectoryDataset(rows, tokenizer(), tools, CALLS)


def solved(environments: Sequence[SudokuTools], **columns: Any) -> list[float]:
    """1 for a grid that is solved, else 0, whatever its hints cost."""
    return [float(each.game.info()["solved"]) for each in environments]


def hints(environments: Sequence[SudokuTools], **columns: Any) -> list[float]:
    """How many hints were asked for."""
    return [float(each.game.info()["hints"]) for each in environments]
