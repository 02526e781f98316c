import json
import re

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import ImageColor

from sudoku_env import SudokuText, explain, generate, parse_puzzle, text_rows
from sudoku_env.board import is_solved, to_string
from sudoku_env.chat.game import hint_grade
from sudoku_env.chat.moves import Move, read_move
from sudoku_env.envs import rendering
from sudoku_env.errors import BoardError, SudokuError
from tests.helpers.refusals import refused

PUZZLE = "1..4|..12|21..|.3.."
SOLUTION = "1234341221434321"


def begun(**arguments):
    env = SudokuText(size=4, **arguments)
    env.reset(options={"puzzle": PUZZLE})
    return env


def right_moves():
    """The nine placements that solve the puzzle."""
    blanks = [k for k, symbol in enumerate(PUZZLE.replace("|", "")) if symbol == "."]
    return [f"place {k // 4 + 1} {k % 4 + 1} {SOLUTION[k]}" for k in blanks]


@pytest.mark.parametrize(("size", "clues"), [(4, 6), (6, 16), (9, 32)])
def test_puzzles_have_the_clues_that_were_asked_for(size, clues):
    env = SudokuText(size=size, clues=clues)
    for seed in range(5):
        text, info = env.reset(seed=seed)
        assert (info["puzzle"] > 0).sum() == info["clues"] == clues
        np.testing.assert_array_equal(parse_puzzle(text), info["puzzle"])
        np.testing.assert_array_equal(generate(1, size=size, clues=clues, seed=seed).boards[0], info["puzzle"])
        assert info["seed"] == seed and text in env.observation_space


def test_a_later_reset_can_be_repeated_by_its_seed():
    env = SudokuText(size=4)
    env.reset(seed=0)
    _, info = env.reset()
    np.testing.assert_array_equal(SudokuText(size=4).reset(seed=info["seed"])[1]["puzzle"], info["puzzle"])


def test_the_solution_by_words():
    env = begun()
    for number, move in enumerate(right_moves(), start=1):
        reply, reward, terminated, truncated, info = env.step(f"I think, so:\n{move}")
        assert (reward, terminated, truncated) == (float(number == 9), number == 9, False)
        assert info["turns"] == number and not info["illegal"]
    assert "complete and right" in reply and info["solved"] and is_solved(info["board"]) and env.score == 1.0
    refused("reset", lambda: env.step("hint"), gymnasium.error.ResetNeeded)
    assert env.hint() == "The game is over." and env.log()["moves"][-1].endswith(right_moves()[-1])


def test_the_solution_by_calls_is_the_same_episode():
    spoken, called = begun(), begun()
    for move in right_moves():
        spoken.step(move)
        called.place(*map(int, move.split()[1:]))
    assert spoken.log() == called.log() and spoken.messages == called.messages
    assert [message["role"] for message in spoken.messages[:3]] == ["user", "assistant", "user"]


