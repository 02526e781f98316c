import numpy as np
import pytest

from llm_rl.raro.labels import Label, parse_label
from llm_rl.raro.prompts import Prompts, RoleTemplate
from llm_rl.raro.start import blended, expert_reasoning, start_rows
from scripts.shared.word_problems import word_problem_sets
from tests.helpers.drawn import near_share
from tests.helpers.refusals import refused
from tests.llm_rl.helpers.tiny_raro import rows

PROMPTS = Prompts(RoleTemplate("", "Q {question}"), RoleTemplate("", "{question}|{answer_1}|{answer_2}"), "text")
NAMED = {1: Label.EXPERT, 2: Label.POLICY}
"""What naming an answer means where Answer 1 counts as the expert's."""


def shown(row: dict[str, str]) -> tuple[str, str, str]:
    """Question and answers of a critic's prompt."""
    question, first, second = row["prompt"].strip().split("|")
    return question, first, second


def test_true_labels_name_the_answer_to_the_question() -> None:
    many = word_problem_sets((240, 1, 1), seed=1)["train"]
    made = start_rows(many, PROMPTS, labels="true", tie_share=0.25, seed=3)
    assert len(made) == 480 and made == start_rows(many, PROMPTS, labels="true", tie_share=0.25, seed=3)
    seen = []
    for row, policy, critic in zip(many, made[::2], made[1::2], strict=True):
        assert policy == {"prompt": f"Q {row['question']}\n\n", "chosen": row["answer"]}
        question, *answers = shown(critic)
        own = row["answer"].rpartition("\n")[2]
        places = [place for place, answer in enumerate(answers, 1) if answer == own]
        expected = Label.TIE if len(places) == 2 else NAMED[places[0]]
        assert question == row["question"] and parse_label(critic["chosen"], True, [question, *answers]) is expected
        assert critic["chosen"].rpartition("\n")[0] == expert_reasoning(row["answer"]) != ""
        seen.append(expected)
    for label, share in ((Label.TIE, 1 / 4), (NAMED[1], 3 / 8), (NAMED[2], 3 / 8)):
        assert near_share(seen.count(label), 240, share)


def test_random_labels_do_not_depend_on_the_answers() -> None:
    many = word_problem_sets((600, 1, 1), seed=1)["train"]
    judged = []
    for row in start_rows(many, PROMPTS, seed=0)[1::2]:
        _, first, second = shown(row)
        judged.append((first == second, parse_label(row["chosen"], True)))
    equal = [label for same, label in judged if same]
    assert near_share(len(equal), 600, 1 / 3)
    for part in (equal, [label for same, label in judged if not same]):
        for label in Label:
            assert near_share(part.count(label), len(part), 1 / 3)


def test_several_critiques_with_answers_that_are_foreign_in_part() -> None:
    many = word_problem_sets((40, 1, 1), seed=1)["train"]
    made = start_rows(many, PROMPTS, labels="true", tie_share=0.25, critiques=3, foreign=(0.1, 0.6))
    assert len(made) == 160 and [row["chosen"] for row in made[::4]] == [row["answer"] for row in many]
    shares = []
    for number, row in enumerate(many):
        own = row["answer"].rpartition("\n")[2]
        for critic in made[4 * number + 1 : 4 * number + 4]:
            _, first, second = shown(critic)
            assert own in (first, second)
            foreign = second if first == own else first
            expected = Label.TIE if foreign == own else NAMED[1] if first == own else NAMED[2]
            assert parse_label(critic["chosen"], True, [first, second]) is expected
            if foreign != own:
                shares.append(sum(a != b for a, b in zip(own, foreign, strict=False)) / len(own))
    assert near_share(len(shares), 120, 3 / 4) and all(0 < share < 0.5 for share in shares)


def test_a_blend_takes_characters_in_place() -> None:
    rng = np.random.default_rng(0)
    assert blended("abcd", "wxyz", 1.0, rng) == "wxyz" and blended("ab", "wxyz", 1.0, rng) == "wxyz"
    assert blended("abcd", "wxyz", 0.0, rng) == "abcd" and blended("abcd", "w", 0.999999, rng) == "wbcd"
    mixed = blended("a" * 10_000, "b" * 20_000, 0.3, rng)
    assert len(mixed) == 10_000 and set(mixed) == {"a", "b"} and near_share(mixed.count("b"), 10_000, 0.3)


def test_experts_without_reasoning_give_bare_labels() -> None:
    made = start_rows(rows(), PROMPTS, labels="true", tie_share=0.0)
    assert {row["chosen"] for row in made[1::2]} <= {"[Answer 1]", "[Answer 2]"}
    assert all(len(set(shown(row)[1:])) == 2 for row in made[1::2])
    assert {row["chosen"] for row in start_rows(rows(), PROMPTS, labels="true", tie_share=1.0)[1::2]} == {"[Tie]"}


@pytest.mark.parametrize(
    ("text", "reasoning"),
    [("<R> a b </R> c", "a b"), ("a </R> c", "a"), ("c", ""), ("<R></R> c", ""), ("<R>a</R><R>b</R>c", "b")],
)
def test_what_stands_between_the_tags(text: str, reasoning: str) -> None:
    assert expert_reasoning(text, ("<R>", "</R>")) == reasoning


def test_bad_input() -> None:
    refused(r"tie_share is 1\.5", lambda: start_rows(rows(), PROMPTS, tie_share=1.5))
    with pytest.raises(ValueError, match=r"labels.*'right'.*random.*true"):
        start_rows(rows(), PROMPTS, labels="right")  # type: ignore[arg-type]
    refused("critiques=0 must", lambda: start_rows(rows(), PROMPTS, critiques=0))
    for foreign in ((0.0, 1.0), (0.5, 0.2), (0.5, 1.5)):
        with pytest.raises(ValueError, match=r"foreign is .* give the least share"):
            start_rows(rows(), PROMPTS, foreign=foreign)
    refused("all expert answers are the same", lambda: start_rows([{"question": "a", "answer": "b"}] * 3, PROMPTS))
    refused("'question' and 'answer'", lambda: start_rows([{"question": "a"}], PROMPTS))
