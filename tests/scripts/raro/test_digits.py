"""The task of `scripts/raro/digits.py`, and its comparison as a user runs it, in small."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from llm_rl.raro import Label, extract_answer, parse_label
from llm_rl.raro.start import LABELS
from scripts.raro.digits import Digits, DigitsArguments, summed
from scripts.shared.signs import expressions, value
from tests.scripts.helpers.started import in_small


def trial(**changes: Any) -> Digits:
    small = {"expert_answers": 40, "test_questions": 30, "completions": 16, "start_examples": 60}
    return Digits(DigitsArguments(**{**small, **changes}))


def test_an_expression_with_its_sums() -> None:
    assert summed("+ 7 - 4 - 9") == "+ 7 7 - 4 3 - 9 -6"


def test_all_right_answers() -> None:
    assert expressions([1, 2, 3], 0) == sorted(
        f"{a} {b} {c}"
        for signs in ({"+ 1", "+ 2", "- 3"}, {"- 1", "- 2", "+ 3"})
        for a in signs
        for b in signs - {a}
        for c in signs - {a, b}
    )
    assert expressions([1, 1, 1], 3) == ["+ 1 + 1 + 1"] and expressions([1, 1, 1], 2) == []


def test_the_expert_is_right_and_its_digits_are_not_held_out() -> None:
    made = trial()
    for rows in made.rows.values():
        for row in rows:
            columns = {name: [row[name]] for name in row}
            assert made.right([row["answer"]], **columns) == made.matches([row["answer"]], **columns) == [1.0]
            hidden = f"<REASONING> + 1 1 </REASONING> {row['answer']}"
            assert made.right([hidden], **columns) == [1.0]
            assert made.right([row["answer"] + " + 1", "", hidden + " </REASONING>"], **{
                name: [row[name]] * 3 for name in row
            }) == [0.0] * 3  # fmt: skip
    sets = [{tuple(sorted(row["digits"])) for row in rows} for rows in made.rows.values()]
    assert not sets[0] & sets[1]


@pytest.mark.parametrize("reasoning", [True, False])
def test_the_start_adds_up_and_is_careless(reasoning) -> None:
    made = trial(reasoning=reasoning, start_examples=3000)
    labels: Counter[Label | None] = Counter()
    right: Counter[bool] = Counter()
    for row in made.start_rows(0):
        words = made.words(row["chosen"])["input_ids"]
        assert made.words.pad_token_id not in words  # every word is known
        if " first " in row["prompt"]:
            assert len(words) < made.critique_length
            labels[parse_label(row["chosen"], True)] += 1
            if reasoning:
                for answer, told in zip(
                    row["prompt"].split(" first ")[1].removesuffix(" expert\n\n").split(" second "),
                    row["chosen"].split(" [")[0].split(" ; "),
                    strict=True,
                ):
                    assert told == summed(answer)
        else:
            assert len(words) < made.answer_length
            answer = extract_answer(row["chosen"])
            assert answer is not None and (not reasoning or row["chosen"].split(" </")[0].endswith(summed(answer)))
            right[value(answer) == int(row["prompt"].split()[1])] += 1
    assert labels[Label.EXPERT] and labels[Label.POLICY]  # as if the first one were the expert's
    assert abs(labels[Label.EXPERT] - labels[Label.POLICY]) < 5 * 3000**0.5
    share = right[True] / right.total()
    assert 0.3 < share < 0.5 if reasoning else 0.1 < share < 0.25  # by chance 14.8 % of the held-out ones


def test_what_is_refused() -> None:
    for wrong in ({"trials": 0}, {"stops": [0.5]}, {"stops": [0.5, 1.5]}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            DigitsArguments(**wrong)


def test_the_right_label_names_the_expert() -> None:
    made, rng = trial(), np.random.default_rng(0)
    prompts, row = made.settings(0, Path("runs")).prompts, made.rows["train"][0]
    other = "+ 1 + 1 + 1"
    for _ in range(20):
        asked = made.critic_row(prompts, row, other, rng)
        first = asked["prompt"].split(" first ")[1].startswith(row["answer"])
        assert asked["chosen"].endswith(LABELS[0 if first else 1])
    assert made.critic_row(prompts, row, row["answer"], rng)["chosen"].endswith(LABELS[2])


def test_all_arms_in_small(tmp_path) -> None:
    sizes = {"expert_answers": 24, "test_questions": 12, "completions": 16, "hidden_size": 16, "batch_size": 8}
    steps = {"start_steps": 3, "max_steps": 1, "num_hidden_layers": 1, "start_examples": 30}
    table = in_small("raro/digits.py", tmp_path / "run", **sizes, **steps)
    assert all(f"| {title} |" in table for title in ("start", *Digits.ARMS.values()))
