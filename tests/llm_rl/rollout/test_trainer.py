import copy
import logging
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PromptTuningConfig, get_peft_model
from torch.utils.data import IterableDataset

from llm_rl.rollout.trainer import RolloutTrainer
from tests.helpers.refusals import refused
from tests.llm_rl.helpers import small_models, tiny_grpo
from tests.llm_rl.helpers.fixed_engine import FixedEngine
from tests.llm_rl.helpers.tiny_grpo import distinct_rows, new_model, rows, small_ids, tokenizer, trainer, untimed
from tests.llm_rl.helpers.watch import gradients_of, logged, spy, trained


def test_a_rollout_serves_all_its_updates(tmp_path: Path) -> None:
    run = trainer(tmp_path, max_steps=4, num_iterations=2, gradient_accumulation_steps=4)
    seen: list[tuple[int, tuple[int, ...]]] = []
    drawn, loss = spy(run, "_generate_completions"), run._compute_loss_and_metrics

    def noting(model: Any, inputs: Any) -> torch.Tensor:
        seen.append((len(drawn), tuple(inputs.completion_ids.flatten().tolist())))
        return loss(model, inputs)

    run._compute_loss_and_metrics = noting  # type: ignore[method-assign]
    run.train()
    rollouts = [[row["prompt"] for row in call.arguments[0]] for call in drawn]
    assert [len(prompts) for prompts in rollouts] == [8, 8]
    assert [number for number, _ in seen] == [1] * 8 + [2] * 8
    assert seen[:4] == seen[4:8] and seen[8:12] == seen[12:] and len(set(seen)) == 8
    asked = [prompt for prompts in rollouts for prompt in prompts]
    assert sorted(asked) == sorted(row["prompt"] for row in rows() * 2)


def test_micro_batches_do_not_change_the_gradient(tmp_path: Path) -> None:
    """Not where in some of them nothing counts, either."""
    kept = []
    for size, accumulated in ((16, 1), (1, 16)):
        run = trainer(
            tmp_path, reward_funcs=tiny_grpo.unless_cut, data=distinct_rows(), given={"engine": FixedEngine()},
            per_device_train_batch_size=size, gradient_accumulation_steps=accumulated, kl_weight=0.1, max_grad_norm=0.0,
        )  # fmt: skip
        (gradients,) = gradients_of(run)
        kept.append((run.state.log_history[0], gradients))
    (line, whole), (other_line, parts) = kept
    assert line == pytest.approx(other_line, abs=1e-5)
    assert all((gradient - parts[name]).abs().max() < 1e-6 for name, gradient in whole.items())
    assert max(float(gradient.abs().max()) for gradient in whole.values()) > 1e-2


def test_replacing_is_bounded_and_says_when_it_failed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = trainer(tmp_path, reward_funcs=tiny_grpo.ones, dynamic_sampling_attempts=3)
    with caplog.at_level(logging.WARNING):
        run.train()
    assert "2 of 2 groups have no spread after 3 replacements" in caplog.text
    line = run.state.log_history[0]
    assert line["groups_replaced"] == 3 and line["groups_without_spread"] == 1


@pytest.mark.parametrize("kept", ["start", "base"])
def test_the_reference_of_adapters_is_what_they_were_at_the_start_or_the_model_without_them(
    tmp_path: Path, kept: str
) -> None:
    adapted = small_models.adapted(4)
    start = copy.deepcopy(adapted)
    run = trainer(tmp_path, adapted, kl_weight=0.2, max_steps=3, num_iterations=3, adapter_reference=kept)
    assert run.reference.model is run.model
    kls = [line["kl"] for line in logged(run)[:3]]
    assert (kls[0] < 1e-9) == (kept == "start") and kls[2] > 1e-6
    (batch,) = run._roll_out(rows(2))
    with torch.no_grad(), start.disable_adapter() if kept == "base" else nullcontext():
        expected = run.scorer(start.eval(), batch).logprobs
    assert torch.equal(expected, batch.ref_per_token_logps)
    for name, value in adapted.named_parameters():
        assert torch.equal(value, start.state_dict()[name]) != value.requires_grad, name


def test_chat_prompts_and_columns_reach_the_reward_functions(tmp_path: Path) -> None:
    seen: dict[str, Any] = {}

    def looks(prompts: Any, completions: Any, completion_ids: Any, wanted: Any) -> list[float]:
        seen.update(prompts=prompts, completions=completions, ids=completion_ids, wanted=wanted)
        return [float(len(ids)) for ids in completion_ids]

    class Rows:
        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> dict[str, Any]:
            return {"prompt": [{"role": "user", "content": f"red {'blue ' * index}"}], "wanted": index}

    trainer(tmp_path, reward_funcs=looks, data=Rows()).train()
    assert len(seen["prompts"]) == 8 and seen["wanted"][:4] == [seen["wanted"][0]] * 4
    for prompt, completion, ids in zip(seen["prompts"], seen["completions"], seen["ids"], strict=True):
        text = tokenizer().decode(ids, skip_special_tokens=True)
        assert prompt[0]["role"] == "user" and completion == [{"role": "assistant", "content": text}]


