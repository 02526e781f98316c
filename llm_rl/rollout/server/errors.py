"""What goes wrong between a trainer and the server that samples for it."""


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
