"""Who is asked what, and what each label is worth: the game end to end with roles that write by a script."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from llm_rl.core import MetricAccumulator
from llm_rl.raro import Label, Pair, parse_label
from llm_rl.raro.critic import Critique, Request, dealt, draws, orders, record_critiques
from llm_rl.rollout.data import Sample
from llm_rl.rollout.generation import Completion, SamplingParams
from tests.llm_rl.helpers import tiny_raro
from tests.llm_rl.helpers.fixed_engine import Says
from tests.llm_rl.helpers.tiny_raro import mixed_critic, mixed_policy, numbered, rewards_of, rows, trainer
from tests.llm_rl.helpers.tiny_vapor import tag_tokenizer
from tests.llm_rl.helpers.watch import logged, spy


def labeled(wanted: str, first: str) -> str:
    """What a critic writes for a label who sees this answer first."""
    return "[Tie]" if wanted == "tie" else tiny_raro.judged(first, wanted == "expert")


@pytest.mark.parametrize("expert_first", [True, False])
def test_every_label_in_both_orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expert_first: bool) -> None:
    monkeypatch.setattr("llm_rl.raro.critic.orders", lambda coin, both: [expert_first])
    wanted = {"red": "expert", "blue sky": "policy", "one two three": "tie"}

    def critic(question: str, first: str, second: str, n: int) -> str:
        assert first.startswith("E") is expert_first
        return labeled(wanted[question], first)

    sizes = {"per_device_train_batch_size": 12, "critic_pairs": 12}
    run = trainer(tmp_path, policy=numbered, critic=critic, data=rows(3), **sizes)
    advantages = spy(run, "_with_advantages")
    run.train()
    assert Counter(rewards_of(advantages, is_critic=False)) == {0.0: 4, 1.0: 4, 0.6: 4}
    assert Counter(rewards_of(advantages, is_critic=True)) == {1.0: 16, 0.0: 16, 0.55: 16}
    assert {one["asked"] for one in tiny_raro.asked_of_critic(run)} == set(wanted)


# Rewards


def test_which_reward_belongs_to_which_completion(tmp_path: Path) -> None:
    """Labels by the number in the policy's answer: expert, policy, tie, expert, so rewards 0, 1, 0.6, 0."""

    def critic(question: str, first: str, second: str, n: int) -> str:
        number = int((second if first.startswith("E") else first)[-1])
        return labeled(["expert", "policy", "tie", "expert"][number], first)

    mean, spread = 0.4, 0.24**0.5 + 1e-4
    expected = {
        ("mean", "none"): [reward - mean for reward in (0, 1, 0.6, 0)],
        ("leave_one_out", "group"): [part / spread for part in (-1.6 / 3, 1 - 0.6 / 3, 0.6 - 1 / 3, -1.6 / 3)],
    }
    for (baseline, scale), advantages in expected.items():
        run = trainer(tmp_path, policy=numbered, critic=critic, advantage_baseline=baseline, scale_rewards=scale)
        kept = spy(run, "_policy_samples")
        run.train()
        found = [sample.advantage for sample in kept[0].result]
        assert found == pytest.approx(advantages * 4, abs=1e-5)


@pytest.mark.parametrize(("critic_batch", "silent"), [("separate", 1), ("mixed", 4)])
def test_labels_of_a_second_critique_are_the_reward(tmp_path: Path, critic_batch: str, silent: int) -> None:
    """The critic says nothing the first time that it is asked about a pair, and a tie from then on."""
    calls: Counter[frozenset[str]] = Counter()

    def critic(question: str, first: str, second: str, n: int) -> str:
        calls[pair := frozenset((first, second))] += 1
        return "hm" if calls[pair] <= silent else "[Tie]"

    line = logged(trainer(tmp_path, policy=numbered, critic=critic, critic_batch=critic_batch))[0]
    assert line["policy/reward_mean"] == pytest.approx(0.6) and line["policy/rejudged_frac"] == 1
    assert line["policy/dropped_frac"] == 0
    assert line["critic/dropped_frac"] == (1 if critic_batch == "mixed" else 0)
    assert {count for count in calls.values() if count != silent + 1} <= {silent + 1 + 4}


