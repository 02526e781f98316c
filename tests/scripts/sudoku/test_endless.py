import numpy as np
import torch

from dllm_rl.sft import collate
from dllm_rl.sudoku import SudokuTask
from scripts.shared.small_tokenizer import build_small_tokenizer
from scripts.sudoku.endless import EndlessPuzzles
from sudoku_env.logic import rule_index
from sudoku_env.prompts.text import build_prompt
from sudoku_env.prompts.tokens import pre_fill
from sudoku_env.rating import rate_batch
from sudoku_env.solver import solve_batch
from sudoku_env.split import split_of

TOKENIZER = build_small_tokenizer(6, 1, "bare")


def endless(**changes: object) -> EndlessPuzzles:
    options = {"size": 6, "clues": (14, 20), "rule": None, "seed": 3, "originals": 5, "images": 3, **changes}
    task = SudokuTask(TOKENIZER.pad_token_id, TOKENIZER.eos_token_id)
    return EndlessPuzzles(lambda board: pre_fill(build_prompt(board), TOKENIZER, 43), task, **options)


def test_rows_depend_on_their_number_alone() -> None:
    one, other = endless(), endless()
    forward = collate(one.__getitems__(range(12, 20)))  # the end of a window and the beginning of the next
    backward = [other[index] for index in reversed(range(12, 20))][::-1]
    for name in ("input_ids", "maskable"):
        assert torch.equal(forward[name], torch.stack([row[name] for row in backward]))
    assert forward["input_ids"].shape == (8, 1 + 43) and len(one) > 10**12
    assert not torch.equal(forward["input_ids"], collate(endless(seed=4).__getitems__(range(12, 20)))["input_ids"])


def test_puzzles_are_of_the_train_split_unique_and_different() -> None:
    data = endless(originals=8, images=4)
    boards = np.concatenate([data.boards(window) for window in range(3)])
    solutions, counts = solve_batch(boards, limit=2)
    assert len(boards) == 96 and (counts == 1).all() and len(np.unique(boards, axis=0)) == 96
    assert {split_of(solution) for solution in solutions} == {"train"}
    assert ((boards > 0).sum(1) >= 14).all() and ((boards > 0).sum(1) <= 20).all()
    clues = (data.boards(0) > 0).sum(1).reshape(4, 8)  # an original and its images have as many
    assert (clues == clues[0]).all()


def test_of_puzzles_that_singles_solve_a_share_is_kept() -> None:
    def easy(**changes: object) -> float:
        data = endless(size=9, clues=(22, 30), originals=300, images=1, **changes)
        return float(np.mean(rate_batch(data.boards(0))[0] <= rule_index("singles")))

    all_ = easy()
    kept = all_ / 4 / (all_ / 4 + 1 - all_)  # what a quarter of them is of what is left
    assert easy(singles=0) == 0 and all_ > 0.4
    assert abs(easy(singles=0.25) - kept) < 4 * (kept * (1 - kept) / 300) ** 0.5 + 0.03
