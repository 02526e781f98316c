import pytest
from tiny_raro import rows

from llm_rl.raro.prompts import Prompts, RoleTemplate
from llm_rl.raro.start import expert_reasoning, start_rows
from llm_rl.raro.verdict import Judgment, parse_judgment
from llm_rl.word_problems import word_problem_sets

PROMPTS = Prompts(RoleTemplate("", "Q {question}"), RoleTemplate("", "{question}|{answer_1}|{answer_2}"), "text")


def shown(row: dict[str, str]) -> tuple[str, str, str]:
    """Question and answers of a critic's prompt."""
    question, first, second = row["prompt"].strip().split("|")
    return question, first, second


def test_true_judgments_name_the_answer_to_the_question() -> None:
    many = word_problem_sets((60, 1, 1), seed=1)["train"]
    made = start_rows(many, PROMPTS, labels="true", tie_share=0.25, seed=3)
    assert len(made) == 120 and made == start_rows(many, PROMPTS, labels="true", tie_share=0.25, seed=3)
    seen = []
    for row, policy, critic in zip(many, made[::2], made[1::2], strict=True):
        assert policy == {"prompt": f"Q {row['question']}\n\n", "chosen": row["answer"]}
        question, *answers = shown(critic)
        own = row["answer"].rpartition("\n")[2]
        places = [place for place, answer in enumerate(answers, 1) if answer == own]
        expected = Judgment.TIE if len(places) == 2 else Judgment(f"answer_{places[0]}")
        assert question == row["question"] and parse_judgment(critic["chosen"], [question, *answers]) is expected
        assert critic["chosen"].rpartition("\n")[0] == expert_reasoning(row["answer"]) != ""
        seen.append(expected)
    assert 5 <= seen.count(Judgment.TIE) <= 25
    assert 12 <= seen.count(Judgment.ANSWER_1) <= 33 and 12 <= seen.count(Judgment.ANSWER_2) <= 33


def test_random_judgments_do_not_depend_on_the_answers() -> None:
    many = word_problem_sets((600, 1, 1), seed=1)["train"]
    judged = []
    for row in start_rows(many, PROMPTS, seed=0)[1::2]:
        _, first, second = shown(row)
        judged.append((first == second, parse_judgment(row["chosen"])))
    equal = [judgment for same, judgment in judged if same]
    assert 150 <= len(equal) <= 250
    for part in (equal, [judgment for same, judgment in judged if not same]):
        for judgment in Judgment:
            assert 0.23 < part.count(judgment) / len(part) < 0.44


def test_experts_without_reasoning_give_bare_judgments() -> None:
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
    with pytest.raises(ValueError, match=r"tie_share is 1\.5"):
        start_rows(rows(), PROMPTS, tie_share=1.5)
    with pytest.raises(ValueError, match=r"labels.*'right'.*random.*true"):
        start_rows(rows(), PROMPTS, labels="right")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="all expert answers are the same"):
        start_rows([{"question": "a", "answer": "b"}] * 3, PROMPTS)
    with pytest.raises(ValueError, match="'question' and 'answer'"):
        start_rows([{"question": "a"}], PROMPTS)
