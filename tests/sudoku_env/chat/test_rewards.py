import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudoku_env import default_puzzles, to_string
from sudoku_env.chat import rewards
from sudoku_env.chat.derivation import derive
from sudoku_env.chat.rewards import cells_reward, completion_text, exact_reward, format_reward, reasoning_reward
from sudoku_env.chat.rows import chat_answer
from sudoku_env.errors import BoardError, SudokuError
from tests.helpers.refusals import refused

PUZZLE, SOLUTION = "123.341221434.21", "1234341221434321"
STEPS = "so row 1, column 4 is 4. so row 4, column 2 is 3."
RIGHT = "1 2 3 4\n3 4 1 2\n2 1 4 3\n4 3 2 1"
ONE_WRONG = "1 2 3 4\n3 4 1 2\n2 1 4 3\n4 1 2 1"
GIVEN_CHANGED = "4 2 3 4\n3 4 1 2\n2 1 4 3\n4 3 2 1"
PACKED = "1234\n3412\n2143\n4321"


def answer(reasoning=STEPS, response=RIGHT):
    return f"<REASONING>\n{reasoning}\n</REASONING>\n<RESPONSE>\n{response}\n</RESPONSE>"


# text: format, cells, exact, reasoning
SCORES = {
    "right": (answer(), (1, 1, 1, 1)),
    "tags side by side": (answer().replace("\n<", "<").replace(">\n", ">"), (1, 1, 1, 1)),
    "space around": (f"\n {answer()}\n\n", (1, 1, 1, 1)),
    "packed grid": (answer(response=PACKED), (1, 1, 1, 1)),
    "one cell wrong": (answer(response=ONE_WRONG), (1, 0.5, 0, 1)),
    "a given changed": (answer(response=GIVEN_CHANGED), (1, 1, 0, 1)),
    "no conclusion": (answer(reasoning="It is easy."), (1, 1, 1, 0)),
    "half the conclusions": (answer(reasoning="so row 1, column 4 is 4."), (1, 1, 1, 0.5)),
    "taken back": (answer(reasoning=STEPS + " so row 1, column 4 is 2."), (1, 1, 1, 0.5)),
    "said twice": (answer(reasoning=STEPS + STEPS), (1, 1, 1, 1)),
    "about givens": (answer(reasoning=STEPS + " so row 1, column 1 is 2."), (1, 1, 1, 1)),
    "about cells beyond": (answer(reasoning=STEPS + " so row 9, column 0 is 7."), (1, 1, 1, 1)),
    "wrong conclusions": (answer(reasoning="so row 1, column 4 is 3. so row 4, column 2 is 31."), (1, 1, 1, 0)),
    "empty reasoning": (answer(reasoning=""), (0, 1, 1, 0)),
    "no board": (answer(response="I cannot tell."), (0, 0, 0, 1)),
    "puzzle repeated": (answer(response="1 2 3 .\n3 4 1 2\n2 1 4 3\n4 . 2 1"), (0, 0, 0, 1)),
    "a row short": (answer(response=RIGHT[:-8]), (0, 0, 0, 1)),
    "words before": (f"Sure. {answer()}", (0, 1, 1, 1)),
    "words after": (f"{answer()} Done.", (0, 1, 1, 1)),
    "cut off": (answer()[: -len("\n</RESPONSE>")], (0, 1, 1, 1)),
    "cut off in the grid": (answer()[: -len("2 1\n</RESPONSE>")], (0, 0, 0, 1)),
    "cut off in the reasoning": (answer()[:45], (0, 0, 0, 0.5)),
    "wrong order": (f"<RESPONSE>\n{RIGHT}\n</RESPONSE>\n<REASONING>\n{STEPS}\n</REASONING>", (0, 1, 1, 1)),
    "nested": (f"<REASONING>\n{STEPS}\n<RESPONSE>\n{RIGHT}\n</RESPONSE>\n</REASONING>", (0, 1, 1, 1)),
    "twice, the last right": (answer(response=ONE_WRONG) + answer(), (0, 1, 1, 1)),
    "twice, the last wrong": (answer() + answer(response=ONE_WRONG), (0, 0.5, 0, 1)),
    "grid in the reasoning alone": (f"<REASONING>\n{RIGHT}\n</REASONING>", (0, 0, 0, 0)),
    "grid without tags": (RIGHT, (0, 0, 0, 0)),
    "lower case": (answer().lower(), (0, 0, 0, 0)),
    "response alone": (f"<RESPONSE>{RIGHT}</RESPONSE>", (0, 1, 1, 0)),
    "reasoning alone": (f"<REASONING>{STEPS}</REASONING>", (0, 0, 0, 1)),
    "nothing": ("", (0, 0, 0, 0)),
}
REWARDS = (format_reward, cells_reward, exact_reward, reasoning_reward)


