"""Batches of a bounded number of tokens, and prompts of the critic that grow with the policy's answers."""

from pathlib import Path
from typing import Any

import pytest
import torch

from llm_rl.raro import Pair
from llm_rl.raro.batches import RoleBatch, RoleSample, Room, TokenBudgetEngine, role_batches, token_budget_batches
from tests.helpers.refusals import refused
from tests.llm_rl.helpers.tiny_raro import asked_of_critic, raro_model, rewards_of, rows, tie, trainer
from tests.llm_rl.helpers.tiny_vapor import tag_model, tag_tokenizer
from tests.llm_rl.helpers.watch import spy

LONG = "two " * 50
LIMIT = 70


def bounded(by: str) -> tuple[Any, int]:
    """A model and a budget of tokens for a batch; one of them holds `LIMIT` tokens, the other more."""
    return (raro_model(), LIMIT) if by == "tokens" else (tag_model(max_position_embeddings=LIMIT), 1024)


@pytest.mark.parametrize(
    ("bound", "critic_batch", "overlength_reward"),
    [("tokens", "separate", None), ("positions", "separate", -0.5), ("tokens", "mixed", -0.5)],
)
def test_an_answer_too_long_to_be_judged_is_over_length(
    tmp_path: Path, bound: str, critic_batch: str, overlength_reward: float | None
) -> None:
    """Answers are short at first; at the second step one in four is so long that the critic's prompt has no room."""

    def growing(question: str, n: int) -> str:
        return f"P {n} {LONG if run.state.global_step and n == 1 else ''}"

    model, budget = bounded(bound)
    run = trainer(
        tmp_path, model, policy=growing, critic=tie, max_tokens_per_batch=budget, max_completion_length=60,
        max_critic_completion_length=15, overlength_reward=overlength_reward, critic_batch=critic_batch, max_steps=2,
    )  # fmt: skip
    advantages = spy(run, "_with_advantages")
    run.train()
    first, second = run.state.log_history[:2]
    assert first["policy/too_long_frac"] == 0 and second["policy/too_long_frac"] == 1 / 4
    assert second["policy/overlength_rate"] == 0 and second["policy/answered"] == 1
    assert rewards_of(advantages, is_critic=False)[16:] == [0.6, overlength_reward, 0.6, 0.6] * 4
    assert second["policy/dropped_frac"] == (1 / 4 if overlength_reward is None else 0)
    asked = asked_of_critic(run)
    assert asked and not any(LONG.strip() in one["first"] + one["second"] for one in asked)
    assert len(run.replay) == 16 + 12 and not any(LONG.strip() in pair.policy_answer for pair in run.replay.pairs)


def test_history_of_a_larger_budget_is_not_judged(tmp_path: Path) -> None:
    changes = {"max_tokens_per_batch": LIMIT, "max_critic_completion_length": 15, "critic_pairs": 4}
    run = trainer(tmp_path, policy=lambda question, n: f"P {n}", critic=tie, **changes)
    run.replay.add([Pair("x", "red", "E red", f"P old {LONG}", 0), Pair("y", "red", "E red", "P old", 0)])
    run.train()
    asked = {one["first"] + one["second"] for one in asked_of_critic(run)}
    assert any("P old" in one for one in asked) and not any(LONG.strip() in one for one in asked)


@pytest.mark.parametrize("bound", ["tokens", "positions"])
def test_a_question_that_does_not_fit_stops_the_step_before_it_begins(tmp_path: Path, bound: str) -> None:
    model, budget = bounded(bound)
    data = [*rows(3), {"question": "sun", "answer": f"E {LONG}", "wanted": "4"}]
    run = trainer(tmp_path, model, data=data, max_tokens_per_batch=budget, max_critic_completion_length=20)
    why = rf"the critic's prompt.*none of the policy's yet, has \d+ tokens.*{budget}.*raise max_tokens_per_batch, lower"
    refused(f"{why} max_critic_completion_length.*leave out the question 'sun'", lambda: run.train())
    assert run.engine.asked == []  # type: ignore[attr-defined]


def test_a_policy_prompt_that_does_not_fit(tmp_path: Path) -> None:
    run = trainer(tmp_path, max_tokens_per_batch=12)
    why = r"the policy's prompt has \d+ tokens.*up to 40, but max_tokens_per_batch is 12 .* lower max_completion_length"
    refused(why, lambda: run.train())
    assert run.engine.asked == []  # type: ignore[attr-defined]


def test_room_is_to_the_token() -> None:
    assert Room(10, None).holds(6, 4) and not Room(10, None).holds(6, 5)
    assert Room(10, 8).holds(4, 4) and not Room(10, 8).holds(5, 4) and Room(10, 12).holds(6, 4)


def test_the_engine_samples_within_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The default engine, whose every call of the model's generate is seen, for both roles."""
    model, sizes, texts = raro_model(), [], []
    original = model.generate

    def generate(**inputs: Any) -> Any:
        count, width = inputs["input_ids"].shape
        sizes.append((count, count * (width + model.generation_config.max_new_tokens)))
        texts.extend(tag_tokenizer().batch_decode(inputs["input_ids"], skip_special_tokens=True))
        return original(**inputs)

    monkeypatch.setattr(model, "generate", generate)
    run = trainer(tmp_path, model, given={"engine": None}, max_tokens_per_batch=120, max_completion_length=8)
    assert isinstance(run.engine, TokenBudgetEngine) and run.engine.max_tokens == 120
    run.replay.add([Pair(str(n), "red", "E red", f"P {'two ' * (5 * n)}", 0) for n in range(4)])
    run.train()
    assert {text[0] for text in texts} == {"Q", "C"} and len(sizes) > 3
    assert all(tokens <= 120 for _, tokens in sizes) and max(count for count, _ in sizes) > 1


def test_batches_hold_every_sequence_once_and_at_most_the_budget() -> None:
    generator = torch.Generator().manual_seed(0)
    lengths = [tuple(pair) for pair in torch.randint(1, 30, (60, 2), generator=generator).tolist()]
    for budget in (58, 100, 333, 10_000):
        batches = token_budget_batches(lengths, budget)  # type: ignore[arg-type]
        assert sorted(index for batch in batches for index in batch) == list(range(60))
        for batch in batches:
            prompts, completions = zip(*(lengths[index] for index in batch), strict=True)
            assert len(batch) * (max(prompts) + max(completions)) <= budget
    assert len(token_budget_batches(lengths, 10_000)) == 1 and token_budget_batches([], 5) == []  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"one sequence has 20 \+ 30 tokens.*max_tokens_per_batch is 49"):
        token_budget_batches([(20, 30), (1, 1)], 49)


def test_a_batch_is_of_one_role() -> None:
    samples = [
        RoleSample({}, [1] * n, [2] * (n + 1), n == 3, is_critic=n % 2 == 0, advantage=n / 10) for n in range(1, 7)
    ]
    batches = role_batches(samples, 26, pad_id=0)
    assert [batch.of_critic for batch in batches] == sorted(batch.of_critic for batch in batches)
    for batch in batches:
        lengths = batch.prompt_mask.sum(1)
        assert torch.equal(batch.is_critic, lengths % 2 == 0)
        assert torch.allclose(batch.advantages, lengths / 10)
        assert torch.equal(batch.loss_mask, batch.completion_mask)
    with pytest.raises(ValueError, match="no counts"):
        _ = RoleBatch.of(samples[:1], 0).role_counts
