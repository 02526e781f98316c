"""verifiers evaluates a model on Sudoku in turns; here the model is a script behind a server on this machine.

    pip install "sudoku-dllm[verifiers]"
    python examples/verifiers_eval.py

The server speaks as much of the chat completions API as `vf-eval` asks for. With a model of your own leave it out:

    python -m sudoku_env.integrations.verifiers --model NAME --client.base-url http://127.0.0.1:8000/v1 \
        --env.agent.runtime.type subprocess --env.taskset.size 4 -n 20 --no-push
"""

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sudoku_env import format_board, parse_puzzle, solve
from sudoku_env.integrations.verifiers import main

Player = Callable[[list[dict[str, str]]], str]


def solver(messages: list[dict[str, str]]) -> str:
    """A player who knows the solution: it places the next digit, or writes the grid where no moves are asked for."""
    prompt = next(message["content"] for message in messages if message["role"] == "user")
    puzzle = parse_puzzle(prompt)
    solution = solve(puzzle)
    if "place ROW COLUMN DIGIT" not in prompt:
        return f"```\n{format_board(solution)}\n```"
    placed = sum(message["role"] == "assistant" for message in messages)
    cell = (puzzle == 0).nonzero()[0][placed]
    row, column = divmod(int(cell), round(puzzle.size**0.5))
    return f"The next blank:\nplace {row + 1} {column + 1} {solution[cell]}"


@contextmanager
def served(player: Player) -> Iterator[str]:
    """An OpenAI-compatible server on the loopback interface whose model is a player; gives its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            message = {"role": "assistant", "content": player(request["messages"])}
            answer: dict[str, Any] = {
                "id": "chatcmpl-0",
                "object": "chat.completion",
                "created": 0,
                "model": request["model"],
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
            }
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()


def evaluate(player: Player, folder: Path, *options: str) -> list[dict[str, Any]]:
    """Run `vf-eval` with a player for a model, and read the traces that it saves."""
    os.environ.setdefault("LOOPBACK_KEY", "none")
    with served(player) as url:
        client = ["--model", "scripted", "--client.base-url", url, "--client.api-key-var", "LOOPBACK_KEY"]
        local = ["--env.agent.runtime.type", "subprocess", "--no-rich", "--no-push", "--output-dir", str(folder)]
        main([*client, *local, *options])
    episodes = [json.loads(line) for path in folder.rglob("traces.jsonl") for line in path.open()]
    return [trace for episode in episodes for trace in episode["traces"]]


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        for number, trace in enumerate(evaluate(solver, Path(folder), "-n", "3", "--env.taskset.size", "4")):
            print(f"puzzle {number}: {trace['rewards']} {trace['metrics']}")