def test_a_data_set_of_the_datasets_package(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    seen: list[Any] = []

    def looks(prompts: Any, completions: Any, wanted: Any, **kwargs: Any) -> list[float]:
        seen.extend(zip(prompts, wanted, strict=True))
        return small_ids(**kwargs)

    chats = [{"prompt": [{"role": "user", "content": row["prompt"]}], "wanted": row["wanted"]} for row in rows()]
    table, logs = datasets.Dataset.from_list(chats), []
    for data in (chats, table):
        seen.clear()
        run = trained(trainer(tmp_path, data=data, reward_funcs=looks, given={"eval_dataset": data}))
        logs.append((untimed(run.state.log_history), run.evaluate()["eval_reward_mean"], list(seen)))
    assert logs[0] == logs[1]
    refused("train_dataset is a IterableDataset", lambda: trainer(tmp_path, data=table.to_iterable_dataset()))
    refused(r"mapping of \['train'\]", lambda: trainer(tmp_path, data=datasets.DatasetDict({"train": table})))


def test_evaluation_leaves_the_training_alone(tmp_path: Path) -> None:
    plain = trained(trainer(tmp_path, max_steps=2))
    evaluating = {"given": {"eval_dataset": rows(5)}, "eval_strategy": "steps", "eval_steps": 1}
    run = trained(trainer(tmp_path, max_steps=2, per_device_eval_batch_size=2, **evaluating))
    lines = [line for line in untimed(run.state.log_history) if "eval_reward_mean" not in line]
    assert lines == untimed(plain.state.log_history)
    found = run.evaluate()
    assert found["eval_reward/small_ids"] == pytest.approx(found["eval_reward_mean"])
    refused("no rows", lambda: plain.evaluate())


def test_the_reward_rises(tmp_path: Path) -> None:
    """With eight seeds of model and roll-outs it rose by 0.55 to 0.79."""
    changes = {"max_steps": 16, "per_device_train_batch_size": 32, "num_generations": 8, "learning_rate": 1e-2}
    rewards = [line["reward_mean"] for line in logged(trainer(tmp_path, **changes))[:-1]]
    assert sum(rewards[-4:]) / 4 > rewards[0] + 0.3


def test_what_is_not_supported_raises(tmp_path: Path) -> None:
    Stream = type("Stream", (IterableDataset,), {"__iter__": lambda self: iter(rows())})
    for data, message in (
        (Stream(), "train_dataset is a Stream"),
        ([], "no rows"),
        ([{"text": "red"}], r"no 'prompt' but \['text'\]"),
        (rows()[:1], "1 examples do not fill one batch of 2"),
        ([*rows()[:1], {"prompt": "", "wanted": 1}], "row 1 of train_dataset: prompt '' has no token"),
    ):
        with pytest.raises(ValueError, match=message):
            trainer(tmp_path, data=data).train()
    based: dict[str, Any] = {"kl_weight": 0.2, "adapter_reference": "base"}
    refused("adapter_reference='base' does nothing without adapters", lambda: trainer(tmp_path, **based))
    refused("ref_model is given but kl_weight is 0", lambda: trainer(tmp_path, given={"ref_model": new_model()}))
    refused("not the expected 2", lambda: trainer(tmp_path, expected_processes=2), RuntimeError)
    with pytest.raises(ValueError, match="prompt-learning"):
        virtual = PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2)
        trainer(tmp_path, get_peft_model(new_model(), virtual))
    with pytest.raises(NotImplementedError, match="RolloutTrainer has no _compute_advantages"):
        RolloutTrainer(new_model(), small_ids, tiny_grpo.arguments(tmp_path), rows(), tokenizer()).train()
    ragged = [{"prompt": "red", "wanted": 1}, {"prompt": "blue"}]
    with pytest.raises(ValueError, match=r"row 1 of train_dataset has the columns \['prompt'\], .* give all the same"):
        trainer(tmp_path, data=ragged)
    with pytest.raises(ValueError, match=r"row 5 of eval_dataset: a row of the data set has no 'prompt'"):
        trainer(tmp_path, given={"eval_dataset": [*rows(5), {"wanted": 1}]})
    refused("predict is not supported", lambda: trainer(tmp_path).predict(rows()), NotImplementedError)
    with pytest.raises(ValueError, match="no outputs"):
        trainer(tmp_path).compute_loss(new_model(), None, return_outputs=True)  # type: ignore[arg-type]
