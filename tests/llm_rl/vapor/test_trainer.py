import copy
from pathlib import Path
from typing import Any

import pytest
import torch

from llm_rl.vapor import VAPORTrainer
from tests.helpers.refusals import refused
from tests.llm_rl.helpers import tiny_grpo, tiny_vapor
from tests.llm_rl.helpers.tiny_dpo import chats
from tests.llm_rl.helpers.tiny_vapor import ROWS, WrittenEngine, shifted_model, tag_model, tag_tokenizer, trainer
from tests.llm_rl.helpers.vapor_reference import slow_loss, slow_span
from tests.llm_rl.helpers.watch import KeepSteps, assert_gradients, gradients_of, keep_samples, logged, trained

WHOLE_STEP = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 4}
"""All four prompts in one optimizer step of four forward passes."""


MONITORS = {
    "reward_mean", "reward_std", "approx_kl", "clip_frac", "entropy", "grad_norm", "groups_without_spread",
    "masked_frac", "surrogate", "kl", "preference_loss", "verifiable_ratio", "preference_term", "preference_accuracy",
    "preference_margin",
}  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [
        {"beta": 0.5},
        {"beta": 0.0},
        {"ratio_base": "old", "clip_low": 0.1, "clip_high": 0.4, "beta": 0.3},
        {"ratio_level": "mean", "kl_weight": 0.2, "beta": 0.4},
        {"ratio_level": "token", "ratio_base": "old", "advantage_scale": "std", "temperature": 0.7},
        {"clip_on": "verifiable", "pref_loss_weight": 0.5, "beta": 0.2},
        {"preference_context": "generated", "pref_loss_weight": 0.3, "beta": 0.6, "kl_weight": 0.1},
        {"ratio_level": "token", "clip_on": "verifiable", "preference_context": "generated"},
        {"preference_context": "generated", "per_device_train_batch_size": 8, "gradient_accumulation_steps": 2},
    ],
    ids=lambda changes: "-".join(changes),
)
def test_gradient_equals_a_slow_loop_over_samples(tmp_path: Path, changes: dict[str, Any]) -> None:
    """They agree at the first and second update of a roll-out, with a reference that is not the policy that samples."""
    kept, model, reference = KeepSteps(), tag_model(torch.float64), shifted_model()
    old = copy.deepcopy(model)
    settings = {**WHOLE_STEP, "max_steps": 2, "num_iterations": 2, **changes}
    run = trainer(tmp_path, model, given={"callbacks": [kept], "ref_model": copy.deepcopy(reference)}, **settings)
    samples = keep_samples(run)
    run.train()
    for step in (0, 1):
        now = copy.deepcopy(old)
        now.load_state_dict(kept.weights[step])
        loss = slow_loss(now, old, reference, samples, tiny_vapor.red_count, tag_tokenizer(), run.args)
        loss.backward()
        line = run.state.log_history[step]
        assert line.keys() >= MONITORS and line["loss"] == pytest.approx(loss.item(), abs=2e-6)
        assert_gradients(kept.steps[step], now)
        assert max(float(gradient.abs().max()) for gradient in kept.steps[step].values()) > 1e-3
        assert 0.2 < line["verifiable_failure_frac"] < 0.8 if step == 0 else line["clip_frac"] > 0
        assert line["preference_failure_frac"] >= 0.5


def test_completions_fail_in_every_way_and_are_neutral(tmp_path: Path) -> None:
    seen: list[tuple[str, list[int]]] = []

    def noting(completions: list[str], completion_ids: list[list[int]], chosen: list[str], **kw: Any) -> list[float]:
        assert len(completions) == len(completion_ids) == len(chosen)
        seen.extend(zip(completions, completion_ids, strict=True))
        return [5.0] * len(completions)

    run = trainer(tmp_path, reward_funcs=noting)
    samples = run._generate_completions(ROWS, 4)
    rewards = run._score_completions(samples).flatten().tolist()
    parts = [slow_span(s.completion_ids, tag_tokenizer(), ["<REASONING>", "</REASONING>"]) for s in samples]
    assert rewards == [5.0 if kept else 0.0 for kept, _ in parts] and 0.0 in rewards and 5.0 in rewards
    assert [text for text, _ in seen] == [text for kept, text in parts if kept]
    expected = [[s.completion_ids[i] for i in kept] for s, (kept, _) in zip(samples, parts, strict=True) if kept]
    assert [ids for _, ids in seen] == expected
    merged = [tag_tokenizer().decode(ids) for _, ids in seen]
    assert any(not text.endswith("</REASONING>") for text in merged)  # the last token reaches beyond its tag
    assert run.metrics.compute()["verifiable_failure_frac"] == rewards.count(0.0) / 16


def test_nothing_found_teaches_nothing_and_asks_no_reward_function(tmp_path: Path) -> None:
    def never(**kwargs: Any) -> list[float]:
        raise AssertionError("called without a completion")

    line = logged(trainer(tmp_path, reward_funcs=never, given={"engine": WrittenEngine(["moon", "</REASONING>"])}))[0]
    assert line["verifiable_failure_frac"] == 1 and line["groups_without_spread"] == 1
    assert line["loss"] == 0 and line["grad_norm"] == 0


