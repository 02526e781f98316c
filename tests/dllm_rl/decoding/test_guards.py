"""Guarded decoding, against a slow loop over one problem at a time and the enumeration of all 4×4 grids."""

from dataclasses import fields, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from dllm_rl import Decode, Decoding, EntropyBound, Threshold, decode, evaluate, rollout
from dllm_rl.decoding.choosing import choose
from dllm_rl.models.adapter import as_policy_model
from dllm_rl.policy import PolicyConfig, score_states
from dllm_rl.sudoku import PuzzleBatch
from sudoku_env.generator import generate
from tests.dllm_rl.helpers.tiny_sums import SumTask, sum_model
from tests.dllm_rl.helpers.tiny_training import new_model, prefilled, sudoku_task, tokenizer, warm_model
from tests.helpers.refusals import refused
from tests.sudoku_env.helpers.every_grid import may_stand

WAYS = {
    "one": Decoding("margin"),
    "all": Decoding("margin", tokens_per_step=None),
    "threshold": Decoding("probability", tokens_per_step=5, limit=Threshold(-1.5)),
    "entropy bound": Decoding("entropy", tokens_per_step=None, limit=EntropyBound(2.0)),
}
FIRST = torch.zeros(1, dtype=torch.int64)


@cache
def boards() -> PuzzleBatch:
    """Eight of several answers."""
    drawn = generate(8, size=4, clues=(0, 5), answers="any", seed=1).boards
    return sudoku_task().batch(prefilled(drawn, answers="any"))


def stands(problems: PuzzleBatch, guard: Any, response: Tensor) -> bool:
    """Whether a response may stand: a cell holds no token but a digit."""
    if callable(guard):
        return bool(guard(problems, response[None], FIRST))
    (board,) = problems.read_states(response[None])
    return not (board < 0).any() and may_stand(board, guard)


def few(problems: PuzzleBatch, states: Tensor, of: Tensor) -> Tensor:
    """At most twelve positions are written, so that every decode comes to a dead end."""
    return (states != problems.mask_id).sum(1) <= 12


def slowly(model: nn.Module, problems: PuzzleBatch, how: Decoding, row: int) -> tuple[Tensor, list[int], bool]:
    """The answer to one problem, how many cells each pass filled, and whether it ended at a dead end."""
    one, state, passes = problems.select(torch.tensor([row])), problems.responses[row].clone(), []
    while bool((state == problems.mask_id).any()):
        scores = score_states(model, *one.prompts_of(FIRST), state[None], problems.mask_id, how.policy)
        _, _, positions, tokens = choose(how, scores, one.definite(state[None], FIRST), FIRST)
        passes.append(0)
        for rank, (position, token) in enumerate(zip(positions.tolist(), tokens.tolist(), strict=True)):
            logits = scores.logits[scores.row_of[0, position]]
            others = logits.argsort(descending=True, stable=True).tolist()[:-1] if rank == 0 else []  # without the mask
            for candidate in [token, *others]:
                after = state.clone()
                after[position] = candidate
                if stands(problems, how.guard, after):
                    state, passes[-1] = after, passes[-1] + 1
                    break
            if passes[-1] == 0:
                return state, passes, True
    return state, passes, False


@pytest.mark.parametrize("guard", ["completable", "rules", few])
@pytest.mark.parametrize("way", WAYS)
def test_against_a_slow_loop(guard, way) -> None:
    model, problems, how = warm_model().double(), boards(), replace(WAYS[way], guard=guard)
    found = decode(model, problems, how)
    for row in range(len(problems)):
        response, passes, dead = slowly(model, problems, how, row)
        assert torch.equal(found.responses[row], response) and bool(found.dead_end[row]) == dead
        filled = (found.step_of[row] == torch.arange(int(found.forward_passes[row]))[:, None]).sum(1)
        assert filled.tolist() == passes
    assert guard == "rules" or found.dead_end.tolist() == [guard is few] * len(problems)


@settings(max_examples=10)
@given(st.integers(0, 99), st.sampled_from(["margin", "policy", "random"]), st.integers(1, 20))
def test_by_what_can_be_completed_every_decode_ends_right_whatever_the_model(seed, strategy, count) -> None:
    """Also a model with random weights; each pass fills one at least, and every state on the way could be completed."""
    problems, everywhere = boards(), torch.arange(8)
    how = Decoding(strategy, tokens_per_step=count, policy=PolicyConfig(1.0, 1.0), guard="completable")
    found = decode(new_model(seed), problems, how, generator=torch.Generator().manual_seed(seed))
    assert not bool(found.dead_end.any()) and not bool((found.responses == problems.mask_id).any())
    assert bool(problems.completable(found.responses, everywhere).all())
    assert bool((found.checks.sum(1) >= (problems.responses == problems.mask_id).sum(1)).all())
    for row in range(len(problems)):
        states = found.states_of(row)
        assert bool(((states[1:] != states[:-1]).any(1)).all())
        for check in (problems.completable, problems.allowed):
            assert bool(check(states, torch.full((len(states),), row)).all())


def test_with_less_written_the_checks_hold_wherever_they_hold_with_more() -> None:
    problems, generator = boards(), torch.Generator().manual_seed(0)
    of = torch.arange(8).repeat_interleave(64)
    open_ = problems.responses[of] == problems.mask_id
    digits = torch.tensor(problems.layout.digit_ids)[torch.randint(4, open_.shape, generator=generator)]
    more = problems.responses[of].where(~open_ | (torch.rand(open_.shape, generator=generator) < 0.7), digits)
    less = more.where(~open_ | (torch.rand(open_.shape, generator=generator) < 0.7), problems.mask_id)
    for check in (problems.completable, problems.allowed):
        assert bool((check(less, of) | ~check(more, of)).all()) and bool(check(more, of).any())
    assert bool((problems.allowed(more, of) | ~problems.completable(more, of)).all())


