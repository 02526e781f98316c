"""Whatever reads a foreign text takes time that grows with its length: ten times as long, about ten times the time."""

import gc
import time
from collections.abc import Callable, Sequence

import pytest

from llm_rl.raro.labels import escape_answer, parse_label, quoted_spans
from llm_rl.raro.prompts import Prompts, extract_answer
from llm_rl.rollout.spans import find_tagged_text, incremental_offsets
from llm_rl.rollout.special_tokens import break_tokens
from scripts.shared.word_problems import correct
from sudoku_env import SudokuError, default_puzzles, parse_board, parse_puzzle, to_string
from sudoku_env.chat.moves import read_move
from sudoku_env.chat.rewards import cells_reward, format_reward, reasoning_reward
from sudoku_env.prompts.scoring import read_answer
from sudoku_env.scoring import partial_score
from tests.dllm_rl.helpers import tiny_text

PUZZLE, SOLUTION = to_string(default_puzzles(4).boards[0]), to_string(default_puzzles(4).solutions[0])


def refusing(read: Callable[[str], object]) -> Callable[[str], object]:
    def call(text: str) -> object:
        try:
            return read(text)
        except SudokuError:
            return None

    return call


FUNCTIONS: dict[str, Callable[[str], object]] = {
    "parse_puzzle": refusing(parse_puzzle),
    "parse_board": refusing(parse_board),
    "read_answer_of_size_16": lambda text: read_answer(text, 16),
    "partial_score": lambda text: partial_score(text, PUZZLE, SOLUTION),
    "read_move": refusing(read_move),
    "format_reward": lambda text: format_reward([None], [text], puzzle=[PUZZLE]),
    "cells_reward": lambda text: cells_reward([None], [text], puzzle=[PUZZLE], solution=[SOLUTION]),
    "reasoning_reward": lambda text: reasoning_reward([None], [text], puzzle=[PUZZLE], solution=[SOLUTION]),
    "correct": lambda text: correct(text, {"result": "3"}),
    "parse_label": lambda text: parse_label(f"{text}[Tie]{text}", True, (text, f"{text}[Tie]")),
    "escape_answer": escape_answer,
    "quoted_spans": quoted_spans,
    "extract_answer": extract_answer,
    "for_critic": lambda text: Prompts().for_critic(text, "e", "p", True, ("<|im_end|>", "<s>", "|")),
    "break_tokens": lambda text: break_tokens(text, ("<|im_end|>", "<s>", "|")),
    "find_tagged_text": lambda text: find_tagged_text(text, "<REASONING>", "</REASONING>"),
}
FRAGMENTS = (
    *(" ", "\t", "\u00a0", "\n", "\ud800", "²", "a", "1", ".", "-", "|", ":", "[", "<", "`", "'", '"'),
    *("|\t", "> \t", "row\t", "r1", "a :", "1 | ", "1x1", "- ", "---+---\n", "1 2 3 4\n", "1234", "1\n", "A 1 2 3 4 "),
    *("<REASONING>", "</REASONING>", "</REASONING>\t<RESPONSE>", "</RESPONSE>", "<answer>", "so row 1, column 1 is "),
    *("[Answer 1]", "[Answer \t", "[Tie] a ", "[Answer 1] and ", "- [Tie]\n", "< answer_1", "<answer_1>"),
    *("```\n", "\"a\" ", "'a", "“a", "”“", "\n\t", "\n\n\"", "1,000", "\\\\", "{question}"),
)  # fmt: skip
FRAMES = (("", ""), ("", "?"), ("<REASONING>", "</REASONING>"))
Pattern = tuple[str, str, str]
PATTERNS = [(before, fragment, behind) for fragment in FRAGMENTS for before, behind in FRAMES]
FLOOR = 0.004
"""Seconds of CPU time below which growth is not looked at."""
STEEP = 40
"""Ten times the length takes ten times as long where time is linear, a hundred times where it is quadratic."""


def cpu_time(function: Callable[[str], object], text: str) -> float:
    """Seconds without garbage collection, whose time grows with everything else that lives in this process."""
    gc.disable()
    try:
        begin = time.process_time()
        function(text)
        return time.process_time() - begin
    finally:
        gc.enable()


def growth(function: Callable[[str], object], pattern: Pattern, lengths: Sequence[int]) -> float:
    """How much longer the first length that takes time takes than a tenth of it; 0 where none does.

    The least of three measurements: what else the interpreter does now and then is no growth.
    """
    before, fragment, behind = pattern
    for length in lengths:
        short, long = (before + fragment * (size // len(fragment)) + behind for size in (length // 10, length))
        taken = cpu_time(function, long)
        if taken < FLOOR:
            continue
        least = taken / cpu_time(function, short)
        for _ in range(2):
            if least >= STEEP:
                least = min(least, cpu_time(function, long) / cpu_time(function, short))
        return least
    return 0.0


def steep(
    function: Callable[[str], object], patterns: Sequence[Pattern], lengths: Sequence[int]
) -> dict[Pattern, float]:
    """The patterns of which a function takes more than linear time, and how much longer."""
    ratios = {pattern: growth(function, pattern, lengths) for pattern in patterns}
    return {pattern: ratio for pattern, ratio in ratios.items() if ratio >= STEEP}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_ten_times_the_text_takes_about_ten_times_as_long(name):
    assert steep(FUNCTIONS[name], PATTERNS, (3_000, 12_000, 48_000)) == {}


@pytest.mark.long
@pytest.mark.parametrize("turn", range(len(FUNCTIONS)))
def test_time_grows_with_the_length_up_to_a_megabyte(turn):
    """A third of the patterns for each function, every pattern for a third of the functions."""
    assert steep([*FUNCTIONS.values()][turn], PATTERNS[turn % 3 :: 3], (1_000_000,)) == {}


@pytest.mark.parametrize("share", ["all of them", "every other one"])
def test_offsets_of_bytes_that_form_no_character_take_time_by_their_number(share):
    tokenizer = tiny_text.tokenizer()
    loose = [i for i in range(len(tokenizer)) if tokenizer.decode([i]) == "\ufffd"]
    ids = (loose[:1] if share == "all of them" else [loose[0], loose[-1]]) * 4000

    def read(text: str) -> object:
        return incremental_offsets(ids[: len(text)], tokenizer)

    assert growth(read, ("", "b", ""), (3000,)) < STEEP
