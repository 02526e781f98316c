"""Evaluations of four problems, written by hand."""

import numpy as np

from dllm_rl.decoding import Evaluation


def evaluation(solved: list[int], steps: list[int], definite: list[int], judged: list[int]) -> Evaluation:
    """An evaluation with these columns; the others follow from the number of problems."""
    size = len(solved)
    each = {"right": 7.5, "blanks": 9, "cells_before_error": 7, "forward_passes": 8}
    each |= dict.fromkeys(("checks", "rejected", "dead_end"), 0)
    columns = {name: np.full(size, value) for name, value in each.items()}
    return Evaluation(
        solved=np.array(solved, dtype=bool),
        steps_before_error=np.array(steps),
        greedy_definite_count=np.array(definite),
        greedy_judged=np.array(judged),
        chosen_definite_count=np.array(definite) + 5 * (np.arange(size) == 0),
        chosen_judged=np.array(judged) + 10 * (np.arange(size) == 0),
        **columns,
    )


FIRST = evaluation([1, 1, 1, 0], [9, 9, 9, 3], [4, 5, 6, 1], [5, 5, 8, 2])
SECOND = evaluation([1, 0, 0, 0], [9, 1, 2, 4], [3, 0, 1, 1], [5, 1, 2, 2])