def test_beta_zero_is_pure_verifiable_reward(tmp_path: Path) -> None:
    """The pairs do not matter, and no pair that is found changes anything."""
    swapped = [{**row, "chosen": row["rejected"], "rejected": row["chosen"]} for row in ROWS]
    without = [{**row, "chosen": "", "rejected": ""} for row in ROWS]
    runs = []
    for data, beta in ((ROWS, 0.0), (swapped, 0.0), (without, 0.7), (ROWS, 0.7)):
        settings = {**WHOLE_STEP, "max_steps": 3, "num_iterations": 3, "beta": beta, "clip_high": 5.0}
        run = trainer(tmp_path, data=data, **settings)
        runs.append((gradients_of(run), run.state.log_history))
    for steps, _ in runs[1:3]:
        for ours, theirs in zip(steps, runs[0][0], strict=True):
            assert all(torch.allclose(gradient, theirs[name], atol=1e-7) for name, gradient in ours.items())
    assert any((runs[3][0][2][name] - gradient).abs().max() > 1e-4 for name, gradient in runs[0][0][2].items())
    assert runs[0][1][2]["preference_margin"] == pytest.approx(-runs[1][1][2]["preference_margin"], abs=1e-5)
    assert "preference_margin" not in runs[2][1][2] and runs[2][1][2]["preference_failure_frac"] == 1


def short(completions: list[str], **kwargs: Any) -> list[float]:
    """More for a short part; one that is missing has 0."""
    return [1.0 if len(text) < 6 else 0.5 for text in completions]


def tiny_task(folder: Path, **changes: Any) -> VAPORTrainer:
    """A part from "e" to "n" is wanted, short; "sky sea moon" is preferred to "sky two moon"."""
    rows = [{**row, "chosen": "sky sea moon", "rejected": "sky two moon"} for row in tiny_grpo.distinct_rows()]
    chosen = {
        "max_steps": 10, "per_device_train_batch_size": 32, "num_generations": 8, "max_completion_length": 10,
        "max_grad_norm": 1.0, "learning_rate": 2e-2, "verifiable_term_split": ["e", "n"],
        "preference_term_split": ["sky", "moon"], **changes,
    }  # fmt: skip
    args = tiny_vapor.arguments(folder, **chosen)
    return VAPORTrainer(tiny_grpo.new_model(), short, args, rows, tiny_grpo.tokenizer())


def test_reward_and_preference_margin_rise(tmp_path: Path) -> None:
    """With six seeds of model and roll-outs the reward rose by 0.31 to 0.53 and the margin to 14 at least."""
    changes = {"ratio_base": "old", "ratio_level": "token", "clip_on": "verifiable", "pref_loss_weight": 0.5}
    run = tiny_task(tmp_path, **changes)
    before = run.evaluate(run.train_dataset)
    lines = logged(run)[:10]
    after = run.evaluate(run.train_dataset)
    rewards = [line["reward_mean"] for line in lines]
    assert sum(rewards[-4:]) / 4 > rewards[0] + 0.15
    assert lines[0]["preference_margin"] == 0 and lines[0]["preference_accuracy"] == 0
    assert lines[-1]["preference_margin"] > 5 and lines[-1]["preference_accuracy"] == 1
    assert before["eval_reward_mean"] < after["eval_reward_mean"]
    assert before["eval_preference_margin"] == 0 and after["eval_preference_margin"] > 5


def test_the_product_alone_has_no_preference_gradient_at_the_start(tmp_path: Path) -> None:
    """The first gradient is the same whatever the preference weighs in the product; the direct term has its own."""
    steps = []
    for changes in ({"beta": 1.0}, {"beta": 0.0}, {"beta": 1.0, "pref_loss_weight": 1.0}):
        run = tiny_task(tmp_path, max_steps=1, **changes)
        steps.append(torch.cat([gradient.flatten() for gradient in gradients_of(run)[0].values()]))
        assert run.state.log_history[0]["preference_failure_frac"] == 0
    assert (steps[0] - steps[1]).norm() < 1e-4 * steps[1].norm() and steps[1].norm() > 1e-2
    assert (steps[2] - steps[1]).norm() > 0.1 * steps[1].norm()


def test_chat_rows(tmp_path: Path) -> None:
    seen: list[Any] = []

    def noting(completions: Any, **kwargs: Any) -> list[float]:
        seen.extend(completions)
        return [1.0] * len(completions)

    names = tiny_grpo.with_template(tag_tokenizer(), tiny_grpo.CHAT)
    rows = chats(ROWS)
    run = trained(trainer(tmp_path, data=rows, reward_funcs=noting, names=names))
    assert seen and all(message["role"] == "assistant" for (message,) in seen)
    text, plain = run._encode_pair(rows[0]), run._encode_pair(ROWS[0])
    assert text == plain and text[0].span is not None


def test_rows_that_do_not_fit(tmp_path: Path) -> None:
    refused("'chosen' of a row is None", lambda: trainer(tmp_path, data=[{"prompt": "red"}]))
    refused("'rejected' of a row is 3", lambda: trainer(tmp_path, data=[{**ROWS[0], "rejected": 3}]))
    long = "<RESPONSE>" + "zq" * 100 + "</RESPONSE>"
    with pytest.raises(ValueError, match="exceeds the model's 128 positions"):
        trainer(tmp_path, data=[{"prompt": "red", "chosen": long, "rejected": long}] * 4).train()
