import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model

from llm_rl.core import dpo_loss
from llm_rl.dpo.pairs import PairDataset, encode_pair
from tests.helpers.refusals import refused
from tests.llm_rl.helpers.grpo_reference import logps
from tests.llm_rl.helpers.tiny_dpo import chats, pairs, trainer
from tests.llm_rl.helpers.tiny_grpo import new_model, tokenizer, untimed, with_template
from tests.llm_rl.helpers.watch import assert_gradients, gradients_of, logged, trained


def slow_loss(model: Any, reference: Any, items: Any, args: Any) -> torch.Tensor:
    losses = []
    for item in items:
        found = []
        for each in (model, reference):
            for name in ("chosen_ids", "rejected_ids"):
                size = len(item[name]) if args.loss_type == "ipo" else 1
                found.append(logps(each, item["prompt_ids"], item[name], 1.0).sum() / size)
        ref = [value.detach() for value in found[2:]]
        losses.append(dpo_loss(*found[:2], *ref, beta=args.beta, loss_type=args.loss_type))
    return torch.stack(losses).mean()


def without_ties(lines: list[dict[str, float]]) -> list[dict[str, float]]:
    """Log lines without the accuracy of the first one, before which policy and reference are equal up to rounding."""
    first = {name: value for name, value in lines[0].items() if name != "rewards/accuracies"}
    return [first, *lines[1:]]


@pytest.mark.parametrize(
    "changes",
    [{}, {"loss_type": "ipo", "beta": 0.3}, {"loss_type": "hinge"}, {"precompute_ref_log_probs": True}],
    ids=lambda changes: "-".join(changes) or "defaults",
)
def test_gradients_equal_a_slow_loop_over_pairs(tmp_path: Path, changes: dict[str, Any]) -> None:
    start, reference = new_model(dtype=torch.float64), new_model(seed=5, dtype=torch.float64)
    given: dict[str, Any] = {"ref_model": copy.deepcopy(reference)}
    settings = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4, "max_grad_norm": 0.0, **changes}
    run = trainer(tmp_path, copy.deepcopy(start), given=given, **settings)
    (gradients,) = gradients_of(run)
    loss = slow_loss(start, reference, run.train_dataset.items, run.args)
    loss.backward()
    assert run.state.log_history[0]["loss"] == pytest.approx(loss.item(), abs=2e-6)
    assert_gradients(gradients, start)
    assert max(float(gradient.abs().max()) for gradient in gradients.values()) > 1e-3


def test_what_is_logged_by_hand(tmp_path: Path) -> None:
    """The last pair is the first one turned around, so that one of both margins is positive and not both are."""
    model, reference = new_model(), new_model(seed=5)
    given = {"ref_model": copy.deepcopy(reference), "eval_dataset": pairs(5)}
    data = [*pairs(7), {**pairs(1)[0], "chosen": pairs(1)[0]["rejected"], "rejected": pairs(1)[0]["chosen"]}]
    run = trainer(tmp_path, copy.deepcopy(model), data=data, given=given, per_device_train_batch_size=8, beta=0.2)
    with torch.no_grad():
        expected = []
        for item in run.train_dataset.items:
            new, old = (
                [logps(each, item["prompt_ids"], item[f"{name}_ids"], 1.0).sum() for name in ("chosen", "rejected")]
                for each in (model, reference)
            )
            rewards = [0.2 * (one - other) for one, other in zip(new, old, strict=True)]
            margin = rewards[0] - rewards[1]
            expected.append(torch.stack([*new, *rewards, margin, (margin > 0).float()]))
    names = ("logps/chosen", "logps/rejected", "rewards/chosen", "rewards/rejected", "rewards/margins")
    found = run.evaluate()
    run.train()
    line = run.state.log_history[0]
    means = dict(zip([*names, "rewards/accuracies"], torch.stack(expected).mean(0).tolist(), strict=True))
    assert {name: line[name] for name in means} == pytest.approx(means, rel=1e-4, abs=1e-5)
    first = torch.stack(expected[:5]).mean(0).tolist()
    assert [found[f"eval_{name}"] for name in names] == pytest.approx(first[:5], rel=1e-4, abs=1e-5)
    with torch.no_grad():
        loss = slow_loss(model, reference, run.train_dataset.items[:5], run.args)
    assert found["eval_loss"] == pytest.approx(loss.item(), abs=1e-5)
    assert 0 < line["rewards/accuracies"] < 1 and "grad_norm" in line


