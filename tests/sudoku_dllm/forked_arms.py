"""The main job as a script, with its arms in forks of its process, which has imported what each of them needs."""

import multiprocessing
from types import SimpleNamespace

from sudoku_dllm.main_job.command import main
from sudoku_dllm.trials import jobs

if __name__ == "__main__":
    jobs.multiprocessing = SimpleNamespace(
        get_all_start_methods=lambda: ["fork"],
        get_context=lambda _: multiprocessing.get_context("fork"),
        parent_process=multiprocessing.parent_process,
    )
    main()
