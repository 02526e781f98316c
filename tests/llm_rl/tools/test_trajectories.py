"""Conversations from files: tokens and labels are those of a roll-out that went so; what is learnt from them."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import TrainingArguments

from llm_rl.rollout.sft import IGNORED, AnswerCollator, supervised_trainer
from llm_rl.rollout.turns import joined, turns_of
from llm_rl.tools.toolbox import methods_of
from llm_rl.tools.trajectories import TrajectoryDataset
from tests.helpers import SHORT
from tests.helpers.refusals import refused
from tests.llm_rl.helpers.tool_play import CALL, CALL_OBJECT, END, Count, ScriptedEngine, chat_model, chat_tokenizer, up
from tests.llm_rl.helpers.tool_runs import TO_FOUR, grpo_of_two
from tests.llm_rl.helpers.watch import trained

TOOLS = [*methods_of(Count()).values()]


def data(rows: Any) -> TrajectoryDataset:
    return TrajectoryDataset(rows, chat_tokenizer(), TOOLS)


def test_a_roll_out_and_its_row_have_the_same_tokens_and_mask(tmp_path: Path) -> None:
    """Turns in which nothing merges, so that the tokenizer gives what the engine sampled."""
    plain = up(1).replace("\nab", "c")
    engine = ScriptedEngine([plain] * 2, [plain, f"d{END}"], [f"d{END}"])
    run = grpo_of_two(tmp_path, engine)
    samples = run._generate_completions(TO_FOUR, 2)
    rows = [{"prompt": s.row["prompt"], "completion": run._rewarded_completion(s)} for s in samples]
    for sample, item in zip(samples, data(rows).items, strict=True):
        whole = joined(sample)
        assert item["input_ids"] == whole.prompt_ids + whole.completion_ids and whole.given is not None
        labels = [IGNORED if flag else token for token, flag in zip(whole.completion_ids, whole.given, strict=True)]
        assert item["labels"] == [IGNORED] * len(whole.prompt_ids) + labels
        assert sum(label != IGNORED for label in item["labels"]) == sum(len(t.completion_ids) for t in turns_of(sample))


def conversation(*contents: str) -> dict[str, Any]:
    roles = ("assistant", "tool") * len(contents)
    messages = [{"role": role, "content": text} for role, text in zip(roles, contents, strict=False)]
    return {"prompt": [{"role": "user", "content": "Count"}], "completion": messages}


def test_the_loss_is_that_of_the_models_turns(tmp_path: Path) -> None:
    model, rows = chat_model(), [conversation("c", "one", "d"), conversation("ccc")]
    dataset = data(rows)
    batch = AnswerCollator(chat_tokenizer(), model)(dataset.items)
    assert batch["labels"].shape[1] == batch["logits_to_keep"]
    assert (batch["labels"] != IGNORED).sum(1).tolist() == [4, 4]
    expected = []
    for item in dataset.items:
        logits = model(torch.tensor([item["input_ids"]])).logits[0].log_softmax(-1)
        expected += [-logits[i - 1, label] for i, label in enumerate(item["labels"]) if label != IGNORED]
    assert model(**batch).loss.item() == pytest.approx(torch.stack(expected).mean().item())

    args = TrainingArguments(str(tmp_path), **{**SHORT, "max_steps": 8, "learning_rate": 0.03})
    run = trained(supervised_trainer(model, args, dataset, chat_tokenizer()))
    losses = [line["loss"] for line in run.state.log_history if "loss" in line]
    assert losses[-1] < losses[0] / 2


def test_calls_as_objects_are_written_in_the_form_of_calls() -> None:
    as_text, as_object = conversation(f"c\n{CALL}", "one", "d"), conversation("c", "one", "d")
    as_object["completion"][0]["tool_calls"] = [CALL_OBJECT]
    assert data([as_object]).items == data([as_text]).items


@pytest.mark.parametrize(
    ("completion", "said"),
    [
        ("text", "completion of a row is 'text'; it must be a list"),
        ([], "must be a list"),
        ([{"role": "assistant"}], "a text as 'content'"),
        ([{"role": "assistant", "content": "a"}, {"role": "tool", "content": "b"}], "has the roles"),
        ([{"role": "assistant", "content": "a"}] * 2, "two turns without a result between"),
        ([{"role": "user", "content": "a"}], "has the roles"),
    ],
)
def test_rows_of_another_form(completion: Any, said: str) -> None:
    refused(said, lambda: data([{"prompt": [{"role": "user", "content": "x"}], "completion": completion}]))
