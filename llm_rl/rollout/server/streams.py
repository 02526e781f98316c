"""Completions as a server streams them, many requests side by side.

Each token is a sign of life: a server that computes for minutes and one that hangs can be told apart.
"""

import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from http.client import HTTPResponse
from typing import Any

from llm_rl.rollout.server.client import CompletionClient, NoTokensError, ServerError

LOOK_AFTER = 0.2
"""Seconds between two looks at how long a server has been silent."""


@dataclass
class Choice:
    """One completion.

    Attributes:
        token_ids: T sampled ids.
        logprobs: T log-probabilities; None where the server gave none.
        finish_reason: "stop" at an end token, "length" at the longest completion; None while it goes on.
    """

    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float | None] = field(default_factory=list)
    finish_reason: str | None = None


def complete(client: CompletionClient, bodies: Sequence[Mapping[str, Any]]) -> list[list[Choice]]:
    """The `n` completions of each of several requests for a stream, which the server answers side by side.

    Raises:
        ServerError: The server refuses a request, dies, gives no ids or log-probabilities, or no token of any request
            comes for `client.timeout` seconds; then no request is left on its way.
    """
    streams = _Streams(client)
    with ThreadPoolExecutor(max(1, len(bodies)), thread_name_prefix="completions") as pool:
        futures = [pool.submit(streams.read, body) for body in bodies]
        try:
            streams.attend(futures)
        except BaseException:
            streams.hang_up()
            raise
    return [future.result() for future in futures]


class _Streams:
    """The open answers of a server."""

    def __init__(self, client: CompletionClient) -> None:
        self._client, self._heard = client, time.monotonic()
        self._sockets: list[socket.socket] = []
        self._over = threading.Event()

    def attend(self, futures: Sequence[Future[Any]]) -> None:
        """Waits for all answers, up to the first error or a silence that is too long."""
        pending = set(futures)
        while pending:
            done, pending = wait(pending, timeout=LOOK_AFTER, return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
            if pending and time.monotonic() - self._heard > self._client.timeout:
                raise self._client.silent()

    def hang_up(self) -> None:
        """Ends all connections under the threads that read from them."""
        self._over.set()
        for opened in self._sockets:
            try:
                opened.shutdown(socket.SHUT_RDWR)
            except OSError:  # it has ended by itself
                continue

    def read(self, body: Mapping[str, Any]) -> list[Choice]:
        """The choices of one request, from the pieces in which they come."""
        choices = [Choice() for _ in range(body["n"])]
        with self._client.errors(), self._client.connection() as connection:
            connection.sock.settimeout(None)  # a request that waits for others is silent for long
            self._sockets.append(connection.sock)
            if self._over.is_set():  # what hangs up did not see this socket
                return choices
            response = self._client.send(connection, "POST", "/v1/completions", body)
            for piece in self._pieces(response):
                try:
                    choice = choices[piece["index"]]
                    choice.token_ids += piece["token_ids"]
                    choice.logprobs += piece["logprobs"]["token_logprobs"]
                    choice.finish_reason = piece["finish_reason"] or choice.finish_reason
                except (KeyError, TypeError, IndexError) as error:
                    raise NoTokensError(self._client.url, error) from error
        return choices

    def _pieces(self, response: HTTPResponse) -> Iterator[dict[str, Any]]:
        """The choices in a stream of server-sent events, up to its end mark."""
        for line in response:
            self._heard = time.monotonic()
            data = line.decode().removeprefix("data:").strip()
            if data == "[DONE]":
                return
            if data:
                event = json.loads(data)
                if "error" in event:
                    raise ServerError(f"the server at {self._client.url} gave up a completion: {event['error']}")
                yield from event["choices"]
        raise ConnectionResetError("the answer broke off")
