"""What is counted of a decode, by hand and by a slow loop."""

from itertools import combinations, pairwise

import numpy as np
import pytest
import torch

from dllm_rl import Decoding, decode
from sudoku_dllm.several.judging import GUARDS, Guarded, diversity, judge, judged
from sudoku_env.board import conflicts, geometry
from sudoku_env.generator import generate
from sudoku_env.logic import definite_cells
from sudoku_env.solver import completable
from tests.dllm_rl.helpers.tiny_training import prefilled, sudoku_task, warm_model


@pytest.fixture(scope="module")
def problems():
    boards = generate(12, size=4, clues=(2, 8), answers="any", seed=2).boards
    return sudoku_task(with_tail=True, tail="prefill").batch(prefilled(boards, answers="any"))


@pytest.mark.parametrize("cells", [1, 3])
def test_the_counts_are_those_of_a_slow_loop(problems, cells) -> None:
    record = decode(warm_model(), problems, Decoding("margin", tokens_per_step=cells))
    found = judged(record)
    places = list(problems.layout.cell_positions)
    peers = [set(row.tolist()) for row in geometry(4).peers]
    for row in range(len(problems)):
        states = problems.boards(record.states_of(row))
        live = joint = pairs = peer_pairs = filled = definite = 0
        peer_floor = definite_floor = 0.0
        for step, (before, after) in enumerate(pairwise(states)):
            if not completable(before[None])[0] or live > joint:
                continue  # what is no digit leaves a blank that cannot be filled any more
            chosen = [cell for cell, place in enumerate(places) if int(record.step_of[row, place]) == step]
            open_ = [cell for cell in range(16) if not before[cell]]
            forced = [cell for cell in open_ if definite_cells(before[None], "backbone")[0, cell]]
            together, all_pairs = list(combinations(chosen, 2)), list(combinations(open_, 2))
            live += 1
            joint += bool(completable(after[None])[0] and all(after[cell] for cell in chosen))
            pairs += len(together)
            peer_pairs += sum(other in peers[cell] for cell, other in together)
            share = sum(other in peers[cell] for cell, other in all_pairs) / max(1, len(all_pairs))
            peer_floor += len(together) * share
            filled += len(chosen)
            definite += len({*chosen} & {*forced})
            definite_floor += len(chosen) * len(forced) / len(open_)
        counted = [getattr(found, name)[row] for name in ("live", "joint", "pairs", "peer_pairs", "filled", "definite")]
        assert counted == [live, joint, pairs, peer_pairs, filled, definite]
        assert found.peer_floor[row] == pytest.approx(peer_floor, rel=1e-5)
        assert found.definite_floor[row] == pytest.approx(definite_floor, rel=1e-5)
        assert found.passes[row] == len(states) - 1
        assert found.valid[row] == (states[-1].all() and not conflicts(states[-1:]).any())
    if cells == 1:
        assert not found.pairs.any()


def test_with_a_guard_what_is_not_valid_ended_where_no_digit_went(problems) -> None:
    blanks = (problems.boards(problems.responses) == 0).sum(1)
    for guard in GUARDS:
        found = judge(warm_model(), problems, 4, guard)
        assert isinstance(found, Guarded) and (found.valid ^ found.dead_end).all()
        assert (found.checks >= (found.passes if guard == "rules" else blanks)).all()
        assert guard == "rules" or found.valid.all()


def test_diversity_counts_valid_grids() -> None:
    empty = sudoku_task(with_tail=True, tail="prefill").batch(prefilled(np.zeros((1, 16), np.uint8), answers="any"))
    found = diversity(warm_model(), empty, 1, 40, seed=0)
    assert 0 <= found["distinct"] <= round(40 * found["valid"]) <= 40
    assert found == diversity(warm_model(), empty, 1, 40, seed=0)
    assert diversity(warm_model(), empty, 4, 40, 0, "completable")["valid"] == 1
    assert torch.is_grad_enabled()
