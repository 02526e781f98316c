import pytest

from llm_rl.raro import PolicyRows, Prompts, RoleTemplate, extract_answer
from tests.helpers.refusals import refused


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("42", "42"),
        ("<R>2 · 21</R> 42\n", "42"),
        ("2 · 21</R>42", "42"),
        ("<R>a</R>41<R>no</R>42", "42"),
        ("<R>2 · 21", None),
        ("<R>a</R>41 <R>no", None),
        ("<R>a</R> \n", None),
        ("", None),
    ],
)
def test_the_answer_is_what_follows_the_reasoning(text: str, answer: str | None) -> None:
    assert extract_answer(text, ("<R>", "</R>")) == answer


def test_prompts_of_both_roles() -> None:
    prompts = Prompts()
    system, user = prompts.for_policy("What is {answer_1}?")
    assert system["role"] == "system" and "<REASONING>" in system["content"]
    assert user == {"role": "user", "content": "What is {answer_1}?"}
    for expert_first, order in ((True, ("{answer_2} E", "P (Tie)")), (False, ("P (Tie)", "{answer_2} E"))):
        system, user = prompts.for_critic("{question}?", "{answer_2} E", "P [Tie]", expert_first)
        assert "[Answer 1], [Answer 2], or [Tie]" in system["content"]
        assert user["content"].startswith(
            f"Question:\n{{question}}?\n\n<answer_1>\n{order[0]}\n</answer_1>\n\n<answer_2>\n{order[1]}\n</answer_2>"
        )


def test_templates_may_be_others() -> None:
    prompts = Prompts(
        RoleTemplate("", '{"q": "{question}"}'), RoleTemplate("C", "{question}{answer_1}{answer_2}"), "text"
    )
    assert prompts.for_policy("why?") == '{"q": "why?"}\n\n'
    assert prompts.for_critic("q", "e", "p", False) == "C\n\nqpe\n\n"
    assert Prompts(RoleTemplate("", "{question}")).for_policy("why?") == [{"role": "user", "content": "why?"}]
    with pytest.raises(ValueError, match=r"the critic's user template has no \{answer_2\}; put it where the answer 2"):
        Prompts(critic=RoleTemplate("", "{question}{answer_1}"))
    refused(r"the policy's user template has no \{question\}", lambda: Prompts(RoleTemplate("{question}", "why?")))


def test_rows() -> None:
    rows = PolicyRows([{"question": "q", "answer": "a", "level": 3}], Prompts(kind="text"))
    assert len(rows) == 1 and list(rows) == [{"question": "q", "answer": "a", "level": 3, "prompt": rows[0]["prompt"]}]
    for row, message in (
        ({"prompt": "q"}, r"holds \['prompt'\]; RARO's rows have 'question' and 'answer'"),
        ({"question": "q", "answer": 3}, "both texts"),
        ("q", "holds str"),
        ({"question": "q", "answer": "a", "prompt": "p"}, "has a column 'prompt'"),
        ({"question": "q", "answer": "<REASONING>a</REASONING> "}, "has nothing after its hidden reasoning"),
    ):
        with pytest.raises(ValueError, match=message):
            PolicyRows([row], Prompts())[0]
    refused("the data set is a list_iterator", lambda: PolicyRows(iter([]), Prompts()))
