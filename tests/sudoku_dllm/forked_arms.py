"""The main job as a script, with its arms in forks of its process, which has imported what each of them needs."""

import multiprocessing
import sys
from types import SimpleNamespace

from sudoku_dllm.__main__ import train
from sudoku_dllm.trials import jobs

if __name__ == "__main__":
    jobs.multiprocessing = SimpleNamespace(
        get_all_start_methods=lambda: ["fork"],
        get_context=lambda _: multiprocessing.get_context("fork"),
        parent_process=multiprocessing.parent_process,
    )
    if status := train(sys.argv[1:], sys.argv[0]):
        raise SystemExit(status)
