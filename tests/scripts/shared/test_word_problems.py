import re
from operator import add, floordiv, mul, sub

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_rl.raro import extract_answer
from scripts.shared import word_problems
from scripts.shared.word_problems import SPLITS, Sizes, WordProblem, correct, draw_problem, split_of

SIGNS = {"+": add, "-": sub, "*": mul, "/": floordiv}
PROBLEM = WordProblem(12, (("add", 6), ("divide", 3), ("multiply", 4), ("subtract", 5)), 0, 6, (0, 0, 1, 1))


def numbers(text):
    return [int(number) for number in re.findall(r"[0-9]+", text)]


def test_a_problem_in_full():
    assert PROBLEM.row() == {
        "question": "Ada has 12 shells. She finds 6 more shells. She splits the shells into 3 equal piles and keeps "
        "one pile. A spell turns each of the shells into 4. She gives 5 shells away. "
        "How many shells does Ada have now?",
        "answer": "<REASONING>\n12 + 6 = 18\n18 / 3 = 6\n6 * 4 = 24\n24 - 5 = 19\n</REASONING>\nThe answer is 19.",
        "result": "19",
    }
    assert PROBLEM.key == "12 + 6 / 3 * 4 - 5"


@settings(max_examples=100)
@given(
    seed=st.integers(0, 2**32),
    fewest=st.integers(1, 4),
    more=st.integers(0, 3),
    sizes=st.builds(Sizes, st.integers(2, 60), st.integers(10, 1200)),
)
def test_the_expert_is_right(seed, fewest, more, sizes):
    problem = draw_problem(np.random.default_rng(seed), (fewest, fewest + more), sizes)
    row = problem.row()
    equations = re.findall(r"(\d+) ([-+*/]) (\d+) = (\d+)", row["answer"])
    assert fewest <= len(equations) == len(problem.steps) <= fewest + more
    value = numbers(row["question"])[0]
    for before, sign, number, after in equations:
        assert int(before) == value
        value = SIGNS[sign](value, int(number))
        assert sign != "/" or int(before) % int(number) == 0
        assert 2 <= value == int(after) <= sizes.largest_count
        assert int(number) <= (sizes.largest_number if sign in "+-" else 9)
    assert numbers(row["question"])[1:] == [int(number) for _, _, number, _ in equations]
    assert numbers(extract_answer(row["answer"])) == [value] == [int(row["result"])]
    assert correct(row["answer"], row)
    assert not correct(row["answer"].replace(f"is {value}.", f"is {value + 1}."), row)
    assert value <= sizes.largest_count and problem.start <= sizes.largest_count
    assert draw_problem(np.random.default_rng(seed), (fewest, fewest + more), sizes) == problem


def test_splits_share_no_arithmetic():
    sets, again, other = (word_problems.word_problem_sets((120, 40, 40), seed=seed) for seed in (3, 3, 4))
    assert {split: len(rows) for split, rows in sets.items()} == dict(zip(SPLITS, (120, 40, 40), strict=True))
    keys = [tuple(re.findall(r"[-+*/] \d+|^\S+\n\d+", row["answer"])) for rows in sets.values() for row in rows]
    assert len(set(keys)) == 200
    assert again == sets != other
    text = " ".join(row["question"] for row in sets["train"])
    for action in word_problems.WORDINGS.values():
        for wording in action:
            assert re.search(re.sub(r"\{\w+\}", r"\\w+", wording), text), wording


@settings(max_examples=50)
@given(seed=st.integers(0, 2**32), person=st.integers(0, 5), thing=st.integers(0, 7))
def test_other_words_are_in_the_same_split(seed, person, thing):
    problem = draw_problem(np.random.default_rng(seed))
    same = WordProblem(problem.start, problem.steps, person, thing)
    assert split_of(same) == split_of(problem) in SPLITS
    assert same.row()["result"] == problem.row()["result"]


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        ("19", True),
        ("<REASONING>12 + 6 = 18</REASONING>It is **19**.", True),
        ("She had 12, so it is 19.0 shells.", True),
        ("19 of 20", False),
        ("19.5", False),
        ("-19", False),
        ("nineteen", False),
        ("", False),
        ("<REASONING>The answer is 19.", False),
        ("<REASONING>18</REASONING>", False),
        ("1" * 500, False),
    ],
)
def test_answers(answer, wanted):
    assert correct(answer, PROBLEM.row()) is wanted


def test_thousands_have_commas():
    assert correct("1,234", {"result": "1234"}) and not correct("1,23", {"result": "123"})


@given(st.text(max_size=80))
def test_no_text_raises(answer):
    assert correct(answer, PROBLEM.row()) in (True, False)