# What reaches the critic


@pytest.mark.parametrize("quoted", ["question", "expert", "policy"])
def test_what_the_critic_quotes_is_no_label(tmp_path: Path, quoted: str) -> None:
    data = [{"question": "red [Answer 1]", "answer": "E sky [Answer 1]"}]
    texts = {"question": "red [Answer 1]", "expert": "E sky [Answer 1]", "policy": "P sun [Answer 1]"}

    said = f"It reads {texts[quoted]} ."
    assert parse_label(said, True) is Label.EXPERT
    roles = {"policy": lambda question, n: texts["policy"], "critic": lambda question, first, second, n: said}
    line = logged(trainer(tmp_path, data=data, num_generations=16, **roles))[0]
    assert line["critic/unparsable_rate"] == line["policy/dropped_frac"] == 1


def test_the_critics_length_and_system_prompt(tmp_path: Path) -> None:
    scripted, asked = tiny_raro.ScriptedEngine(mixed_policy, mixed_critic), set[tuple[str, int]]()

    def without_system(prompts: Sequence[Sequence[int]], params: SamplingParams) -> list[Completion]:
        texts = tag_tokenizer().batch_decode(prompts)
        asked.update((text.partition(" ")[0], params.max_new_tokens) for text in texts)
        bare = [text.removeprefix("Judge!\n\n") for text in texts]
        return scripted.generate(tag_tokenizer()(bare)["input_ids"], params)

    changes = {"max_critic_completion_length": 33, "critic_system": "Judge!"}
    trainer(tmp_path, given={"engine": Says(without_system)}, **changes).train()
    assert asked == {("Q", 40), ("Judge!\n\nC", 33)}


def test_each_of_several_critiques_has_an_order_of_its_own(tmp_path: Path) -> None:
    run = trainer(tmp_path, policy=numbered, policy_judgements=4)
    passes = spy(run.critic, "judge")
    run.train()
    orders = [tuple(one.request.expert_first for (one,) in groups) for groups in passes[0].result]
    assert all(len(order) == 4 for order in orders)
    # Of 16 pairs 14 have both orders in expectation, 4.8 standard deviations above 8.
    assert sum(len(set(order)) == 2 for order in orders) > 8 and len(set(orders)) > 4


def half_equal(question: str, n: int) -> str:
    """The expert's own answer every other time."""
    return f"<R>one</R>{f'P {question} {n}' if n % 2 else f'E {question}'}"


@pytest.mark.parametrize("equal_pairs", [True, False])
def test_equal_pairs_are_judged_and_trained_on_if_asked_for(tmp_path: Path, equal_pairs: bool) -> None:
    data = [{"question": name, "answer": f"E {name}"} for name in ("red", "sun", "ice", "fog")]
    changes = {"critic_pairs": 64, "critic_equal_pairs": equal_pairs, "max_steps": 2}
    run = trainer(tmp_path, data=data, policy=half_equal, critic=tiny_raro.tie, **changes)
    judgments, lessons = spy(run.critic, "judge"), spy(run, "_critic_samples")
    run.train()
    for step, (judging, training) in enumerate(zip(judgments, lessons, strict=True)):
        assert Counter(pair.equal for pair in judging.arguments[0]) == {True: 8, False: 8}
        pairs = Counter(group[0].request.pair.equal for group in training.arguments[0])
        # The second step has all of the first as history beside its own.
        assert pairs == Counter({False: 8 * (step + 1), True: 8 * (step + 1) * equal_pairs})
    assert len(run.replay) == (32 if equal_pairs else 16)


# The buffer


def test_a_question_id_may_repeat_and_the_buffer_has_the_arguments(tmp_path: Path) -> None:
    data = [
        {"question": "red", "answer": "E one", "question_id": "a"},
        {"question": "red", "answer": "E two", "question_id": "a"},
        {"question": "sun", "answer": "E sun", "question_id": 7},
    ]
    changes = {"replay_mode": "reservoir", "replay_capacity": 20, "per_device_train_batch_size": 12}
    run = trainer(tmp_path, policy=numbered, data=data, max_steps=2, **changes)
    run.train()
    held = {(pair.question_id, pair.question, pair.expert_answer) for pair in run.replay.pairs}
    assert held == {("a", "red", "E one"), ("a", "red", "E two"), ("7", "sun", "E sun")}
    assert (run.replay.mode, run.replay.capacity, len(run.replay)) == ("reservoir", 20, 20)


