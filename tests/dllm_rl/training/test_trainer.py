from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import dllm_rl.training.trainer
from dllm_rl.decoding import Decoding
from dllm_rl.decoding.rollouts import rollout
from dllm_rl.training.update import objective_pass
from llm_rl.training.sampler import RepeatedBatchSampler
from tests.dllm_rl.helpers.tiny_training import KeepGradients, logged, puzzles, trained, trainer, untimed, warm_model
from tests.dllm_rl.helpers.update_checks import run as objective
from tests.dllm_rl.helpers.weights import moved_from, weights
from tests.helpers.drawn import first_with

ON_FRESH_ROLLOUTS = {
    "clip_frac", "position_entropy", "greedy_definite", "position_top_prob", "solved", "steps_before_error",
    "approx_kl", "reward_mean", "reward_std", "entropy", "masked_frac", "groups_without_spread", "grad_norm",
    "max_log_ratio_at_update_0", "objective_policy", "objective_f", "distinct_states",
}  # fmt: skip


@given(
    length=st.integers(1, 40),
    block=st.integers(1, 10),
    repeats=st.integers(1, 4),
    seed=st.integers(0, 2**31),
    epoch=st.integers(0, 100),
)
def test_sampler_repeats_blocks_of_a_permutation(length, block, repeats, seed, epoch):
    if length < block:
        with pytest.raises(ValueError, match=f"{length} examples do not fill one batch of {block}"):
            RepeatedBatchSampler(length, block, repeats, seed)
        return
    sampler = RepeatedBatchSampler(length, block, repeats, seed)
    sampler.set_epoch(epoch)
    indices = list(sampler)
    assert len(indices) == len(sampler)
    blocks = np.array(indices).reshape(-1, repeats, block)
    assert len(blocks) == length // block and (blocks == blocks[:, :1]).all()
    assert set(indices) <= set(range(length)) and set(Counter(indices).values()) == {repeats}
    assert list(sampler) == indices
    again = RepeatedBatchSampler(length, block, repeats, seed)
    again.set_epoch(epoch)
    assert list(again) == indices


def test_sampler_reshuffles_with_epoch_and_seed():
    sampler = RepeatedBatchSampler(100, 10, 2, seed=3)
    orders = []
    for epoch in (0, 1):
        sampler.set_epoch(epoch)
        orders.append(list(sampler))
    orders.append(list(RepeatedBatchSampler(100, 10, 2, seed=4)))
    assert orders[0] != orders[1] and orders[0] != orders[2]


@pytest.mark.parametrize("accumulated", [1, 2])
def test_epochs_visit_every_puzzle_in_a_new_order(tmp_path, rollouts, accumulated):
    per_epoch = 8 // (2 * accumulated)
    trained(tmp_path, max_steps=2 * 2 * per_epoch, num_iterations=2, gradient_accumulation_steps=accumulated)
    assert len(rollouts) == 8
    seen = [record.problems.layout.puzzle.tobytes() for record in rollouts]  # the first puzzle of each batch
    boards = [record.problems.boards(record.problems.responses).tobytes() for record in rollouts]
    assert sorted(b"".join(boards[:4])) == sorted(b"".join(boards[4:]))
    assert seen[:4] != seen[4:]


def test_logged_metrics(tmp_path):
    for line in trained(tmp_path, max_steps=3).state.log_history[:3]:
        assert line.keys() >= ON_FRESH_ROLLOUTS and "objective_ce" not in line
        assert line["clip_frac"] == 0 and line["max_log_ratio_at_update_0"] < 1e-4 and abs(line["approx_kl"]) < 1e-6
        assert line["loss"] == pytest.approx(-line["objective_policy"] - line["objective_f"], abs=1e-5)
        for share in ("greedy_definite", "solved", "position_top_prob", "distinct_states"):
            assert 0 <= line[share] <= 1
        assert line["grad_norm"] > 0


