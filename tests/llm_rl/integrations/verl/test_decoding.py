"""verl reads completions whose tags and labels are special tokens of the tokenizer."""

import copy

import pytest
from tokenizers import AddedToken

from tests.llm_rl.helpers.tiny_raro import SPECIAL
from tests.llm_rl.helpers.tiny_vapor import tag_tokenizer
from tests.llm_rl.helpers.verl_roll_outs import configuration, question_row, roll_out


@pytest.mark.usefixtures("memory")
def test_hidden_reasoning_stays_hidden_and_labels_are_read():
    tokenizer = copy.deepcopy(tag_tokenizer())
    tokenizer.chat_template = "{% for turn in messages %}{{ turn.role }}: {{ turn.content }}\n{% endfor %}"
    tokens = [*SPECIAL[2:], "<REASONING>", "</REASONING>"]
    tokenizer.add_tokens([AddedToken(text, special=True) for text in tokens], special_tokens=True)

    def says(role, text, count):
        return "<REASONING>secret</REASONING>zero" if role == "policy" else "[Tie]"

    rows = [question_row("policy"), question_row("critic")]
    outputs, scores, server = roll_out(configuration(), tokenizer, says, rows)
    assert all("secret" not in text for role, text in server.asked if role == "critic")
    assert outputs[1].extra_fields["raro"]["policy_answer"] == "zero"
    assert [one["reward_extra_info"]["tie"] for one in scores] == [1, 1]
    assert [one["reward_extra_info"]["counted"] for one in scores] == [1, 1]