REFUSED = {
    "place 1 2 1": "row 1 already holds 1 (row 1, column 1)",
    "place 2 1 2": "row 2 already holds 2 (row 2, column 4)",
    "place 4 1 2": "column 1 already holds 2 (row 3, column 1)",
    "place 4 1 1": "column 1 already holds 1 (row 1, column 1)",
    "place 1 1 3": "row 1, column 1 is given by the puzzle and stays 1",
    "place 0 2 3": "row must be from 1 to 4, got 0",
    "place 1 5 3": "column must be from 1 to 4, got 5",
    "place 1 2 9": "digit must be from 1 to 4, got 9",
    "erase 1 1": "row 1, column 1 is given by the puzzle and stays 1",
    "erase 1 2": "row 1, column 2 is empty already",
    "undo": "nothing is left to undo",
    "place 1 2": "place is written `place ROW COLUMN DIGIT`",
    "place 1 2 3 4": "place is written `place ROW COLUMN DIGIT`",
    "place 1 2 ٣": "place is written `place ROW COLUMN DIGIT`",
    "hint me": "hint is written `hint`",
    "placed 1 2 3": "the last line is no move: 'placed 1 2 3'",
    "two in row 1": "the last line is no move: 'two in row 1'",
    "place 1 2 2\nor not": "the last line is no move: 'or not'",
    " \n\n": "the message is empty",
    "x" * 5000: "the message has more than 4096 characters and was not read",
    "🙂": "the last line is no move: '\\U0001f642'",
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_wrong_is_said_and_the_board_stays(message):
    env = begun()
    reply, reward, terminated, truncated, info = env.step(message)
    assert reply.startswith(f"Refused: {REFUSED[message]}") and reply in env.observation_space
    assert (reward, terminated, truncated, info["illegal"], info["turns"]) == (0.0, False, False, True, 1)
    np.testing.assert_array_equal(info["board"], info["puzzle"])


@pytest.mark.parametrize(
    "values", [("1", 2, 3), (1.0, 2, 3), (None, 2, 3), (True, 2, 3), (10**5000, 2, 3), ("1\nhint", 2, 3)]
)
def test_calls_with_values_of_other_types_are_refused(values):
    env = begun()
    assert env.place(*values).startswith("Refused: place is written")
    assert env.info()["illegal"] and env.info()["hints"] == 0


def test_a_digit_that_is_only_wrong_is_not_told_from_a_right_one():
    env = begun()
    wrong, right = env.step("place 2 2 4")[0], env.step("place 2 1 3")[0]
    assert wrong.splitlines()[0] == "Row 2, column 2 is now 4." and right.splitlines()[0] == "Row 2, column 1 is now 3."
    assert wrong.count("\n") == right.count("\n") and env.log()["rewards"][0] == 0.0 == env.log()["rewards"][1]


def test_hints_are_the_steps_of_the_ladder_and_cost():
    env = begun()
    first = explain(env.info()["board"], "backbone")[0]
    reply, reward, *_, info = env.step("hint")
    assert reply.startswith(f"Hint (grade {hint_grade(first.rule)}): {first}")
    assert reward == pytest.approx(-1 / 9) and info["hints"] == 1 and info["hint_costs"] == pytest.approx(1 / 9)


def test_who_copies_hints_gets_nothing():
    env = begun()
    while not env.over:
        step = explain(env.info()["board"], "backbone")[0]
        assert str(step) in env.hint()
        env.place(step.cell // 4 + 1, step.cell % 4 + 1, step.digit)
    assert env.info()["solved"] and env.score == pytest.approx(0.0)


def test_a_hint_names_a_wrong_digit_first():
    env = begun()
    assert "is now 4" in env.place(2, 1, 4)
    assert "Hint (grade 1): 4 in row 2, column 1 is wrong; erase it." in env.hint()


def test_eliminations_are_told_once_and_lead_to_a_digit():
    env = SudokuText(size=9)
    env.reset(options={"puzzle": "..............3.9.79.....31.1.58...3.3..7.2..96.3..4...25...3..4......2.3.67....5"})
    eliminations, grades = [], set()
    while not env.over:
        told = env.hint().partition("\n")[0]
        grades.add(told[: len("Hint (grade 1")])
        if placed := re.search(r", so row (\d), column (\d) is (\d)\.$", told):
            assert "is now" in env.place(*map(int, placed.groups()))
        else:
            assert told not in eliminations
            eliminations.append(told)
    assert env.info()["solved"]
    assert grades == {"Hint (grade 1", "Hint (grade 2", "Hint (grade 3"}  # singles, locked candidates, a naked pair


def test_grades():
    rules = ("naked_single", "hidden_single", "pointing", "hidden_pair", "turbot_fish", "backbone")
    assert list(map(hint_grade, rules)) == [1, 1, 2, 3, 8, 9]


@pytest.mark.parametrize("reward", ["cells", "definite"])
def test_shaped_rewards_sum_to_one_and_are_taken_back(reward):
    env = begun(reward=reward)
    moves = right_moves()
    rewards = [env.step(move)[1] for move in (moves[0], "erase 1 2", moves[0])]
    assert rewards == pytest.approx([1 / 9, -1 / 9, 1 / 9])
    for move in moves[1:]:
        env.step(move)
    assert env.info()["solved"] and env.score <= 1.0
    assert reward != "cells" or env.score == pytest.approx(1.0)


def test_undo_takes_back_the_last_change_and_then_the_one_before():
    env = begun(reward="definite")
    for move in ("place 2 1 3", "place 2 1 4", "erase 2 1"):
        env.step(move)
    replies = [env.undo().partition("\n")[0] for _ in range(4)]
    again = [f"Row 2, column 1 is {held} again." for held in (4, 3, "empty")]
    assert replies == [*again, "Refused: nothing is left to undo."]
    assert env.log()["rewards"] == pytest.approx([1 / 9, -1 / 9, 0, 0, 1 / 9, -1 / 9, 0])  # the credit comes back too


@pytest.mark.parametrize("tell", [False, True])
@pytest.mark.parametrize("answers", ["one", "any"])
def test_a_dead_end_costs_what_was_earned_and_is_told_where_asked_for(tell, answers):
    env = begun(reward="completable", tell_dead_ends=tell, answers=answers)
    moves = [right_moves()[0], "place 2 1 4", right_moves()[1], "undo", "undo"]
    turns = [env.step(move) for move in moves]
    assert [turn[1] for turn in turns] == pytest.approx([1 / 9, -1 / 9, 0, 0, 1 / 9])
    assert [turn[4]["dead_end"] for turn in turns] == [False, True, True, True, False]
    assert ["no solution is left" in turn[0] for turn in turns] == [False, tell, False, False, False]
    assert env.score == pytest.approx(1 / 9)


def test_messages_without_a_move_are_counted_apart_from_refused_and_wrong_ones():
    env = begun()
    seen = [env.step(move)[4] for move in ("well", "x" * 5000, "place 1 1 1", "place 2 1 4", "place 1 2")]
    assert [info["unparsed"] for info in seen] == [1, 2, 2, 2, 3]
    assert [info["illegal"] for info in seen] == [True, True, True, False, True]


def test_the_end_by_giving_up_and_by_turns():
    *_, terminated, truncated, info = begun().step("Give up")
    assert (terminated, truncated, info["solved"]) == (True, False, False)
    env = begun(max_turns=2)
    assert env.step("hm")[2:4] == (False, False)
    reply, _, terminated, truncated, _ = env.step("hm")
    assert (terminated, truncated) == (False, True) and reply.endswith("No turn is left. The game is over.")


WRONG = {"reward": "dense", "hint_cost": -1, "max_turns": 0, "max_characters": 0, "clues": 99, "rule": "guess"}
NEITHER = [("size", 16), ("size", 5), ("render_mode", "human"), ("max_turns", 2.5), ("show_board", "no")]


@pytest.mark.parametrize(("name", "value"), [*NEITHER, *WRONG.items()])
def test_arguments_out_of_range_are_refused(name, value):
    refused(name, lambda: SudokuText(**{name: value}), SudokuError)


def test_options_out_of_range_are_refused():
    env = SudokuText(size=4)
    refused("unknown options", lambda: env.reset(options={"index": 0}), SudokuError)
    refused("more than one", lambda: env.reset(options={"puzzle": "1" + "." * 15}), BoardError)
    refused("reset", lambda: env.step("hint"), gymnasium.error.ResetNeeded)
    env.reset(seed=0)
    refused("text", lambda: env.step(7), gymnasium.error.InvalidAction)


def test_rows_can_be_played_and_go_through_json():
    rows = text_rows(3, size=6, clues=16, rule="singles", seed=7)
    assert rows == json.loads(json.dumps(rows)) and rows[:2] == text_rows(2, size=6, clues=16, rule="singles", seed=7)
    for row in rows:
        env = SudokuText(size=row["size"], clues=row["clues"], rule=row["rule"])
        text, info = env.reset(seed=row["seed"])
        assert row["prompt"] == [{"role": "user", "content": text}] and to_string(info["puzzle"]) == row["puzzle"]


@settings(max_examples=100)
@given(st.text(max_size=60), st.sampled_from(["", "place ", "erase 1 ", "hint", "\nplace 1 2 "]))
def test_no_message_raises_and_replies_are_observations(text, start):
    env = begun()
    reply, *_ = env.step(start + text)
    assert reply in env.observation_space


@given(st.sampled_from([("place", 3), ("erase", 2), ("undo", 0), ("hint", 0), ("give_up", 0)]), st.data())
def test_a_move_is_read_as_it_is_written(kind, data):
    name, count = kind
    move = Move(name, tuple(data.draw(st.integers(0, 999)) for _ in range(count)))
    assert read_move(str(move)) == read_move(f"because\n`{name.upper()}({', '.join(map(str, move.numbers))})`") == move


def test_pictures_of_the_board_stand_in_for_its_text_and_do_not_tell_right_from_wrong():
    env = SudokuText(size=4, picture=True, render_mode="rgb_array")
    text, info = env.reset(seed=3)
    blank = int(np.flatnonzero(info["puzzle"] == 0)[0])
    row, column = divmod(blank, 4)
    seen = set()
    for digit in range(1, 5):
        reply, *_, info = env.step(f"place {row + 1} {column + 1} {digit}")
        if not info["illegal"]:
            told, shown = env.messages[-1]["content"][1]["text"], env.messages[-1]["content"][0]["image"]
            assert "\n" not in told and reply.startswith(f"{told}\n\n") and (np.array(shown) == env.render()).all()
            seen |= {tuple(pixel) for pixel in env.render().reshape(-1, 3).tolist()}
    told = rendering.WRONG, rendering.WRONG_INK, rendering.GUESSED, rendering.DEFINITE
    assert ImageColor.getrgb(rendering.DEDUCED) in seen
    assert not seen & {*map(ImageColor.getrgb, told)}
    first, rows = env.messages[0]["content"], text_rows(1, size=4, picture=True)
    assert parse_puzzle(text) is not None and "row a line" not in first[1]["text"] and first[0]["type"] == "image"
    env.reset(options={"puzzle": rows[0]["puzzle"]})
    shown = [prompt["content"][0]["image"].tobytes() for prompt in (env.messages[0], rows[0]["prompt"][0])]
    assert shown[0] == shown[1] and rows[0]["prompt"][0]["content"][1] == env.messages[0]["content"][1]