def test_metrics_of_a_rollout_by_plain_loops(tmp_path, rollouts):

    def draw(seed):
        rollouts.clear()
        return trained(tmp_path, warm_model().double(), seed=seed)

    # A roll-out of which some groups have spread at some decision and some have none.
    run = first_with(lambda run: 0 < logged(run, "groups_without_spread")[0] < 1, draw, seed=7)
    (record,) = rollouts
    entropies, tops, forced, right, totals, steps = [], [], [], [], [], []
    for trajectory in range(len(record.state_of)):
        live = [k for k, state in enumerate(record.state_of[trajectory].tolist()) if state >= 0]
        for k in live:
            state = int(record.state_of[trajectory, k])
            entropies.append(float(record.entropy[state]))
            tops.append(float(record.top_prob[state]))
            greedy = int(record.greedy[state])
            if record.problems.judged[0][greedy]:
                forced.append(bool(record.definite[state, greedy]))
        totals.append(sum(float(record.rewards[trajectory, k]) for k in live))
        right.append(not record.errors[trajectory])
        steps.append(len(live) - int(record.errors[trajectory]))
    line = run.state.log_history[0]
    assert line["position_entropy"] == pytest.approx(np.mean(entropies))
    assert line["position_top_prob"] == pytest.approx(np.mean(tops))
    assert line["greedy_definite"] == pytest.approx(np.mean(forced))
    assert line["solved"] == np.mean(right)
    assert line["steps_before_error"] == np.mean(steps)
    assert line["reward_mean"] == pytest.approx(np.mean(totals))
    assert line["reward_std"] == pytest.approx(np.std(np.reshape(totals, (2, 4)), axis=1).mean())
    assert line["distinct_states"] == len(record.responses) / len(entropies)
    acted, counted, flat = [], 0, []
    for group in (range(4), range(4, 8)):
        for k in range(record.live.shape[1]):
            members = [t for t in group if record.state_of[t, k] >= 0]
            acted += [-float(record.old_logprobs[t, k]) for t in members]
            if members and k + 1 < record.decisions[group[0]]:
                counted += len(members)
                flat.append(np.ptp([discounted_rest(record, t, k, run.objective.gamma) for t in group]) == 0)
    assert line["entropy"] == pytest.approx(np.mean(acted))
    assert line["masked_frac"] == pytest.approx(1 - counted / len(acted))
    assert line["groups_without_spread"] == pytest.approx(np.mean(flat))


def discounted_rest(record, trajectory, step, gamma):
    """The return of a decision: f at the states after it, discounted."""
    states = record.state_of[trajectory, step + 1 :].tolist()
    return sum(gamma**i * float(record.expected_reward[s]) for i, s in enumerate(states) if s >= 0)


def test_repeated_updates_move_away_from_the_rollout(tmp_path, rollouts):

    def draw(seed):
        rollouts.clear()
        return trained(tmp_path, max_steps=6, num_iterations=3, learning_rate=1e-2, seed=seed)

    run = first_with(lambda run: max(logged(run, "clip_frac")) > 0.02, draw, seed=7)
    assert len(rollouts) == 2
    clipped, divergence = logged(run, "clip_frac"), logged(run, "approx_kl")
    assert clipped[0] == clipped[3] == 0
    for first in (0, 3):
        assert abs(divergence[first]) < 1e-6 < min(divergence[first + 1 : first + 3])
    assert len(logged(run, "max_log_ratio_at_update_0")) == len(logged(run, "solved")) == 2


def test_metrics_between_two_log_lines_are_pooled(tmp_path):
    single, pooled = trained(tmp_path, max_steps=2), trained(tmp_path, max_steps=2, logging_steps=2)
    (line,) = [line for line in pooled.state.log_history if "solved" in line]
    for name in ("solved", "objective_f", "reward_mean"):
        assert line[name] == pytest.approx(np.mean(logged(single, name)), abs=1e-6)
    assert line["max_log_ratio_at_update_0"] == max(logged(single, "max_log_ratio_at_update_0"))