def test_the_prompt_is_masked_and_the_end_counts() -> None:
    ids = {text: tokenizer()(text)["input_ids"] for text in ("red green", " blue", "user red assistant", " sky")}
    item = encode_pair({"prompt": "red green", "chosen": " blue", "rejected": " sky"}, tokenizer(), {})
    end = tokenizer().eos_token_id
    assert item == {
        "prompt_ids": ids["red green"],
        "chosen_ids": [*ids[" blue"], end],
        "rejected_ids": [*ids[" sky"], end],
    }
    (row,) = chats(pairs(1))
    chat = encode_pair(row, tokenizer(), {})
    assert chat["prompt_ids"] == ids["user red assistant"]
    whole = tokenizer().decode(chat["prompt_ids"] + chat["chosen_ids"])
    assert whole == tokenizer().apply_chat_template(row["prompt"] + row["chosen"], tokenize=False)
    mixed = encode_pair({**row, "chosen": " blue"}, tokenizer(), {})
    assert mixed["prompt_ids"] == chat["prompt_ids"] and mixed["chosen_ids"] == [*ids[" blue"], end]


def test_the_reference_of_adapters_is_the_model_without_them(tmp_path: Path) -> None:
    base = new_model()
    logs = []
    for precompute in (False, True):
        torch.manual_seed(0)
        adapted = get_peft_model(copy.deepcopy(base), LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))
        run = trained(trainer(tmp_path, adapted, max_steps=3, learning_rate=1e-2, precompute_ref_log_probs=precompute))
        logs.append(untimed(run.state.log_history)[:3])
    assert logs[0][0]["rewards/margins"] == pytest.approx(0, abs=1e-6) and abs(logs[0][2]["rewards/margins"]) > 1e-4
    for one, other in zip(*map(without_ties, logs), strict=True):
        assert one == pytest.approx(other, rel=1e-4, abs=1e-5)


def test_a_precomputed_reference_is_kept_for_known_rows_alone(tmp_path: Path) -> None:
    run = trainer(tmp_path, precompute_ref_log_probs=True, given={"eval_dataset": pairs(3)})
    assert run.reference is None and run.evaluate()["eval_rewards/margins"] == pytest.approx(0, abs=1e-6)
    refused("keeps no reference for other rows", lambda: run.evaluate(pairs(2)))


def test_the_chosen_completions_become_likelier(tmp_path: Path) -> None:
    changes = {"max_steps": 3, "learning_rate": 1e-2, "per_device_train_batch_size": 8, "beta": 0.5}
    first, _, last, _ = logged(trainer(tmp_path, data=chats(pairs()), **changes))
    assert first["loss"] == pytest.approx(0.6931, abs=1e-3) and last["loss"] < 0.2
    assert first["rewards/margins"] == pytest.approx(0, abs=1e-6) and last["rewards/accuracies"] == 1


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"chosen": "a", "rejected": "b"}, "row 1 of train_dataset: a row of the data set has no 'prompt'"),
        ({"prompt": "red", "chosen": "blue"}, "row 1 of train_dataset: 'rejected' is None"),
        ({"prompt": "red", "chosen": "blue", "rejected": chats(pairs(1))[0]["rejected"]}, "'rejected' is "),
        ({"prompt": "red " * 130, "chosen": "blue", "rejected": "sky"}, "exceed the model's 128 positions"),
    ],
)
def test_rows_that_are_no_pairs(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    refused(message, lambda: trainer(tmp_path, data=[pairs(1)[0], row]))


def test_what_is_not_supported_raises(tmp_path: Path) -> None:
    refused("no rows", lambda: trainer(tmp_path).evaluate())
    refused("predict is not supported", lambda: trainer(tmp_path).predict(), NotImplementedError)
    endless = type("Endless", (), {"eos_token_id": None})()
    refused("no end token", lambda: PairDataset("rows", pairs(1), endless, {}))
    template = "{% if messages | length > 1 %}blue {% endif %}{% for m in messages %}{{ m['content'] }} {% endfor %}"
    odd = with_template(tokenizer(), template)
    refused("the chat template writes the prompt otherwise", lambda: encode_pair(chats(pairs(1))[0], odd, {}))
