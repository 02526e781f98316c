"""Sources of puzzles: what they refuse, and that both environments play any of them."""

import gymnasium
import numpy as np
import pytest

from sudoku_env import PromptPool, PuzzlePool, Puzzles, build_prompt, default_puzzles, parse_board
from sudoku_env.errors import BoardError, PuzzleParseError, SudokuError
from tests.helpers.refusals import refused
from tests.sudoku_env.helpers.environments import BOARD, UNMASK

BOARDS = ["1...|..3.|.1..|...2", "1..4|..12|21..|.3.."]
SIX = default_puzzles(6).boards[0]
NAMES = [BOARD, UNMASK]
GOOD = Puzzles.of(BOARDS)


@pytest.mark.parametrize(
    ("boards", "message"),
    [
        ([], "boards is empty"),
        ([BOARDS[0], "." * 16], "board 1 has more than one solution"),
        (["11.............."], "board 0 has no solution"),
        (["1234341221434321"], "board 0 has no blank"),
        ([SIX, BOARDS[0]], "36 cells"),
        (["1" * 25], "25"),
    ],
)
def test_boards_without_one_solution_make_no_puzzles(boards, message):
    refused(message, lambda: Puzzles.of(boards), BoardError)


def test_puzzles_of_boards_have_their_solutions():
    assert GOOD.boards.tolist() == [parse_board(board).tolist() for board in BOARDS]
    assert GOOD.solutions[0].tolist() == [1, 3, 2, 4, 4, 2, 3, 1, 2, 1, 4, 3, 3, 4, 1, 2]


@pytest.mark.parametrize(
    ("boards", "solutions", "message"),
    [
        (GOOD.boards[:0], GOOD.solutions[:0], "N > 0"),
        (GOOD.boards, GOOD.solutions[:1], r"got \(2, 16\) and \(1, 16\)"),
        (GOOD.boards, GOOD.solutions[::-1], "puzzle 0 has a solution that does not belong to it"),
        (GOOD.boards, GOOD.boards, "puzzle 0 has a solution that"),
        (np.stack([GOOD.boards[0], GOOD.solutions[1]]), GOOD.solutions, "puzzle 1 has no blank"),
        (GOOD.boards[:, :9], GOOD.solutions[:, :9], "9"),
    ],
)
def test_a_pool_refuses_what_cannot_be_played(boards, solutions, message):
    refused(message, lambda: PuzzlePool(Puzzles(boards, solutions)), BoardError)
    refused(r"expected Puzzles, got list; Puzzles\.of", lambda: PuzzlePool(BOARDS), SudokuError)


@pytest.mark.parametrize("prompts", [[], "sudoku 4x4 1..4..1221...3..", [3], [None]])
def test_prompts_are_a_list_of_texts(prompts):
    refused("list of at least one text", lambda: PromptPool(prompts), SudokuError)


def test_prompts_hold_a_puzzle_each():
    refused("no puzzle", lambda: PromptPool([build_prompt(BOARDS[0]), "nothing here"]), PuzzleParseError)
    both = PromptPool([build_prompt(BOARDS[0]), build_prompt(SIX)])
    refused("expected 16 cells for size 4, got 36", lambda: both.puzzles, BoardError)
    refused("cells", lambda: gymnasium.make(NAMES[0], source=both), BoardError)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("source", [PuzzlePool(GOOD), PromptPool([build_prompt(b) for b in BOARDS])])
def test_both_environments_play_both_kinds(name, source):
    env = gymnasium.make(name, source=source).unwrapped
    envs = gymnasium.make_vec(name, num_envs=2, source=source)
    for number, board in enumerate(source.puzzles.boards):
        env.reset(options={"index": number})
        envs.reset(options={"index": number})
        played = env._state.boards[0] if name == BOARD else env.layout.puzzle
        np.testing.assert_array_equal(played, board)
        np.testing.assert_array_equal(envs.solutions, source.puzzles.solutions[[number, number]])


def test_the_same_draws_whichever_environment_plays():
    source = PuzzlePool(default_puzzles(4))
    board, tokens = (gymnasium.make(name, source=source).unwrapped for name in NAMES)
    for seed in (0, None, None, 7):
        obs, _ = board.reset(seed=seed)
        tokens.reset(seed=seed)
        np.testing.assert_array_equal(obs, tokens.layout.puzzle)


class OnePuzzle:
    """A source of somebody else's, always the same puzzle."""

    puzzles, prompts, shuffled = Puzzles.of(BOARDS[:1]), None, False


@pytest.mark.parametrize("name", NAMES)
def test_any_object_with_the_three_attributes_is_a_source(name):
    env = gymnasium.make(name, source=OnePuzzle())
    assert (env.reset(seed=0)[0] == env.reset()[0]).all()
