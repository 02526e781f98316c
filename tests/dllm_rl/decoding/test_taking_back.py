"""Decodes that mask tokens again or replace them: against loops from the definitions, and against diffusers."""

import math
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from dllm_rl.decoding import Decoding, EntropyBound, Evaluation, TakeBack, Threshold, decode, evaluate
from dllm_rl.models.llada import LladaForMaskedLM
from dllm_rl.policy import NEG_INF
from dllm_rl.sudoku import PuzzleBatch, SudokuTask
from sudoku_env.prompts.tokens import PreFilled
from tests.dllm_rl.helpers.weights import beside
from tests.helpers.drawn import first_with

SETTINGS = [
    TakeBack(24, remask_threshold=0.4),
    TakeBack(24, remask_count=1),
    TakeBack(12, remask_threshold=0.9, remask_count=2),
    TakeBack(24, edit_threshold=0.6),
    TakeBack(40, remask_threshold=0.5, edit_threshold=0.3),
    TakeBack(9, remask_threshold=1.0),
    TakeBack(1, remask_threshold=1.0, edit_threshold=0.1),
]


def probabilities(model: LladaForMaskedLM, prompt: list[int], response: list[int], mask_id: int) -> Tensor:
    """`(R, V)`, the model's distribution at every position of a response, without the mask token."""
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([prompt + response])).logits[0, len(prompt) :]
    logits[:, mask_id] = NEG_INF
    return logits.softmax(-1)


def taking_back(how: TakeBack | None, count: int | None = 1, **options: Any) -> Decoding:
    return Decoding("probability", tokens_per_step=count, take_back=how, **options)


def alone(model, puzzle: PreFilled, how: TakeBack, count: int) -> tuple[list[int], list[int], int, int]:
    """Decode one puzzle from the definitions: its response, the step that wrote each position, passes, taken back."""
    layout, length = puzzle.layout, puzzle.layout.prompt_length
    prompt, response = list(puzzle.token_ids[:length]), list(puzzle.token_ids[length:])
    mask, free = layout.mask_id, [ell for ell, token in enumerate(puzzle.token_ids[length:]) if token == layout.mask_id]
    step_of, passes, taken, finished = [-1] * len(response), 0, 0, []
    while True:
        p = probabilities(model, prompt, response, mask)
        masked = [ell for ell in free if response[ell] == mask]
        stood = [ell for ell in free if response[ell] != mask]
        after = list(response)
        for ell in sorted(masked, key=lambda ell: float(p[ell].max()), reverse=True)[:count]:
            after[ell], step_of[ell] = int(p[ell].argmax()), passes
        passes += 1
        doubted = []
        for ell in stood:
            best = int(p[ell].argmax())
            if how.edit_threshold is not None and best != response[ell] and float(p[ell, best]) > how.edit_threshold:
                after[ell], step_of[ell] = best, passes - 1
                taken += 1
            else:
                doubted.append(ell)
        if how.remask_threshold is not None:
            doubted = [ell for ell in doubted if float(p[ell, response[ell]]) < how.remask_threshold]
        elif how.remask_count is None:
            doubted = []
        doubted.sort(key=lambda ell: float(p[ell, response[ell]]))
        room = how.max_passes - passes - sum(token == mask for token in after)
        for ell in doubted[: max(0, room)][: how.remask_count]:
            after[ell], step_of[ell] = mask, -1
            taken += 1
        response = after
        if mask not in response:
            if passes >= how.max_passes or response in finished[-1:]:
                return response, step_of, passes, taken
            finished.append(response)


@pytest.fixture(scope="module")
def hesitant(fitted, puzzles, tokenizer) -> LladaForMaskedLM:
    """A model of whose decodes each setting takes something back, unless the passes are used up."""
    batch = PuzzleBatch.collate(puzzles, pad_id=tokenizer.pad_token_id)

    def takes_back(model: LladaForMaskedLM) -> bool:
        ways = ((how, count) for how in SETTINGS for count in (1, 3) if (how.max_passes, count) != (9, 1))
        return all(bool(decode(model, batch, taking_back(*way)).taken_back.any()) for way in ways)

    return first_with(takes_back, partial(beside, fitted), seed=0)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("how", SETTINGS)