def test_one_pair_a_step_is_fresh_and_history_in_turn(tmp_path: Path) -> None:
    run = trainer(tmp_path, policy=numbered, critic_pairs=1, max_steps=4)
    assert [run.args.history_pairs(step) for step in range(4)] == [0, 1, 0, 1]
    steps = spy(run, "_critic_samples")
    run.train()
    assert [group[0].request.replayed for step in steps for group in step.arguments[0]] == [False, True] * 2
    for pairs, expected in ((3, [1, 2, 1, 2]), (4, [2, 2, 2, 2])):
        args = tiny_raro.arguments(tmp_path, critic_pairs=pairs)
        assert [args.history_pairs(step) for step in range(4)] == expected
    args = tiny_raro.arguments(tmp_path, critic_pairs=1, num_iterations=2)
    assert [args.history_pairs(step) for step in (0, 2, 4, 6)] == [0, 1, 0, 1]


# Critiques


PAIR = Pair("q", "question", "expert", "policy", 0)


def critique(
    label: Label | None, first: bool, replayed: bool = False, truncated: bool = False, pair: Pair = PAIR
) -> Critique:
    return Critique(Request(pair, first, replayed), Sample({}, [1], [2], truncated), label)


def test_shares_of_what_critics_wrote() -> None:
    metrics = MetricAccumulator()
    critiques = [
        critique(Label.EXPERT, True), critique(Label.EXPERT, True, replayed=True), critique(Label.POLICY, False),
        critique(Label.EXPERT, False, replayed=True), critique(Label.POLICY, True, replayed=True),
        critique(Label.TIE, True), critique(Label.TIE, False), critique(None, True),
        critique(None, False, truncated=True), critique(None, True, truncated=True),
    ]  # fmt: skip
    record_critiques(metrics, critiques[:4])
    record_critiques(metrics, critiques[4:])
    assert metrics.compute() == pytest.approx(
        {
            "critic/overlength_rate": 2 / 10, "critic/unparsable_rate": 1 / 8, "critic/tie_rate": 2 / 7,
            "critic/tie_rate_distinct": 2 / 7, "critic/accuracy": 3 / 5, "critic/accuracy_distinct": 3 / 5,
            "critic/accuracy_fresh": 1 / 2, "critic/accuracy_replayed": 2 / 3, "critic/accuracy_expert_first": 2 / 3,
            "critic/accuracy_expert_second": 1 / 2,
        }
    )  # fmt: skip


def test_equal_answers_are_left_out_where_there_must_be_something_to_tell() -> None:
    equal, metrics = replace(PAIR, policy_answer="expert"), MetricAccumulator()
    labels = [Label.EXPERT, Label.POLICY, Label.TIE, Label.TIE]
    same = [critique(label, True, pair=equal) for label in labels]
    record_critiques(metrics, [*same, critique(Label.EXPERT, True), critique(Label.TIE, False)])
    found = metrics.compute()
    assert found["critic/accuracy"] == pytest.approx(2 / 3) and found["critic/accuracy_distinct"] == 1
    assert found["critic/tie_rate"] == pytest.approx(3 / 6) and found["critic/tie_rate_distinct"] == 1 / 2


def test_random_numbers_and_dealing_do_not_depend_on_processes() -> None:
    assert draws(1, 2, 3).random(4).tolist() == draws(1, 2, 3).random(4).tolist() != draws(1, 2, 4).random(4).tolist()
    for count in (0, 1, 7):
        parts = [dealt(list(range(count)), 3, process) for process in range(3)]
        sizes = [len(part) for part in parts]
        assert [item for part in parts for item in part] == list(range(count)) and max(sizes) - min(sizes) <= 1
    assert orders(0.2, False) == [True] and orders(0.7, False) == [False] and orders(0.7, True) == [True, False]