@pytest.mark.parametrize(
    "how", [Decoding("margin", tokens_per_step=3), Decoding("policy", policy=PolicyConfig(1.0, 1.0))]
)
def test_a_guard_that_refuses_nothing_decodes_as_none_does(how) -> None:
    hows = how, replace(how, guard=lambda problems, states, of: torch.ones_like(of, dtype=torch.bool))
    plain, checked = (decode(warm_model(), boards(), each, generator=torch.Generator().manual_seed(0)) for each in hows)
    for item in fields(Decode):
        if item.name not in ("problems", "checks"):
            assert torch.equal(getattr(plain, item.name), getattr(checked, item.name)), item.name
    assert int(plain.checks.sum()) == 0 and int(checked.checks.sum()) == int((checked.step_of >= 0).sum())


class Stubborn(nn.Module):
    """Surest of 1, 2, 3 and 4 in cells that together leave the first cell nothing, then of the first cell."""

    def __init__(self, problems: PuzzleBatch) -> None:
        super().__init__()
        start, places, digits = problems.prompt_ids.shape[1], problems.layout.cell_positions, problems.layout.digit_ids
        self.logits = torch.zeros(start + problems.responses.shape[1], len(tokenizer()))
        for sure, (cell, digit) in enumerate([(0, 1), (5, 4), (8, 3), (2, 2), (1, 1)], start=2):
            self.logits[start + places[cell], digits[digit - 1]] = sure

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.logits.expand(len(input_ids), -1, -1)


@pytest.mark.parametrize(("count", "passes"), [(1, 5), (4, 2)])
def test_a_dead_end_of_the_rules_is_told(count, passes) -> None:
    """The four clash with nothing, and no digit is left for the first cell; the solver refuses one of them."""
    problems = sudoku_task().batch(prefilled(np.zeros((2, 16), dtype=np.uint8), answers="any"))
    model, how = as_policy_model(Stubborn(problems)), Decoding("margin", tokens_per_step=count, guard="rules")
    found = decode(model, problems, how)
    assert found.dead_end.all() and found.forward_passes.tolist() == [passes] * 2
    assert (problems.boards(found.responses) > 0).sum(1).tolist() == [4, 4]
    assert found.rejected[:, -1].tolist() == [count] * 2 and not found.rejected[:, :-1].any()
    assert not bool(problems.completable(found.responses, torch.arange(2)).any())
    record = rollout(model, problems, how)
    assert not record.solved.any() and record.live.sum(1).tolist() == [passes - 1] * 2
    by_solver = decode(model, problems, replace(how, guard="completable"))
    assert bool(by_solver.rejected.any()) == (count == 4)  # a position alone tries its other tokens
    assert not by_solver.dead_end.any() and bool(problems.completable(by_solver.responses, torch.arange(2)).all())


def test_a_function_of_states_guards_any_task() -> None:
    """Sums, by a check that allows a digit in the last place alone to be wrong; and by one that allows nothing."""
    pairs = [(1, 2), (3, 4), (8, 9)]

    def but_the_last(problems: Any, states: Tensor, of: Tensor) -> Tensor:
        right = (states == problems.mask_id) | (states == problems.answers[of])
        return right[:, :-1].all(1)

    found = decode(sum_model(), SumTask().batch(pairs), Decoding("margin", tokens_per_step=None, guard=but_the_last))
    assert torch.equal(found.responses[:, :-1], found.problems.answers[:, :-1]) and not found.dead_end.any()
    nothing = Decoding("margin", guard=lambda problems, states, of: torch.zeros_like(of, dtype=torch.bool))
    summary = evaluate(sum_model(), pairs, SumTask(), nothing).summary()
    assert (summary["dead_ends"], summary["forward_passes"], summary["rejected"], summary["solved"]) == (1, 1, 1, 0)


def test_a_roll_out_records_what_was_kept() -> None:
    problems, how = boards(), Decoding("margin", tokens_per_step=6, guard="completable")
    record, found = rollout(warm_model(), problems, how, num_generations=2), decode(warm_model(), problems, how)
    assert record.solved.all() and record.live.sum(1).tolist() == found.forward_passes.repeat_interleave(2).tolist()
    kept = (record.positions >= 0).sum(2)[::2]
    assert torch.equal(kept, (found.step_of[:, None] == torch.arange(kept.shape[1])[:, None]).sum(2))
    assert bool(record.old_logprobs.isfinite().all()) and bool((record.old_logprobs <= 0).all())


def test_what_does_not_go_with_a_guard_is_refused() -> None:
    refused("guard=3 is no guard", lambda: Decoding("margin", guard=3), TypeError)
    how = Decoding("policy", tokens_per_step=2, guard="rules")
    told = "log-probability of a decision, and its ratio, would be wrong"
    refused(told, lambda: rollout(warm_model(), boards(), how))
    sums = SumTask().batch([(1, 2)])
    for guard, words, error in (
        ("completable", "would read the answers off", ValueError),
        ("rules", "does not say which states its", ValueError),
        (lambda problems, states, of: of, r"torch\.int64 \(1,\); it must return torch\.bool \(1,\)", TypeError),
    ):
        with pytest.raises(error, match=words):
            decode(sum_model(), sums, Decoding("margin", guard=guard))
