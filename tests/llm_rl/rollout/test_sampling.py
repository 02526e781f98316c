"""`sample_and_score`: what a roll-out of a trainer has, without one."""

import copy
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from llm_rl import ScoredCompletions, TransformersEngine, sample_and_score
from tests.helpers.refusals import refused
from tests.llm_rl.helpers import tiny_grpo
from tests.llm_rl.helpers.fixed_engine import FixedEngine
from tests.llm_rl.helpers.tiny_grpo import distinct_rows, length, new_model, rows, small_ids, tokenizer, trainer

FIXED: dict[str, Any] = {"engine": FixedEngine(), "max_completion_length": 6}


def test_completions_and_rewards_are_those_of_a_trainer(tmp_path: Path) -> None:
    functions, weights = [small_ids, length], [1.0, 0.5]
    run = trainer(tmp_path, reward_funcs=functions, reward_weights=weights, temperature=0.7)
    torch.manual_seed(3)
    expected = run._generate_completions(rows(3), 4)
    totals = run._score_completions(expected)
    model = copy.deepcopy(run.model).train()
    torch.manual_seed(3)
    found = sample_and_score(
        model, rows(3), functions, tokenizer(), num_generations=4, max_completion_length=6, temperature=0.7,
        reward_weights=weights,
    )  # fmt: skip
    assert found.samples == expected and model.training
    assert [sample.scores for sample in found.samples] == [sample.scores for sample in expected]
    assert found.rewards.tolist() == pytest.approx(totals.flatten().tolist())
    assert found.completions == [run._rewarded_completion(sample) for sample in expected]


def test_functions_get_columns_and_no_state_of_a_trainer() -> None:
    def wanted(completions: list[str], wanted: list[int], **others: Any) -> list[float]:
        assert "trainer_state" not in others and len(completions) == len(wanted)
        return [float(value) for value in wanted]

    found = sample_and_score(new_model(), pd.DataFrame(rows(3)), wanted, tokenizer(), **FIXED)
    assert found.rewards.tolist() == [row["wanted"] for row in rows(3)]


def test_a_completion_without_a_score_has_no_reward(caplog: pytest.LogCaptureFixture) -> None:
    found = sample_and_score(new_model(), distinct_rows(), tiny_grpo.unless_cut, tokenizer(), **FIXED)
    cut = [sample.truncated for sample in found.samples]
    assert [math.isnan(reward) for reward in found.rewards.tolist()] == cut and len(set(cut)) == 2
    assert "are left out" in caplog.text


def test_greedily_the_same_twice_from_a_folder_in_parts(tmp_path: Path) -> None:
    new_model().save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)

    def asked(engine: TransformersEngine) -> ScoredCompletions:
        return sample_and_score(str(tmp_path), rows(3), length, greedy=True, max_completion_length=5, engine=engine)

    whole, parts = asked(TransformersEngine()), asked(TransformersEngine(2))
    assert [one.completion_ids for one in whole.samples] == [one.completion_ids for one in parts.samples]
    assert whole.rewards.tolist() == [len(sample.completion_ids) / 10 for sample in whole.samples]


@pytest.mark.parametrize(
    ("given", "changes", "message"),
    [
        ([], {}, "rows is empty"),
        ([{"wanted": 1}], {}, "has no 'prompt'"),
        ([{"prompt": "red", "wanted": 1}, {"prompt": "sky"}], {}, "give all the same"),
        ([{"prompt": "red"}], {"num_generations": 0}, "num_generations=0 must"),
        ([{"prompt": "red"}], {"processing_class": None}, "processing_class is None"),
    ],
)
def test_what_cannot_be_sampled(given: list[dict[str, Any]], changes: dict[str, Any], message: str) -> None:
    asked = {"processing_class": tokenizer(), "max_completion_length": 4, **changes}
    refused(message, lambda: sample_and_score(new_model(), given, length, **asked))