@pytest.mark.parametrize("rates", [{}, {"rl_learning_rate": 2e-3, "sft_learning_rate": 5e-4}])
def test_accumulated_gradient_is_the_mean_over_both_rollouts(tmp_path, rollouts, rates):
    """Of all terms, of which with two rates the cross-entropy goes with the second."""
    gradients = KeepGradients()
    settings = {"gradient_accumulation_steps": 2, "max_grad_norm": 0.0, "ce_weight": 0.3, **rates}
    run = trained(tmp_path, warm_model().double(), callbacks=[gradients], **settings)
    assert len(rollouts) == 2

    def reference(*weights):
        parts = [objective(warm_model().double(), record, run.objective, weights=weights) for record in rollouts]
        (one, first), (other, second) = parts
        terms = {name: (value + other.terms[name]) / 2 for name, value in one.terms.items()}
        return terms, [-0.5 * sum(pair) for pair in zip(first, second, strict=True)]

    terms, expected = reference(1, 0 if rates else 1)
    torch.testing.assert_close(gradients.first[0], expected, atol=1e-9, rtol=1e-9)
    if rates:
        torch.testing.assert_close(gradients.second[0], reference(0, 1)[1], atol=1e-9, rtol=1e-9)
    line = run.state.log_history[0]
    assert {name: line[f"objective_{name}"] for name in ("policy", "f", "ce")} == pytest.approx(terms, abs=1e-5)
    assert line["loss"] == pytest.approx(-sum(terms.values()), abs=1e-5)


def test_a_seed_fixes_the_run_and_another_changes_it(tmp_path):
    histories = [untimed(trained(tmp_path, max_steps=2, seed=seed).state.log_history) for seed in (1, 1, 2)]
    assert histories[0] == histories[1] != histories[2]


@pytest.mark.parametrize("rates", [{}, {"sft_learning_rate": 1e-4}])
def test_objective_or_gradient_that_is_not_finite_raises_before_the_step(tmp_path, monkeypatch, rates):
    def broken(model, *args, **kwargs):
        result = objective_pass(model, *args, **kwargs)
        if rates:
            run._two_rates().second_gradients[0][0, 0] = float("inf")
            return result
        return replace(result, terms={"policy": float("nan")})

    run = trainer(tmp_path, **rates)
    before = weights(run.model)
    monkeypatch.setattr(dllm_rl.training.trainer, "objective_pass", broken)
    with pytest.raises(FloatingPointError, match="gradient norm inf" if rates else "loss is nan"):
        run.train()
    assert not moved_from(before, run.model)


def test_training_raises_the_expected_reward(tmp_path):
    """Of roll-outs before and after, of all puzzles; with six seeds it rises by 0.4 or more."""
    run = trained(tmp_path, max_steps=20, num_generations=8, learning_rate=3e-3, rl_learning_rate=1e-3)
    problems, how = run.task.batch(puzzles(8)), Decoding("policy", policy=run.policy, on_error="end")
    reward = []
    for model in (warm_model(), run.model):
        record = rollout(model, problems, how, num_generations=16, generator=torch.Generator().manual_seed(0))
        reward.append(float(record.visited_rewards.sum(1).mean()))
    assert reward[1] > reward[0] + 0.1


def test_prompts_of_different_length_and_data_seed(tmp_path):
    mixed = [*puzzles(4), *puzzles(4, seed=2, template="short")]
    assert len({puzzle.prompt_length for puzzle in mixed}) == 2
    run = trained(tmp_path, data=mixed, max_steps=4, data_seed=3)
    assert all(shift < 1e-4 for shift in logged(run, "max_log_ratio_at_update_0"))


def test_a_model_is_saved_without_a_bar(tmp_path, capsys):
    trainer(tmp_path).save_model(str(tmp_path))
    assert "Writing model shards" not in capsys.readouterr().err


@pytest.mark.parametrize(("weights", "told"), [({}, 1), ({"policy_weight": 0.0}, 0)])
def test_groups_without_spread_are_told_where_there_is_a_policy_gradient(tmp_path, caplog, weights, told):
    run = trainer(tmp_path, **weights)
    for _ in range(12):
        run.metrics.add_ratio("groups_without_spread", 5, 5)
        run.log({})
    assert [record.getMessage()[:31] for record in caplog.records] == ["all trajectories of each proble"] * told
