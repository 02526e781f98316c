"""What a client makes of a server that hangs, breaks off or keeps some waiting; the server is a script."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from llm_rl.rollout.server.client import CompletionClient, ServerError
from llm_rl.rollout.server.streams import Choice, complete
from tests.helpers.refusals import refused

Say = Callable[[Any], None]
DONE, NO_JSON = "[DONE]", "<html>"


def token(number: int, index: int = 0, reason: str | None = None) -> dict[str, Any]:
    """An event with one token."""
    choice = {"token_ids": [number], "logprobs": {"token_logprobs": [-float(number)]}, "finish_reason": reason}
    return {"choices": [{"index": index, **choice}]}


@contextmanager
def scripted(play: Callable[[dict[str, Any], Say], None], timeout: float = 30.0) -> Iterator[CompletionClient]:
    """A client of a server that answers a body by what a function says, event by event."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: Any) -> None:
            """Nothing."""

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(body.get("status", 200))
            self.end_headers()

            def say(event: Any) -> None:
                self.wfile.write(f"data: {event if event in (DONE, NO_JSON) else json.dumps(event)}\n\n".encode())
                self.wfile.flush()

            play(body, say)

    class Server(ThreadingHTTPServer):
        request_queue_size, daemon_threads, block_on_close = 128, True, False

    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield CompletionClient(f"http://127.0.0.1:{server.server_port}", timeout)
    finally:
        server.shutdown()
        server.server_close()


def test_pieces_of_several_completions_are_put_together() -> None:
    def play(body: dict[str, Any], say: Say) -> None:
        for event in (token(body["first"]), token(5, 1), token(7, 1, "length"), token(6, 0, "stop"), DONE):
            say(event)

    with scripted(play) as client:
        found = complete(client, [{"n": 2, "first": first} for first in range(40)])
    for first, choices in enumerate(found):
        assert choices == [Choice([first, 6], [-float(first), -6.0], "stop"), Choice([5, 7], [-5.0, -7.0], "length")]


def test_a_request_may_wait_while_others_get_tokens() -> None:
    """What a server says to one is a sign of life for all, as it has room for some of them at a time."""
    turn = threading.Event()

    def play(body: dict[str, Any], say: Say) -> None:
        if body["waits"]:
            turn.wait(30)
        for _ in range(1 if body["waits"] else 12):
            time.sleep(0.0 if body["waits"] else 0.25)
            say(token(3))
        turn.set()
        say(DONE)

    with scripted(play, timeout=1.5) as client:
        first, second = complete(client, [{"n": 1, "waits": False}, {"n": 1, "waits": True}])
    assert (len(first[0].token_ids), len(second[0].token_ids)) == (12, 1)


def test_a_silent_server_is_an_error_and_no_request_stays_on_its_way() -> None:
    silence = threading.Event()

    def play(body: dict[str, Any], say: Say) -> None:
        say(token(3))
        silence.wait(60)

    with scripted(play, timeout=0.5) as client:
        before = time.monotonic()
        with pytest.raises(ServerError, match=r"said nothing for 0.5 s.*resume_from_checkpoint"):
            complete(client, [{"n": 1}] * 5)
        assert time.monotonic() - before < 20
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("completions")]
    silence.set()


def test_one_that_fails_ends_the_others() -> None:
    silence = threading.Event()

    def play(body: dict[str, Any], say: Say) -> None:
        say(token(3))
        if body["breaks"]:
            say({"error": {"message": "out of memory"}})
        else:
            silence.wait(60)

    with scripted(play, timeout=60) as client:
        before = time.monotonic()
        with pytest.raises(ServerError, match=r"gave up a completion.*out of memory"):
            complete(client, [{"n": 1, "breaks": False}, {"n": 1, "breaks": True}])
        assert time.monotonic() - before < 30
    silence.set()


@pytest.mark.parametrize(
    ("events", "status", "message"),
    [
        ([token(3)], 200, "is not there or died"),  # no end mark
        ([{"choices": [{"index": 0, "text": "red", "finish_reason": None}]}], 200, "without token ids"),
        ([token(3, index=4)], 200, "without token ids"),
        (["no"], 503, "status 503"),
        ([NO_JSON], 200, "no JSON"),
    ],
)
def test_answers_that_are_none(events: list[Any], status: int, message: str) -> None:
    def play(body: dict[str, Any], say: Say) -> None:
        for event in events:
            say(event)

    with scripted(play) as client, pytest.raises(ServerError, match=message):
        complete(client, [{"n": 1, "status": status}])


def test_what_is_wrong_with_a_client() -> None:
    for url in ("127.0.0.1:8000", "https://127.0.0.1", "http://127.0.0.1:8000/v1"):
        with pytest.raises(ValueError, match="must be like"):
            CompletionClient(url, 1)
    refused("timeout is 0", lambda: CompletionClient("http://127.0.0.1:8000", 0))
