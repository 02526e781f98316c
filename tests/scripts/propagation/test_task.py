"""The task of traces: against slow references, and through every part of the library that takes a task."""

from itertools import accumulate, permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dllm_rl.batch_check import check_batch
from dllm_rl.decoding import evaluate
from dllm_rl.models.llada import LladaForMaskedLM
from dllm_rl.sft import SftArguments, SftDataset, SftTrainer
from scripts.propagation.task import Automaton, Trace, TraceTask, draw_traces
from scripts.shared.tiny_llada import tiny_llada
from tests.helpers import SHORT
from tests.helpers.refusals import refused

STATES, INPUTS = 6, 4
AUTOMATON, TASK = Automaton.random(STATES, INPUTS, seed=0), TraceTask(STATES, INPUTS)


def small_model(seed: int) -> LladaForMaskedLM:
    return tiny_llada(STATES + INPUTS + 1, TASK.mask_id, seed)


def traces_of(count: int, seed: int = 0) -> list[Trace]:
    return draw_traces(AUTOMATON, count, length=5, given=(1, 3), seed=seed)


def follows(trace: Trace, written: list[int | None], place: int) -> bool:
    """Whether one move alone, from the state before or the state behind, leaves one state for this place."""
    if written[place] is not None:
        return False
    for before, behind in ((place - 1, place), (place, place + 1)):
        if not 0 <= before < behind < len(written):
            continue
        move = AUTOMATON.moves[trace.inputs[before]]
        pairs = [
            (first, int(move[first]))
            for first in range(STATES)
            if written[before] in (None, first) and written[behind] in (None, int(move[first]))
        ]
        if len({pair[place - before] for pair in pairs}) == 1:
            return True
    return False


@settings(max_examples=50)
@given(st.integers(0, 10**6))
def test_definite_is_what_one_move_leaves_a_single_state_for(seed) -> None:
    rng = np.random.default_rng(seed)
    (trace,) = traces_of(1, seed)
    written = [state if rng.random() < 0.4 else None for state in trace.states]
    batch = TASK.batch([trace])
    response = batch.answers.clone()
    response[0, ::2] = torch.tensor([TASK.mask_id if state is None else state for state in written])
    found = batch.definite(response, torch.tensor([0]))
    assert found[0, ::2].tolist() == [follows(trace, written, place) for place in range(len(written))]
    assert not found[0, 1::2].any()


def test_the_givens_leave_one_solution_and_definite_states_lead_to_it() -> None:
    for trace in traces_of(20):
        fitting = []
        for first in range(STATES):
            run = tuple(accumulate(trace.inputs, lambda state, move: int(AUTOMATON.moves[move, state]), initial=first))
            if all(a == b for a, b, told in zip(run, trace.states, trace.given, strict=True) if told):
                fitting.append(run)
        assert fitting == [trace.states]
        batch = TASK.batch([trace])
        state = batch.responses
        for _ in range(len(trace.states)):
            state = torch.where(batch.definite(state, torch.tensor([0])), batch.answers, state)
        assert torch.equal(state, batch.answers)


def test_no_renaming_of_states_and_inputs_and_no_reversal_maps_the_automaton_to_itself() -> None:
    moves = {tuple(row) for row in AUTOMATON.moves.tolist()}
    reversed_moves = {tuple(np.argsort(row).tolist()) for row in AUTOMATON.moves}
    same, back = [], []
    for names in permutations(range(STATES)):
        # State s is renamed to names[s]: the move s -> t becomes names[s] -> names[t].
        renamings = [{names[state]: names[following] for state, following in enumerate(row)} for row in moves]
        renamed = {tuple(new[state] for state in range(STATES)) for new in renamings}
        if renamed == moves:
            same.append(names)
        if renamed == reversed_moves:
            back.append(names)
    assert len(moves) == INPUTS and same == [tuple(range(STATES))] and back == []


def test_tokens_are_states_then_inputs_then_the_mask() -> None:
    batch = TASK.batch([Trace((2, 0, 5), (3, 1), (False, True, False))])
    assert batch.answers.tolist() == [[2, 9, 0, 7, 5]]
    assert batch.responses.tolist() == [[10, 9, 0, 7, 10]]
    assert batch.judged.tolist() == [[True, False, True, False, True]]
    assert batch.length == 5
    assert batch.select(torch.tensor([0])).answers.tolist() == batch.answers.tolist()


def test_no_trace_that_is_held_out_is_drawn_again_with_whatever_givens() -> None:
    held = draw_traces(AUTOMATON, 40, length=3, given=(1, 1), seed=0)
    drawn = draw_traces(AUTOMATON, 40, length=3, given=(2, 3), seed=1, exclude=held)
    assert len({trace.solution for trace in (*held, *drawn)}) == 80
    assert {sum(trace.given) for trace in held} == {1} and {sum(trace.given) for trace in drawn} == {2, 3}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Automaton(np.array([[0, 0, 1]])), "must permute"),
        (lambda: draw_traces(AUTOMATON, 1, length=4, given=(0, 2), seed=0), r"given=\(0, 2\)"),
        (lambda: draw_traces(AUTOMATON, 1, length=4, given=(2, 5), seed=0), "at most length=4"),
        (lambda: draw_traces(AUTOMATON, 25, length=2, given=(1, 1), seed=0), "make them longer"),
        (lambda: TASK.batch([]), r"lengths \[\]"),
        (lambda: TASK.batch([*traces_of(1), Trace((0,), (), (True,))]), r"lengths \[1, 5\]"),
    ],
)
def test_what_cannot_be_is_refused(call, message) -> None:
    refused(message, call)


def test_all_traces_of_a_length_can_be_drawn_and_no_more() -> None:
    assert len({trace.solution for trace in draw_traces(AUTOMATON, 20, length=2, given=(1, 1), seed=0)}) == 20


def test_the_batch_is_one_that_trainers_take_and_keep() -> None:
    check_batch(TASK.batch(traces_of(5)), task=TASK, model=small_model(0))


@pytest.mark.parametrize("ce_on", ["masked", "definite"])
def test_sft_learns_the_task(tmp_path, ce_on) -> None:
    options = {**SHORT, "seed": 42, "lr_scheduler_type": "linear"}
    args = SftArguments(str(tmp_path), max_steps=40, ce_on=ce_on, per_device_train_batch_size=4, **options)
    model = small_model(0)
    trainer = SftTrainer(model=model, args=args, train_dataset=SftDataset(TASK.batch(traces_of(4))))
    before = evaluate(model, traces_of(4), TASK)
    trainer.train()
    losses = [line["loss"] for line in trainer.state.log_history if "loss" in line]
    assert sum(losses[-10:]) < 0.8 * sum(losses[:10])
    after = evaluate(model, traces_of(4), TASK)
    assert after.right.sum() > before.right.sum()
    assert after.blanks.tolist() == [len(trace.given) - sum(trace.given) for trace in traces_of(4)]
