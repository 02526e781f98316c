"""Searches in pieces: they come to the same, and Ctrl-C ends every call that takes long."""

import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from sudoku_env import default_puzzles, definite_cells, explain, explanation, generate, generator
from sudoku_env.errors import BoardError
from sudoku_env.kernels import search_state
from sudoku_env.rating import rate_batch
from sudoku_env.solver import completable, count_solutions, solve_batch
from tests.helpers.refusals import refused

SECONDS = 5.0
"""Until a call has to be over after the interrupt: a fraction of a second on a quiet machine."""
LONG_CALLS = """
import numpy as np
from sudoku_env import completable, count_solutions, default_puzzles, definite_cells, explain, generate, solve_batch
from sudoku_env.rating import rate_batch

nine, sixteen = default_puzzles(9).boards[:1], generate(1, size=16, clues=105, seed=0).boards
many = {9: np.repeat(nine, 500_000, 0), 16: np.repeat(sixteen, 50_000, 0)}
empty = {size: np.zeros((4, size * size), np.uint8) for size in (6, 9, 16)}
CALLS = {
    "generate": lambda: generate(1, size=16, clues=60, seed=0),
    "generate, two threads": lambda: generate(4, size=16, clues=60, seed=0, threads=2),
    "generate, minimal": lambda: generate(50, size=16, minimal=True, seed=0),
    "solve_batch, 6": lambda: solve_batch(np.repeat(empty[6], 1000, 0), limit=10**9),
    "count_solutions, 9": lambda: count_solutions(empty[9][0], 10**12),
    "count_solutions, 16": lambda: count_solutions(empty[16][0], 10**12),
    "solve_batch, 9": lambda: solve_batch(empty[9], limit=10**12),
    "completable, 9": lambda: [completable(many[9]) for _ in range(100)],
    "completable, 16": lambda: completable(many[16]),
    "solve_batch, two threads": lambda: solve_batch(np.repeat(empty[16], 1000, 0), limit=10**12, threads=2),
    "rate_batch, 9": lambda: [rate_batch(many[9]) for _ in range(100)],
    "rate_batch, 16": lambda: rate_batch(many[16]),
    "definite_cells, 9": lambda: [definite_cells(many[9], "backbone") for _ in range(100)],
    "definite_cells, 16": lambda: definite_cells(many[16], "backbone"),
    "patterns, 16": lambda: definite_cells(many[16], "patterns"),
}
for call in (lambda: explain(nine[0], "backbone"), lambda: generate(4, size=16, seed=0, threads=2)):
    call()
for name, call in CALLS.items():
    print(name, flush=True)
    try:
        call()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


def begin(*command: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def interrupt(process: subprocess.Popen[str]) -> None:
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)


@pytest.mark.slow
def test_an_interrupt_ends_every_call_that_takes_long():
    process = begin("-c", LONG_CALLS)
    seconds = {}
    while name := process.stdout.readline().strip():
        interrupt(process)
        sent = time.monotonic()
        assert process.stdout.readline() == "interrupted\n", f"{name} was over before, or {process.communicate()}"
        seconds[name] = time.monotonic() - sent
    assert process.wait(timeout=60) == 0, process.stderr.read()
    assert len(seconds) == 15 and max(seconds.values()) < SECONDS, seconds


def test_an_interrupt_ends_the_command_with_its_status():
    generate(1, size=16, seed=0)  # compiled, so that the child is at work soon
    process = begin("-m", "sudoku_dllm", "generate", "--size", "16", "--clues", "60")
    time.sleep(2)
    interrupt(process)
    sent = time.monotonic()
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 130 and "Traceback" not in errors, errors
    assert time.monotonic() - sent < SECONDS


TOLD = {
    "sudoku_dllm": "import sudoku_dllm.__main__ as command\ncommand.run = work\nraise SystemExit(command.main([]))",
    "llm_rl": "from llm_rl.training.command_line import fail\ntry: work()\nexcept KeyboardInterrupt: fail('', 130)",
}


@pytest.mark.parametrize("package", TOLD)
def test_an_interrupt_of_text_that_is_executed_ends_the_command_with_its_status(package, tmp_path):
    # as dataclasses do when they are imported; `-m` would end by the signal, although the interrupt was told
    work = "lambda *_: exec('import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(60)')"
    (tmp_path / "interrupted.py").write_text(f"work = {work}\n{TOLD[package]}\n")
    process = subprocess.run([sys.executable, "-m", "interrupted"], cwd=tmp_path, capture_output=True, timeout=120)
    assert process.returncode == 130 and b"Traceback" not in process.stderr, process.stderr


def test_what_cannot_be_had_is_refused_with_what_was_reached(monkeypatch):
    reached = r"fewest clues that one came to were (\d+)"
    with pytest.raises(BoardError, match=f"{reached}, and 4 attempts were given up") as bound:
        generate(1, size=16, clues=60, seed=0, attempts=4)
    assert 60 < int(re.search(reached, str(bound.value))[1]) < 130
    refused(f"{reached}; ask for more clues", lambda: generate(1, size=9, clues=17, seed=0, attempts=4), BoardError)
    monkeypatch.setattr(generator, "GUESSES", 1)
    given_up = "3 attempts were given up, each after 1 guesses"
    refused(given_up, lambda: generate(1, size=9, minimal=True, seed=0, attempts=3), BoardError)


@pytest.mark.parametrize("size", [4, 6, 9, 16])
def test_pieces_of_any_size_come_to_the_same(size, monkeypatch):
    boards = generate(12, size=size, clues={4: 5, 6: 12, 9: 26, 16: 112}[size], seed=1).boards
    rng = np.random.default_rng(0)
    for board in boards[::2]:  # several solutions
        board[rng.choice(np.flatnonzero(board), 2, replace=False)] = 0

    def everything() -> list[np.ndarray]:
        return [
            *solve_batch(boards, limit=20),
            *solve_batch(boards, limit=2, threads=2),
            completable(boards),
            *rate_batch(boards),
            *(definite_cells(boards, rule) for rule in ("singles", "pairs", "backbone")),
            np.array([str(step) for board in boards[:3] for step in explain(board, "backbone")]),
        ]

    whole = everything()
    for module in (search_state, explanation):
        monkeypatch.setattr(module, "PIECE", 1)
    for one, other in zip(whole, everything(), strict=True):
        assert (one == other).all()


def test_a_call_that_takes_several_pieces_counts_all_solutions():
    assert count_solutions(np.zeros(36, np.uint8), 100_000) == 100_000
    assert count_solutions(np.zeros(81, np.uint8), 100_000) == 100_000
    assert count_solutions(np.zeros(16, np.uint8), 1000) == 288
    assert count_solutions(default_puzzles(9).boards[0], 10**12) == 1