@pytest.mark.parametrize("name", SCORES)
def test_hand_made_answers(name):
    text, expected = SCORES[name]
    for completion in (text, [{"role": "assistant", "content": text}]):
        columns = {"prompts": ["…"], "completions": [completion], "puzzle": [PUZZLE], "solution": [SOLUTION]}
        assert tuple(reward(**columns, completion_ids=[[1]], seen=[None])[0] for reward in REWARDS) == expected


def test_each_sample_is_scored_by_its_own_columns():
    boards, solutions = default_puzzles(4).boards[:3], default_puzzles(4).solutions[:3]
    texts = [chat_answer(derive(board)) for board in boards]
    columns = {"puzzle": list(map(to_string, boards)), "solution": list(map(to_string, solutions))}
    assert exact_reward(["?"] * 3, texts, **columns) == [1.0, 1.0, 1.0]
    assert exact_reward(["?"] * 3, texts[1:] + texts[:1], **columns) == [0.0, 0.0, 0.0]
    assert all(type(value) is float for reward in REWARDS for value in reward(["?"] * 3, texts, **columns))


def test_given_digits_that_are_kept():
    texts = [answer(), answer(response=ONE_WRONG), answer(response=GIVEN_CHANGED), "nothing"]
    found = rewards.givens_reward(["?"] * 4, texts, puzzle=[PUZZLE] * 4, solution=[SOLUTION] * 4)
    assert found == [1.0, 1.0, pytest.approx(13 / 14), 0.0]


@given(st.text(alphabet="<>/REASONGPcolumnrw,. is1234|\n\u0661", max_size=120))
def test_no_text_raises(text):
    for completion in (text, answer(reasoning=text), answer(response=text)):
        for reward in REWARDS:
            (value,) = reward([None], [completion], puzzle=[PUZZLE], solution=[SOLUTION])
            assert 0 <= value <= 1


def test_text_of_a_completion():
    said = {"role": "assistant", "content": "a"}
    assert completion_text("a") == completion_text([{"content": "b"}, said]) == "a"
    assert completion_text(None) == completion_text([]) == completion_text([said | {"content": None}]) == ""
    parts = said | {"content": [{"type": "text", "text": "a"}]}
    refused("join its parts", lambda: completion_text([parts]), TypeError)


def test_puzzles_that_do_not_fit():
    several = "2 completions but 1 values of 'puzzle'"
    refused(several, lambda: format_reward([None] * 2, ["a", "b"], puzzle=[PUZZLE]), SudokuError)
    refused("2 cells", lambda: format_reward([None], ["a"], puzzle=["12"]), BoardError)


@pytest.mark.parametrize("reward", REWARDS[1:])
@pytest.mark.parametrize(
    ("puzzle", "solution", "message", "error"),
    [
        (PUZZLE, [], "1 completions but 0 values of 'solution'", SudokuError),
        ("2" + PUZZLE[1:], [SOLUTION], "changes a digit", BoardError),
        (SOLUTION, [SOLUTION], "no blank", BoardError),
    ],
)
def test_solutions_that_do_not_fit(reward, puzzle, solution, message, error):
    refused(message, lambda: reward([None], ["a"], puzzle=[puzzle], solution=solution), error)
