"""Two players play Sudoku on one OpenEnv server at the same time, each in a session of its own.

pip install "sudoku-dllm[openenv]"
python examples/openenv_play.py
"""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from sudoku_env import parse_board, solve
from sudoku_env.integrations.openenv import SudokuAction, SudokuClient, SudokuObservation
from sudoku_env.integrations.openenv.server import make_app


@contextmanager
def served(**arguments: int) -> Iterator[str]:
    """The server in a thread, with arguments of `SudokuText`; gives its address."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(make_app(**arguments), host="127.0.0.1", port=port, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


def right_move(seen: SudokuObservation) -> str:
    """The solution's digit in the first blank of the board."""
    board, solution = parse_board(seen.board), solve(seen.puzzle)
    cell = int((board == 0).nonzero()[0][0])
    return f"place {cell // seen.size + 1} {cell % seen.size + 1} {solution[cell]}"


if __name__ == "__main__":
    with (
        served(size=4) as url,
        SudokuClient(base_url=url).sync() as first,
        SudokuClient(base_url=url).sync() as second,
    ):
        seen = first.reset(seed=0).observation
        print(seen.text)
        print(second.reset(seed=0, size=6).observation.text.splitlines()[0])
        print(second.step(SudokuAction(message="hint")).observation.text.splitlines()[0])
        while not seen.done:
            result = first.step(SudokuAction(message=right_move(seen)))
            seen = result.observation
        print(f"{seen.text} Reward of the last turn: {result.reward}; turns: {first.state().step_count}")
