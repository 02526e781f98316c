import json

import pytest

from llm_rl.integrations.verl.rows import both_roles, critic_row, stored_row, write_parquet
from llm_rl.raro import Pair, PolicyRows, Prompts, question_key
from tests.helpers.refusals import refused

pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")

ROWS = [{"question": f"{n}+1?", "answer": f"<REASONING>add</REASONING>\n{n + 1}"} for n in range(6)]


def questions(rows=ROWS, **changes):
    return PolicyRows(rows, Prompts(**changes))


def test_a_row_of_each_role_for_each_question(tmp_path):
    write_parquet(tmp_path / "new" / "train.parquet", both_roles(questions(), "train", seed=1))
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["train.parquet"]
    rows = pq.read_table(tmp_path / "new" / "train.parquet").to_pylist()
    assert [row["extra_info"]["role"] for row in rows] == ["policy", "critic"] * 6
    assert [row["extra_info"]["source"] for row in rows[1::2]] == ["fresh", "history"] * 3
    assert [row["extra_info"]["index"] for row in rows] == list(range(12))
    assert [row["data_source"] for row in rows[:2]] == ["raro/policy", "raro/critic"]
    asked = [row["extra_info"]["question"] for row in rows[::2]]
    assert sorted(asked) == [row["question"] for row in ROWS] != asked
    for row in rows:
        info = row["extra_info"]
        answer = str(int(info["question"].split("+")[0]) + 1)
        assert row["prompt"] == Prompts().for_policy(info["question"])
        assert row["agent_name"] == "raro" and info["split"] == "train" and info["policy_answer"] == ""
        assert info["expert_answer"] == row["reward_model"]["ground_truth"] == answer
        assert info["question_id"] == question_key(info["question"], answer)
    assert both_roles(questions(), "train", seed=1) == rows != both_roles(questions(), "train", seed=2)


def test_the_policy_of_a_validation_split_is_never_of_history():
    rows = both_roles(questions(), "validation", seed=1)
    assert {row["extra_info"]["source"] for row in rows} == {"fresh"}


def test_given_identifiers_are_kept():
    named = [{**row, "question_id": f"q{n}"} for n, row in enumerate(ROWS)]
    rows = both_roles(questions(named), "train", seed=0)
    assert sorted({row["extra_info"]["question_id"] for row in rows}) == [f"q{n}" for n in range(6)]


@pytest.mark.parametrize("expert_first", [True, False])
def test_a_stored_pair_is_asked_in_the_recorded_order(expert_first):
    row = stored_row(Pair("q", "1+1?", "two", "three [Answer 2]", 4), expert_first, 7, "train", Prompts())
    first, second = ("two", "three (Answer 2)") if expert_first else ("three (Answer 2)", "two")
    assert f"<answer_1>\n{first}\n</answer_1>\n\n<answer_2>\n{second}\n</answer_2>" in row["prompt"][-1]["content"]
    info = row["extra_info"]
    assert (info["policy_answer"], info["expert_first"], info["source"]) == ("three [Answer 2]", expert_first, "stored")
    assert row["extra_info"].keys() == both_roles(questions(), "train", seed=0)[0]["extra_info"].keys()
    assert json.loads(json.dumps(row)) == row


def test_what_verl_could_not_use(tmp_path):
    refused("kind 'text'; verl takes messages", lambda: both_roles(questions(kind="text"), "train", seed=0))
    refused("'question' and 'answer'", lambda: both_roles(questions([{"question": "1+1?"}]), "train", seed=0))
    with pytest.raises(ValueError, match="critic_batch is 'mixd'; choose one of 'separate', 'mixed'"):
        both_roles(questions(), "train", seed=0, critic_batch="mixd")
    refused("source is 'stored'", lambda: critic_row(questions()[0], 0, "train", source="stored"))
    refused("no rows", lambda: write_parquet(tmp_path / "train.parquet", []))
    assert not list(tmp_path.iterdir())
