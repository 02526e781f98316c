"""What nobody sees in a prompt does no harm, or is named."""

import re
from functools import partial

import pytest

from sudoku_env import parse_board, parse_puzzle, pre_fill
from sudoku_env.errors import BoardError, PuzzleParseError
from sudoku_env.invisible import invisible_characters
from sudoku_env.prompts.char_tokenizer import CharTokenizer
from tests.helpers.refusals import refused

PACKED = "1..4..1221...3.."
GRID = "1 . . 4\n. . 1 2\n2 1 . .\n. 3 . .\n"
NAMES = {
    "\u200b": "U+200B ZERO WIDTH SPACE", "\ufeff": "U+FEFF ZERO WIDTH NO-BREAK SPACE", "\u00ad": "U+00AD SOFT HYPHEN",
    "\u2060": "U+2060 WORD JOINER", "\u202a": "U+202A LEFT-TO-RIGHT EMBEDDING",
    "\ufe0f": "U+FE0F VARIATION SELECTOR-16", "\x00": "U+0000",
}  # fmt: skip


@pytest.mark.parametrize("character", NAMES)
def test_what_keeps_a_grid_from_being_found_is_named_with_its_position(character):
    found = f"; invisible: {re.escape(NAMES[character])} at"
    for text, where in [
        (character + GRID, "line 1, character 1"),
        (GRID.replace(". . 1 2", f". .{character} 1 2"), "line 2, character 4"),
        (f"sudoku 4x4 {PACKED[:4]}{character}{PACKED[4:]}", "line 1, character 16"),
    ]:
        for reader in (parse_puzzle, partial(pre_fill, tokenizer=CharTokenizer(), max_gen_length=90)):
            with pytest.raises(PuzzleParseError, match=f"{found} {where}$"):
                reader(text)
    refused(f"{found} line 1, character 1$", lambda: parse_board(character + PACKED), BoardError)


@pytest.mark.parametrize("character", NAMES)
def test_amid_words_it_does_no_harm(character):
    assert (parse_puzzle(f"Solve{character} this:\n{GRID}") == parse_board(PACKED)).all()


@pytest.mark.parametrize("space", ["\u00a0", "\u2009", "\u3000", "\t"])
def test_spaces_of_any_width_separate_cells(space):
    for text in (space + GRID, GRID.replace(" ", space)):
        assert (parse_puzzle(text) == parse_board(PACKED)).all()
        assert (parse_board(text) == parse_board(PACKED)).all()


def test_an_error_of_a_grid_that_was_found_is_about_the_grid_alone():
    text = "Solve\u200b this:\n" + GRID.replace("1 . . 4", "1 . . 1")
    refused(r"^(?!.*invisible).*a contradiction", lambda: parse_puzzle(text), PuzzleParseError)


def test_many_are_counted_and_unusual_line_ends_are_among_them():
    assert invisible_characters("a\tb c\r\nd\n") == ""
    text = "\u200b" * 5 + "\u2028"
    assert invisible_characters(text).endswith("U+200B ZERO WIDTH SPACE at line 1, character 3 and 3 more")
    assert "U+2028 LINE SEPARATOR at line 1, character 2" in invisible_characters("a\u2028b")


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"prompt": None}, "prompt must be a text, got None"),
        ({"prompt": [{"role": "user", "content": PACKED}]}, "prompt must be a text, got [{'role'"),
        ({"tokenizer": None}, "tokenizer must have encode and decode, got None"),
        ({"tokenizer": "gpt2"}, "tokenizer must have encode and decode, got 'gpt2'"),
        ({"max_gen_length": None}, "max_gen_length must be a whole number, got None"),
        ({"max_gen_length": "90"}, "max_gen_length must be a whole number, got '90'"),
        ({"max_gen_length": 90.0}, "max_gen_length must be a whole number, got 90.0"),
        ({"system_prompt": None}, "system_prompt must be a text, got None"),
        ({"opening": 3}, "opening must be a text, got 3"),
        ({"mask_token_id": "x"}, "mask_token_id must be a whole number, got 'x'"),
        ({"layout": 3}, "layout must be a text, got 3"),
    ],
)
def test_an_argument_of_another_type_is_named(changed, told):
    right = {"prompt": f"sudoku 4x4 {PACKED}", "tokenizer": CharTokenizer(), "max_gen_length": 90}
    assert pre_fill(**right).layout.size == 4
    refused(f"^{re.escape(told)}", lambda: pre_fill(**{**right, **changed}), TypeError)


@pytest.mark.parametrize("reader", [parse_puzzle, parse_board])
def test_readers_take_texts_alone(reader):
    refused("text must be a text, got None", lambda: reader(None), TypeError)
