import math
from pathlib import Path

import pytest
import torch
from transformers import TrainingArguments

from llm_rl.rollout.sft import AnswerCollator, SupervisedDataset, supervised_trainer
from tests.helpers import SHORT
from tests.helpers.refusals import refused
from tests.llm_rl.helpers.small_models import gpt2
from tests.llm_rl.helpers.tiny_grpo import new_model, tokenizer
from tests.llm_rl.helpers.watch import trained

MESSAGES = [{"role": "user", "content": "red"}]
ROWS = [{"prompt": "red green", "chosen": "sky"}, {"prompt": "sea", "chosen": "blue one two three", "answer": "moon"}]


def arguments(folder: Path, **changes) -> TrainingArguments:
    return TrainingArguments(str(folder), **{**SHORT, "max_steps": 1, "per_device_train_batch_size": 2, **changes})


def test_the_answer_and_its_end_alone_have_labels():
    ids = {text: tokenizer()(text)["input_ids"] for text in ("red green", "sky", "user red assistant", "moon")}
    end = tokenizer().eos_token_id
    assert SupervisedDataset(ROWS[:1], tokenizer())[0] == {
        "input_ids": [*ids["red green"], *ids["sky"], end],
        "labels": [-100] * len(ids["red green"]) + [*ids["sky"], end],
    }
    (item,) = SupervisedDataset([{"prompt": MESSAGES, "chosen": "moon"}], tokenizer()).items
    assert tokenizer().decode(item["input_ids"]) == "user red assistantmoon<|end|>"
    assert [label for label in item["labels"] if label != -100] == [*ids["moon"], end]
    assert item["labels"][: len(ids["user red assistant"])] == [-100] * len(ids["user red assistant"])


@pytest.mark.parametrize("make", [new_model, gpt2])
def test_the_loss_is_the_cross_entropy_of_the_answers_tokens(tmp_path, make):
    # One row at a time without padding, against the trainer's batch: the pad token is the end token, which must count.
    model, total, count = make().eval(), 0.0, 0
    for item in SupervisedDataset(ROWS, tokenizer()).items:
        logprobs = model(input_ids=torch.tensor([item["input_ids"]])).logits[0].log_softmax(-1)
        for place, label in enumerate(item["labels"]):
            if label != -100:
                total, count = total - logprobs[place - 1, label].item(), count + 1
    assert count > len(tokenizer()("sky blue one two three")["input_ids"])
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    trainer = trained(supervised_trainer(model, arguments(tmp_path), ROWS, tokenizer()))
    assert math.isclose(trainer.state.log_history[0]["loss"], total / count, rel_tol=1e-5)


def test_logits_are_computed_for_the_longest_answer_alone(tmp_path):
    items = SupervisedDataset([*ROWS, {"prompt": "red green " * 4, "chosen": "sky"}], tokenizer()).items
    model, longest = new_model(), max(sum(label != -100 for label in item["labels"]) for item in items)
    batch = AnswerCollator(tokenizer(), model)(items)
    assert model(**batch).logits.shape[1] == batch["labels"].shape[1] == longest + 1 < batch["input_ids"].shape[1]
    assert batch["position_ids"][:, -1].tolist() == [len(item["input_ids"]) - 1 for item in items]


def test_rows_that_teach_nothing_are_refused():
    refused("no rows", lambda: SupervisedDataset([], tokenizer()))
    refused("'chosen' of a row is None; it must be a text", lambda: SupervisedDataset([{"prompt": "red"}], tokenizer()))
    refused("no 'prompt'", lambda: SupervisedDataset([{"chosen": "red"}], tokenizer()))
    endless = type("Endless", (), {"eos_token_id": None})()
    refused("no end token", lambda: SupervisedDataset(ROWS, endless))
