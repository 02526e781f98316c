"""Each option of the objective against loops, with a real model whose parameters moved since the roll-out."""

import copy
import itertools
import math
from dataclasses import replace

import pytest
import torch

from dllm_rl.decoding.noise import StateNoise
from dllm_rl.decoding.rollouts import Rollout
from dllm_rl.sudoku import SudokuTask, Tail
from dllm_rl.terms.objective import ObjectiveConfig
from dllm_rl.training.update import MiniBatch
from tests.dllm_rl.helpers.policy_reference import cross_entropy, gradients
from tests.dllm_rl.helpers.update_checks import DRAWN, assert_same, check_both_terms, near, run, uneven, uneven_rollout
from tests.dllm_rl.helpers.weights import moved

ALL = ObjectiveConfig(advantage_baseline="leave_one_out", ce_weight=0.6, reduction="mean")
PLAIN = ObjectiveConfig(advantage_scale="none")


def play(model, puzzles, tokenizer, *, tail: Tail = "free", known: bool = True, num_generations: int = 4) -> Rollout:
    task = SudokuTask(tokenizer.pad_token_id, tokenizer.eos_token_id if known else None, tail)
    return uneven_rollout(model, task.batch(puzzles[:3]), seed=11, num_generations=num_generations)


@pytest.fixture
def record(model, puzzles, tokenizer) -> Rollout:
    return play(model, puzzles, tokenizer)


def test_advantages_that_are_not_scaled(model, puzzles, record) -> None:
    moved(model, 0.02)
    check_both_terms(model, puzzles, record, PLAIN)


@pytest.mark.parametrize("lam", [0.5, 0.0])
def test_the_logarithm_of_f(model, puzzles, record, lam) -> None:
    """Without lambda f is 0 in the states that have the tail alone left, and they count nothing."""
    moved(model, 0.02)
    config = replace(PLAIN, f_form="log", lam=lam)
    check_both_terms(model, puzzles, record, config)
    result, gradient = run(model, record, config)
    assert math.isfinite(result.terms["f"]) and all(bool(part.isfinite().all()) for part in gradient)


@pytest.mark.parametrize("on_error", ["end", "correct"])
def test_decisions_on_several_positions(model, puzzles, batch, on_error) -> None:
    """The ratio is that of the whole decision; at an update after the first it is not 1, and some are cut."""
    config = ObjectiveConfig(advantage_scale="none", reduction="mean")
    after = copy.deepcopy(model)
    moved(after, 0.02)

    def cut(record: Rollout) -> bool:
        return uneven(record) and run(after, record, config)[0].shares["clip_frac"][0] > 0

    how = replace(DRAWN, tokens_per_step=3, on_error=on_error)
    record = uneven_rollout(model, batch, how, seed=4, has=cut, num_generations=4)
    if on_error == "end":
        check_both_terms(after, puzzles, record, config)
    result, _ = run(after, record, config)
    assert result.logprobs.shape == record.old_logprobs.shape


def test_a_scored_tail(model, puzzles, tokenizer) -> None:
    record = play(model, puzzles, tokenizer, tail="scored")
    moved(model, 0.02)
    check_both_terms(model, puzzles, record, PLAIN)


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("ce_on", ["masked", "definite"])
@pytest.mark.parametrize("known", [False, True])
def test_the_cross_entropy(model, puzzles, tokenizer, reduction, ce_on, known) -> None:
    record = play(model, puzzles, tokenizer, known=known, num_generations=2)
    moved(model, 0.02)
    config = ObjectiveConfig(policy_weight=0.0, f_weight=0.0, ce_weight=0.7, ce_on=ce_on, reduction=reduction)
    expected = cross_entropy(model, puzzles, record, config)
    result, got = run(model, record, config)
    assert_same(got, gradients(expected, model))
    assert set(result.terms) == {"ce"} and result.objective == near(float(expected.detach())) != 0


def test_a_prefilled_tail_has_no_reward_outside_the_map(model, puzzles, tokenizer) -> None:
    record = play(model, puzzles, tokenizer, tail="prefill")
    filled = record.problems.open_tail(record.problems.responses, torch.arange(3))
    assert not bool(filled.any()) and bool(record.problems.judged[0][record.positions[record.live]].all())
    assert set(record.rewards.flatten().tolist()) <= {0.0, 1.0}
    _, without_lam = run(model, record, ObjectiveConfig(lam=0.0))
    _, with_lam = run(model, record, ObjectiveConfig(lam=0.5))
    assert all(torch.equal(left, right) for left, right in zip(with_lam, without_lam, strict=True))


# All options at once: passes of any size, states drawn.


def test_with_every_option_the_gradient_does_not_depend_on_the_size_of_a_pass(model, puzzles, tokenizer) -> None:
    record = play(model, puzzles, tokenizer, tail="scored")
    moved(model, 0.02)
    whole, expected = run(model, record, ALL)
    for sequences, max_masked in ((1, None), (7, None), (1000, 12), (7, 30)):
        parts, got = run(model, record, ALL, max_tokens=sequences * record.problems.length, max_masked=max_masked)
        assert_same(got, expected)
        assert set(whole.terms) == {"policy", "f", "ce"} and all(whole.terms.values())
        assert all(parts.terms[name] == near(value) for name, value in whole.terms.items())
        assert parts.objective == near(whole.objective) == near(sum(whole.terms.values()))


