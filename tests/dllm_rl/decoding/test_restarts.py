"""Answers that contradict themselves are partly masked again: against loops from the definition."""

import numpy as np
import pytest
import torch

from dllm_rl.decoding import Decode, Decoding, TakeBack, decode
from dllm_rl.decoding.noise import inverse_cdf
from dllm_rl.sudoku import PuzzleBatch
from sudoku_env.board import find_conflict, geometry


def clashes(problems, response):
    """The open positions whose digit stands twice in a unit, or that hold none, by pairs of cells."""
    layout, peers = problems.layout, geometry(4).peers
    board = problems.boards(response[None])[0]
    found = set()
    for cell in range(16):
        if board[cell] == 0 or any(board[cell] == board[peer] for peer in peers[cell]):
            found.add(int(layout.cell_positions[cell]))
    return {ell for ell in found if problems.responses[0, ell] == problems.mask_id}


def alone(model, problems, how, count, generator):
    """One decode from the definition: the response, passes, and how many tokens were masked again."""
    response, length, mask = problems.responses[0].clone(), problems.responses.shape[1], problems.mask_id
    free = (response == mask).nonzero()[:, 0].tolist()
    passes, taken, restarted = 0, 0, False
    while True:
        u = torch.rand((1, length + 1, 2), dtype=torch.float64, generator=generator)[0]
        with torch.no_grad():
            logits = model(input_ids=torch.cat([problems.prompt_ids[0], response])[None]).logits[0, -length:]
        logits[:, mask] = float("-inf")
        masked = [ell for ell in free if response[ell] == mask]
        top = {ell: logits[ell].log_softmax(-1).topk(2).values for ell in masked}
        after = response.clone()
        for ell in sorted(masked, key=lambda ell: float(top[ell][0] - top[ell][1]), reverse=True)[:count]:
            drawn = inverse_cdf(logits[ell][None], u[ell, 0][None])[0]
            after[ell] = drawn if restarted else logits[ell].argmax()
        passes += 1
        response = after
        if (response == mask).any():
            continue
        wrong = clashes(problems, response)
        room = how.max_passes - passes
        if not wrong or room == 0:
            return response, passes, taken
        level = how.restart_share + (1 - how.restart_share) * float(u[length, 1])
        others = sorted((ell for ell in free if ell not in wrong and float(u[ell, 1]) < level), key=lambda e: u[e, 1])
        again = [*sorted(wrong), *others][:room]
        response[again], restarted, taken = mask, True, taken + len(again)


def restarting(passes, share=0.3, count=3):
    return Decoding("margin", tokens_per_step=count, take_back=TakeBack(passes, restart_share=share))


@pytest.mark.parametrize(("share", "count"), [(0.0, 1), (0.4, 3), (1.0, 3)])
def test_against_loops(model, puzzles, tokenizer, share, count) -> None:
    how, taken = restarting(60, share, count), 0
    for number, puzzle in enumerate(puzzles):
        problems = PuzzleBatch.collate([puzzle], pad_id=tokenizer.pad_token_id)
        record = decode(model, problems, how, generator=torch.Generator().manual_seed(number))
        expected = alone(model, problems, how.take_back, count, torch.Generator().manual_seed(number))
        assert record.responses[0].tolist() == expected[0].tolist()
        assert (int(record.forward_passes), int(record.taken_back)) == expected[1:]
        taken += int(record.taken_back)
    assert taken > 0  # the model decodes some of the puzzles wrongly, one token a pass and three


def test_what_fits_stays_as_it_is_and_what_does_not_is_filled_to_the_end(model, puzzles, tokenizer) -> None:
    problems = PuzzleBatch.collate(puzzles, pad_id=tokenizer.pad_token_id)
    plain = decode(model, problems, Decoding("margin", tokens_per_step=3))
    everyone = torch.arange(len(puzzles))
    fits = ~problems.contradictions(plain.responses, everyone).any(1)
    assert 0 < int(fits.sum()) < len(puzzles)
    # A puzzle has one solution, so what fits is right.
    assert torch.equal(fits, ((plain.responses == problems.answers) | ~problems.judged).all(1))
    for limit in (12, 40):
        record = decode(model, problems, restarting(limit), generator=torch.Generator().manual_seed(0))
        for name in ("responses", "forward_passes", "step_of"):
            assert torch.equal(getattr(record, name)[fits], getattr(plain, name)[fits])
        assert (record.responses != problems.mask_id).all() and int(record.forward_passes.max()) <= limit
        left = problems.contradictions(record.responses, everyone).any(1)
        assert (record.forward_passes[left] == limit).all() and (record.taken_back[~fits] > 0).all()
    options = {"generator": torch.Generator().manual_seed(0), "max_tokens": 2 * problems.length}
    few = decode(model, problems, restarting(40), **options)
    assert torch.equal(few.responses, record.responses)  # however they are cut into passes


def test_a_puzzle_that_occurs_twice_shares_its_passes_and_not_its_draws(model, puzzles, tokenizer) -> None:
    """Each of the two is decoded as beside another puzzle, where it shares nothing."""

    def decoded(*chosen: int) -> Decode:
        problems = PuzzleBatch.collate([puzzles[number] for number in chosen], pad_id=tokenizer.pad_token_id)
        return decode(model, problems, restarting(40), generator=torch.Generator().manual_seed(0))

    one = int((decoded(*range(len(puzzles))).taken_back > 0).nonzero()[0])
    other = (one + 2) % len(puzzles)  # with a prompt of the same template
    twice = decoded(one, one)
    for row, beside in enumerate((decoded(one, other), decoded(other, one))):
        for name in ("responses", "step_of", "forward_passes", "taken_back"):
            assert torch.equal(getattr(twice, name)[row], getattr(beside, name)[row])


def test_contradictions_are_those_of_the_board(batch) -> None:
    generator, digits = torch.Generator().manual_seed(0), torch.tensor(batch.layout.digit_ids)
    for _ in range(20):
        of = torch.randint(len(batch), (6,), generator=generator)
        responses = batch.answers[of].clone()
        places = torch.tensor(batch.layout.cell_positions)[torch.randint(16, (6, 2), generator=generator)]
        responses[torch.arange(6)[:, None], places] = digits[torch.randint(4, (6, 2), generator=generator)]
        found = batch.contradictions(responses, of)
        for row in range(6):
            one = batch.select(of[row : row + 1])
            assert set(found[row].nonzero()[:, 0].tolist()) == clashes(one, responses[row])
            board = batch.boards(responses[row : row + 1])[0]
            if find_conflict(board) is None:
                assert not found[row].any() and np.all(board > 0)
