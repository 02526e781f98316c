"""The answer layout `bare`: the response alone says which puzzle it is."""

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

from sudoku_env import PuzzlePool, UnmaskEnv, default_puzzles, definite_digits, generate
from sudoku_env.board import SIZES
from sudoku_env.errors import TokenLayoutError
from sudoku_env.prompts.char_tokenizer import CharTokenizer
from sudoku_env.prompts.text import ANSWER_LAYOUTS, TEMPLATES, build_prompt
from sudoku_env.prompts.tokens import TokenLayout, detect_definite, judge_error, pre_fill, reference_ids
from tests.helpers.refusals import refused
from tests.sudoku_env.helpers.environments import right

FOUR = "1..4..1..3..2..."
NINE = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"


class WithBos(CharTokenizer):
    bos_token_id = CharTokenizer.eos_token_id


CHAR, BOS = CharTokenizer(), WithBos()


def test_by_hand():
    token_ids, filled, prompt_length, map_range = pre_fill(build_prompt(FOUR), CHAR, 42, layout="bare", opening="")
    text = "| 1 ? ? 4 | ? ? 1 ? | ? 3 ? ? | 2 ? ? ?"
    assert CHAR.decode(token_ids).replace("<mask>", "?") == text + "?" * 3
    assert (prompt_length, map_range) == (0, (2, 39))
    assert filled == [index for index, character in enumerate(text) if character != "?"]


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_wording_and_the_system_prompt_are_left_out(template):
    prefilled = pre_fill(build_prompt(NINE, template), BOS, 189, system_prompt="Be brief.", layout="bare")
    assert (prefilled.prompt_length, prefilled.layout.name) == (1, "bare")
    same = pre_fill(build_prompt(NINE), BOS, 189, layout="bare")
    assert prefilled.token_ids == same.token_ids and prefilled.token_ids[0] == BOS.bos_token_id
    response = reference_ids(prefilled, CHAR.eos_token_id)
    text, _ = ANSWER_LAYOUTS["bare"].write(prefilled.layout.solution, "Solution:")
    assert CHAR.decode(response, skip_special_tokens=True) == text


def test_it_must_be_named():
    class NoNewline(CharTokenizer):
        """Only `bare` would suit it: words between spaces do, line ends and letters do not."""

        def encode(self, text, add_special_tokens=False):
            ids = super().encode(text.replace("\n", " "))
            return ids if "|" in text else ids[::2]

    with pytest.raises(TokenLayoutError, match=r"tried spaced: .* lettered: ") as error:
        pre_fill(build_prompt(FOUR), NoNewline(), 60)
    assert "bare" not in str(error.value)
    assert pre_fill(build_prompt(FOUR), NoNewline(), 60, layout="bare").layout.name == "bare"


@given(size=st.sampled_from([4, 6, 9]), seed=st.integers(0, 50), data=st.data())
@settings(max_examples=30)
def test_definite_cells_and_errors_are_those_of_the_board(size, seed, data):
    puzzles = generate(1, size=size, clues={4: 6, 6: 16, 9: 32}[size], seed=seed)
    puzzle, solution = puzzles.boards[0], puzzles.solutions[0]
    prefilled = pre_fill(build_prompt(puzzle), CHAR, 400, layout="bare")
    layout, state = prefilled.layout, np.array(prefilled.token_ids)
    cells = layout.prompt_length + layout.cell_positions
    kept = data.draw(st.lists(st.booleans(), min_size=puzzle.size, max_size=puzzle.size))
    board = np.where((puzzle > 0) | kept, solution, 0)
    state[cells[board > 0]] = layout.digit_ids[board[board > 0] - 1]
    np.testing.assert_array_equal(layout.read_boards(state), board)
    assert detect_definite(state, layout) == layout.cell_positions[definite_digits(board) > 0].tolist()
    assert not judge_error(state, layout)
    blank = data.draw(st.sampled_from(np.flatnonzero(puzzle == 0).tolist()))
    state[cells[blank]] = layout.digit_ids[solution[blank] % size]
    assert judge_error(state, layout)


def test_a_state_alone_does_not_give_the_layout_back():
    state = pre_fill(build_prompt(FOUR), CHAR, 60, layout="bare").token_ids
    no_prompt = "layout 'bare' has no prompt.*keep the layout that pre_fill returned"
    refused(no_prompt, lambda: TokenLayout.from_state(state, CHAR, layout="bare"), TokenLayoutError)
    refused("found none", lambda: TokenLayout.from_state(state, CHAR), TokenLayoutError)


@pytest.mark.parametrize("tokenizer", [CHAR, BOS], ids=["without bos", "with bos"])
def test_an_environment_plays_in_it(tokenizer):
    env = UnmaskEnv(source=PuzzlePool(default_puzzles(4)), tokenizer=tokenizer, answer_layout="bare")
    check_env(env, skip_render_check=True)
    env.reset(seed=0)
    layout = env.layout
    assert layout.prompt_length == (tokenizer.bos_token_id is not None)
    blanks = np.flatnonzero(layout.puzzle == 0)
    results = [env.step(right(env, cell)) for cell in blanks]
    assert sum(reward for _, reward, *_ in results) > 0
    assert not any(terminated for _, _, terminated, *_ in results[:-1])


@pytest.mark.parametrize("size", SIZES)
def test_marks_stand_before_rows(size):
    board = generate(1, size=size, clues=None, seed=0).solutions[0]
    text, offsets = ANSWER_LAYOUTS["bare"].write(board, "")
    rows = text.split("| ")
    assert rows[0] == "" and [len(row.split()) for row in rows[1:]] == [size] * size
    assert len(offsets) == size * size