def test_drawn_states_enumerated_give_the_full_gradient(model, puzzles, tokenizer, monkeypatch) -> None:
    """The mean over all 2^S draws, weighted by their probability, on a fresh roll-out."""
    batch = SudokuTask(tokenizer.pad_token_id, tokenizer.eos_token_id).batch(puzzles[:1])
    cells = (batch.responses == batch.layout.mask_id) & batch.judged[0]
    filled = torch.where(cells & (cells.cumsum(1) > 2), batch.answers, batch.responses)

    def lasting(record: Rollout) -> bool:
        """Of the at most eight visits of two trajectories some are to the same state, and there are not too few."""
        return 4 <= len(record.responses) < int(record.live.sum())

    record = uneven_rollout(model, replace(batch, responses=filled), seed=2, has=lasting, num_generations=2)
    count, fraction = len(record.responses), 0.3
    whole, expected = run(model, record, ALL)
    mean, value = [torch.zeros_like(part) for part in expected], 0.0
    for draw in itertools.product((True, False), repeat=count):
        kept = torch.tensor(draw)
        monkeypatch.setattr(StateNoise, "of_states", lambda *args, kept=kept: torch.where(kept, 0.1, 0.9))
        result, got = run(model, record, replace(ALL, state_fraction=fraction))
        monkeypatch.undo()
        assert torch.equal(result.evaluated, record.live & kept[record.state_of.clamp_min(0)])
        probability = fraction ** sum(draw) * (1 - fraction) ** (count - sum(draw))
        mean = [total + probability * part for total, part in zip(mean, got, strict=True)]
        value += probability * result.objective
    assert_same(mean, expected)
    assert value == near(whole.objective)


def test_states_are_drawn_with_the_given_probability_and_by_the_key(model, record) -> None:
    config = ObjectiveConfig(state_fraction=0.5)
    visits = torch.zeros(len(record.responses))
    for seed in range(60):
        result, _ = run(model, record, config, noise=StateNoise((seed,)))
        visits[record.state_of[result.evaluated].unique()] += 1
    assert float(visits.mean()) / 60 == pytest.approx(0.5, abs=4 * 0.5 / (60 * len(visits)) ** 0.5)
    again, _ = run(model, record, config, noise=StateNoise((seed,)))
    assert torch.equal(again.evaluated, result.evaluated)
    assert result.shares["masked_frac"][1] == int(result.evaluated.sum())
    assert bool((result.logprobs[~result.evaluated] == 0).all())


@pytest.mark.parametrize("count", [1, 2, 5, 400])
def test_the_whole_gradient_is_the_mean_over_mini_batches(model, record, count) -> None:
    """Each state is dealt to one of them; with more of them than states some are empty."""
    moved(model, 0.02)
    config = replace(ALL, policy_weight=0.0, f_weight=0.0)
    whole, expected = run(model, record, config)
    batches = [MiniBatch(number, count, StateNoise((3,))) for number in range(count)]
    parts = [run(model, record, config, mini_batch=each) for each in batches]
    assert_same([sum(column) / count for column in zip(*(each for _, each in parts), strict=True)], expected)
    assert sum(result.objective for result, _ in parts) / count == near(whole.objective)
    seen = torch.stack([result.evaluated for result, _ in parts]).sum(0)
    assert torch.equal(seen, record.live.long())


def test_mini_batches_are_alike_problem_by_problem_and_follow_the_key() -> None:
    problem_of = torch.arange(4).repeat(8)  # eight states of each, as the steps of a roll-out bring them
    for seed in range(3):
        parts = torch.stack([MiniBatch(number, 3, StateNoise((seed,))).has(problem_of) for number in range(3)])
        assert bool((parts.sum(0) == 1).all())
        sizes = torch.stack([(parts & (problem_of == problem)).sum(1) for problem in range(4)])
        assert all(sorted(row) == [2, 3, 3] for row in sizes.tolist())
    assert not torch.equal(*(MiniBatch(0, 3, StateNoise((seed,))).has(problem_of) for seed in (0, 1)))


def test_each_state_lands_in_each_mini_batch_as_often() -> None:
    problem_of = torch.tensor([0, 1, 0, 0, 1])
    found = torch.stack([MiniBatch(0, 2, StateNoise((seed,))).has(problem_of) for seed in range(1000)]).float()
    assert float((found.mean(0) - 0.5).abs().max()) < 5 * 0.5 / 1000**0.5


def test_noise_of_a_state_is_a_matter_of_its_problem_and_place_alone() -> None:
    """Problems 3 and 4 of the global batch by themselves, and among others."""
    noise, problem_of = StateNoise((7, 2)), torch.tensor([4, 0, 3, 4, 3, 3, 1])
    chosen = problem_of >= 3
    alone = replace(noise, first=3).of_states(problem_of[chosen] - 3, 0, (2, 5))
    assert torch.equal(noise.of_states(problem_of, 0, (2, 5))[chosen], alone)
    draws = [noise.of_states(problem_of, use) for use in (0, 1)] + [StateNoise((7, 3)).of_states(problem_of, 0)]
    assert len(torch.cat(draws).unique()) == 3 * len(problem_of)


# Parts of a roll-out.


def test_the_whole_gradient_is_the_mean_over_equal_parts(model, record) -> None:
    moved(model, 0.02)
    _, expected = run(model, record, ALL)
    columns = ("state_of", "positions", "tokens", "old_logprobs", "rewards", "wrong", "decisions")
    parts = []
    for own in torch.arange(len(record.state_of)).view(3, -1):  # the trajectories of a problem
        part = replace(record, **{name: getattr(record, name)[own] for name in columns})
        parts.append(run(model, part, ALL)[1])
    assert_same([sum(column) / 3 for column in zip(*parts, strict=True)], expected)