def test_against_loops(hesitant, puzzles, tokenizer, how, count) -> None:
    """All puzzles together, and few in a pass, give what each gives alone; given tokens stay, and nothing is open."""
    model, batch = hesitant, PuzzleBatch.collate(puzzles, pad_id=tokenizer.pad_token_id)
    record = decode(model, batch, taking_back(how, count))
    few = decode(model, batch, taking_back(how, count), max_tokens=2 * batch.length)
    plain = decode(model, batch, taking_back(None, count))
    for row, puzzle in enumerate(puzzles):
        response, step_of, passes, taken = alone(model, puzzle, how, count)
        for found in (record, few):
            assert found.responses[row].tolist() == response
            assert found.step_of[row].tolist() == step_of
            assert (int(found.forward_passes[row]), int(found.taken_back[row])) == (passes, taken)
    given = batch.responses != batch.mask_id
    assert torch.equal(record.responses[given], batch.responses[given])
    assert bool((record.responses != batch.mask_id).all()) and bool((record.step_of[~given] >= 0).all())
    assert bool((record.forward_passes <= plain.forward_passes.clamp_min(how.max_passes)).all())


def test_what_is_never_in_doubt_is_decoded_as_without_taking_back(model, batch) -> None:
    """One more pass sees that nothing changes, unless the passes are used up."""
    for how in (
        Decoding("margin", tokens_per_step=2),
        Decoding("semi_autoregressive", tokens_per_step=None, limit=Threshold(math.log(0.7))),
        Decoding("entropy", tokens_per_step=None, limit=EntropyBound(0.5)),
        Decoding("definite_first"),
    ):
        plain = decode(model, batch, how)
        for limit in (100, 3):
            record = decode(model, batch, replace(how, take_back=TakeBack(limit, remask_threshold=1e-30)))
            for field in ("responses", "step_of", "definite"):
                assert torch.equal(getattr(record, field), getattr(plain, field))
            steps = plain.greedy.shape[1]
            assert torch.equal(record.greedy[:, :steps], plain.greedy) and bool((record.greedy[:, steps:] == -1).all())
            assert torch.equal(record.greedy_definite[:, :steps], plain.greedy_definite)
            more = (plain.forward_passes < limit).long()
            assert torch.equal(record.forward_passes, plain.forward_passes + more)
            assert not record.taken_back.any()
            assert record.states_of(0).shape[0] == int((plain.forward_passes + more)[0]) + 1


@pytest.mark.parametrize("threshold", [0.3, 0.7])
@pytest.mark.parametrize("editing", [0.2, 0.5, 0.9])
def test_editing_is_that_of_diffusers(model, puzzles, tokenizer, threshold, editing) -> None:
    """`BlockRefinementScheduler` with one block and a quota of one token a step, pass by pass on the same model."""
    diffusers = pytest.importorskip("diffusers")
    scheduler = diffusers.BlockRefinementScheduler(threshold=threshold, editing_threshold=editing)

    def compared(seed: int) -> int:
        return compare(scheduler, beside(model, seed), puzzles, tokenizer)

    first_with(lambda edited: edited > 0, compared, seed=0)


def compare(scheduler, model, puzzles, tokenizer) -> int:
    """Hold decodes to those of a scheduler; how many tokens it edited."""
    threshold, editing, edited = scheduler.config.threshold, scheduler.config.editing_threshold, 0
    for puzzle in puzzles:
        batch = PuzzleBatch.collate([puzzle], pad_id=tokenizer.pad_token_id)
        given = batch.responses[0] != batch.mask_id
        sample, limit = batch.responses.clone(), 30
        scheduler.set_timesteps(sample.shape[1], block_length=sample.shape[1])  # a quota of one token a step
        states = [sample]
        for number in range(limit):
            with torch.no_grad():
                tokens = torch.cat([batch.prompt_ids, sample], dim=1)
                logits = model(input_ids=tokens).logits[:, batch.prompt_ids.shape[1] :].clone()
            logits[..., batch.mask_id] = NEG_INF
            step = min(number, sample.shape[1] - 1)
            done = scheduler.step(logits, step, sample, mask_token_id=batch.mask_id, prompt_mask=given)
            sample = done.prev_sample
            edited += int(done.editing_transfer_index.sum())
            states.append(sample)
            if bool((sample != batch.mask_id).all()) and torch.equal(sample, states[-2]):
                break
        for passes in (1, len(states) // 2, limit):
            how = TakeBack(passes, edit_threshold=editing)
            record = decode(model, batch, taking_back(how, None, limit=Threshold(math.log(threshold))))
            number = int(record.forward_passes[0])
            assert record.responses.tolist() == states[number].tolist()
            if passes == limit:
                assert number == len(states) - 1
    return edited


def test_evaluations_count_every_pass(model, puzzles, tokenizer) -> None:
    how, task = TakeBack(24, remask_threshold=0.4), SudokuTask(pad_id=tokenizer.pad_token_id)
    record = decode(model, task.batch(puzzles), taking_back(how))
    found = evaluate(model, puzzles, task, taking_back(how), batch_size=2)
    expected = Evaluation.of(record)
    assert found.forward_passes.tolist() == expected.forward_passes.tolist() == record.forward_passes.tolist()
    assert found.solved.tolist() == expected.solved.tolist() and found.summary() == expected.summary()
