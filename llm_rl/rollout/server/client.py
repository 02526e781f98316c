"""Requests to an OpenAI-compatible completion server: tokens in, tokens and log-probabilities out.

The names are those of vLLM's protocol, whose `return_token_ids`, `stop_token_ids` and `load_lora_adapter` go beyond
OpenAI's.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any
from urllib.parse import urlsplit

GO_ON = "go on from what is saved, a trainer by train(resume_from_checkpoint=True)"


class ServerError(RuntimeError):
    """The server refused a request, broke the protocol, died or stalled; training can go on from its checkpoint."""


class StaleWeightsError(ServerError):
    """The server's log-probabilities are not those of the policy whose weights it was given."""


class NoTokensError(ServerError):
    """The server's answers lack token ids or log-probabilities."""

    def __init__(self, url: str, cause: Exception) -> None:
        super().__init__(
            f"the server at {url} answers without token ids or log-probabilities ({cause!r}); use vLLM's, or one "
            "that knows its return_token_ids and logprobs"
        )


class CompletionClient:
    """Speaks over HTTP to a server at a `url` such as "http://127.0.0.1:8000".

    It may be silent for `timeout` seconds, > 0. `ValueError` where one of both is something else.
    """

    def __init__(self, url: str, timeout: float) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname or parts.path.strip("/"):
            raise ValueError(f"the server's address is {url!r}; it must be like http://127.0.0.1:8000")
        if not timeout > 0:
            raise ValueError(f"timeout is {timeout!r}; it must be greater than 0, in seconds")
        self.url, self.timeout = url.rstrip("/"), timeout
        self._address = parts.hostname, parts.port or 80

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The answer, its JSON or its text; `ServerError` where the server refuses, or is silent for too long."""
        with self.errors(), self.connection() as connection:
            response = self.send(connection, method, path, body)
            text = response.read().decode()
            return json.loads(text) if response.headers.get_content_type() == "application/json" else text

    @contextmanager
    def connection(self) -> Iterator[HTTPConnection]:
        """A connection of its own, closed at the end."""
        connection = HTTPConnection(*self._address, timeout=self.timeout)
        try:
            connection.connect()
            yield connection
        finally:
            connection.close()

    def send(
        self, connection: HTTPConnection, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> HTTPResponse:
        """Ask; the answer is to be read. A `ServerError` where the server refuses."""
        headers = {} if body is None else {"Content-Type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        if response.status != 200:
            said = response.read().decode(errors="replace")[:500]
            raise ServerError(f"the server at {self.url} refuses {method} {path} with status {response.status}: {said}")
        return response

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Tells what can be done where a connection fails within a block."""
        try:
            yield
        except TimeoutError as error:
            raise self.silent() from error
        except json.JSONDecodeError as error:
            raise ServerError(f"the server at {self.url} answers with what is no JSON: {error.doc[:80]!r}") from error
        except (OSError, HTTPException) as error:
            raise ServerError(
                f"the server at {self.url} is not there or died ({error!r}); start it again and {GO_ON}"
            ) from error

    def silent(self) -> ServerError:
        """The error where the server says nothing."""
        return ServerError(
            f"the server at {self.url} has said nothing for {self.timeout:g} s; where it hangs, start it again and "
            f"{GO_ON}; where it is only slow, raise timeout"
        )
