"""Roll-outs made again from answers and step maps are those that were recorded."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from dllm_rl.decoding import Decoding, decode, replay, steps_from_maps
from dllm_rl.decoding.rollouts import Rollout
from dllm_rl.terms.objective import ObjectiveConfig
from tests.dllm_rl.helpers.update_checks import DRAWN, POLICY, assert_same, run, uneven_rollout

G = 4


def answers_of(record: Rollout) -> tuple[Tensor, Tensor]:
    """What an engine would tell of a roll-out: answers `(T, R)`, and the step of each position, -1 for none."""
    responses = record.problems.responses.repeat_interleave(record.num_generations, 0)
    step_of = torch.full_like(responses, -1)
    rows, steps, ranks = (record.positions >= 0).nonzero(as_tuple=True)
    places = record.positions[rows, steps, ranks]
    responses[rows, places] = record.tokens[rows, steps, ranks]
    step_of[rows, places] = steps
    return responses, step_of


@pytest.mark.parametrize("count", [1, 3])
def test_a_replayed_roll_out_is_the_one_that_was_recorded(model, batch, count) -> None:
    record = uneven_rollout(model, batch, replace(DRAWN, tokens_per_step=count), seed=0, num_generations=G)
    responses, step_of = answers_of(record)
    found = replay(model, batch, responses, step_of, POLICY, num_generations=G)

    longest = found.live.shape[1]
    assert torch.equal(found.live, record.live[:, :longest]) and not record.live[:, longest:].any()
    live = found.live
    states, before = (one.responses[one.state_of[:, :longest].clamp_min(0)][live] for one in (found, record))
    assert torch.equal(states, before)
    assert torch.equal(found.positions.sort(-1).values, record.positions[:, :longest].sort(-1).values)
    for name in ("rewards", "wrong"):
        assert torch.equal(getattr(found, name), getattr(record, name)[:, :longest])
    for name in ("solved", "errors", "steps_before_error"):
        assert torch.equal(getattr(found, name), getattr(record, name))
    torch.testing.assert_close(found.visited_rewards, record.visited_rewards[:, :longest])
    done = record.live.sum(1) == record.decisions
    assert done.any() and torch.equal(found.decisions[done], record.decisions[done])
    assert (found.decisions > found.live.sum(1))[~done].all()
    if count == 1:
        torch.testing.assert_close(found.old_logprobs, record.old_logprobs[:, :longest])


@pytest.mark.parametrize("count", [1, 3])
def test_its_ratio_is_1_and_of_one_token_a_step_its_gradient_that_of_the_roll_out(model, batch, count) -> None:
    record = uneven_rollout(model, batch, replace(DRAWN, tokens_per_step=count), seed=0, num_generations=G)
    found = replay(model, batch, *answers_of(record), POLICY, num_generations=G)
    config = ObjectiveConfig(policy_weight=1.0, f_weight=1.0)
    result, gradients = run(model, found, config)
    evaluated = result.evaluated
    assert evaluated.any()
    torch.testing.assert_close(result.logprobs[evaluated], found.old_logprobs[evaluated])
    if count == 1:
        assert_same(gradients, run(model, record, config)[1])


def test_what_an_engine_wrote_after_an_error_is_left_out_or_kept(model, batch) -> None:
    how = Decoding("policy", tokens_per_step=2, policy=POLICY, on_error="continue")
    record = decode(model, batch, how, generator=torch.Generator().manual_seed(0))
    assert (record.error_step < record.forward_passes).any()
    taken = (model, batch, record.responses, record.step_of, POLICY)
    whole, ended = replay(*taken, on_error="continue"), replay(*taken)
    assert torch.equal(whole.live.sum(1), record.forward_passes)
    assert torch.equal(ended.live.sum(1), torch.minimum(record.error_step + 1, record.forward_passes))
    assert torch.equal(whole.decisions, record.forward_passes) and torch.equal(ended.decisions, whole.decisions)
    # Steps that wrote nothing make no difference.
    spread = torch.where(record.step_of >= 0, 3 * record.step_of + 1, -1)
    again = replay(model, batch, record.responses, spread, POLICY)
    assert torch.equal(again.state_of, ended.state_of) and torch.equal(again.old_logprobs, ended.old_logprobs)


def test_maps_that_count_in_each_block() -> None:
    maps = [[1, 1, 2, 1, 2, 2, 1], [3, 1, 2, 2, 1, 1, 1]]
    assert steps_from_maps(maps, 3).tolist() == [[0, 0, 1, 2, 3, 3, 4], [2, 0, 1, 4, 3, 3, 5]]
    assert steps_from_maps(maps, 7).tolist() == [[step - 1 for step in each] for each in maps]


def test_what_does_not_fit_is_refused(model, batch) -> None:
    record = decode(model, batch, Decoding("margin", tokens_per_step=4))
    open_ = batch.responses[0] == batch.mask_id
    blank, given = int(open_.nonzero()[0]), int((~open_).nonzero()[0])

    def changed(tensor: Tensor, place: int, value: int) -> Tensor:
        other = tensor.clone()
        other[0, place] = value
        return other

    responses, steps = record.responses, record.step_of
    for pair, words in (
        ((responses[:2], steps), "must both be"),
        ((responses, changed(steps, given, 0)), "was not masked"),
        ((changed(responses, blank, batch.mask_id), steps), "holds the mask"),
        ((changed(responses, given, 5 if int(responses[0, given]) != 5 else 6), steps), "is not kept"),
        ((responses, changed(steps, blank, -1)), "no step wrote"),
        ((torch.where(steps >= 0, batch.mask_id, responses), torch.full_like(steps, -1)), "no written position"),
    ):
        with pytest.raises(ValueError, match=words):
            replay(model, batch, *pair, POLICY)
