"""Whether a server has the weights of a policy: the log-probabilities of a fixed text, by both."""

import math
from typing import Any, NamedTuple

import torch

from llm_rl.rollout.server.client import CompletionClient, NoTokensError, ServerError, StaleWeightsError
from llm_rl.rollout.server.protocol import scoring_body
from llm_rl.training.modes import evaluation_mode

LENGTH = 16
"""Tokens of the text, spread evenly over the vocabulary."""
TEMPERATURE = 0.5
"""Of the token that is sampled after the text: not 1, so that log-probabilities before the temperature stand out."""
LEAST = -9999.0
"""What vLLM's server writes for every smaller log-probability."""


class Probed(NamedTuple):
    """Log-probabilities of the text's tokens from the second on, by the policy (at temperature 1) and by the server."""

    policy: list[float]
    server: list[float]

    @property
    def distance(self) -> float:
        """The largest difference."""
        return largest_difference(self.policy, self.server)


def largest_difference(first: list[float], second: list[float]) -> float:
    """max |a − b|; infinite where one is not a number."""
    differences = [abs(a - b) for a, b in zip(first, second, strict=True)]
    return math.inf if any(map(math.isnan, differences)) else max(differences)


def probe(client: CompletionClient, served: str, model: Any, tolerance: float, before: Probed | None) -> Probed:
    """Compare a server with a policy: what is found now, where `before` was found with the weights before these.

    `served` is the name under which the server has the weights, `tolerance` how far a log-probability may be off.

    Raises:
        StaleWeightsError: A log-probability is off by more than `tolerance`, or not one of the server's moved while the
            policy's moved by more than they were off before.
        ServerError: The log-probabilities of sampled tokens are not those of the distribution that is sampled from, or
            there is no answer.
    """
    size = model.get_input_embeddings().weight.shape[0]
    ids = [(2 * place + 1) * size // (2 * LENGTH) for place in range(LENGTH)]
    answer = client.request("POST", "/v1/completions", scoring_body(served, ids, TEMPERATURE))
    try:
        (choice,) = answer["choices"]
        *said, last = map(float, choice["logprobs"]["token_logprobs"][1:])
        sampled = choice["token_ids"][-1]
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise NoTokensError(client.url, error) from error
    with torch.no_grad(), evaluation_mode(model):
        logits = model(input_ids=torch.tensor([ids], device=model.device), use_cache=False).logits[0].float()  # (T, V)
    following = torch.tensor(ids[1:], device=logits.device).unsqueeze(1)
    policy = logits[:-1].log_softmax(-1).gather(1, following).flatten().clamp_min(LEAST)
    found = Probed(policy.tolist(), said)
    if not found.distance <= tolerance:
        raise StaleWeightsError(
            f"the server at {client.url} has other weights than the policy: the log-probability of a fixed text is off "
            f"by {found.distance:.2g}, more than tolerance = {tolerance:g}. Serve the model that the policy started "
            "from, in the policy's dtype, without quantization; where that is so, start the server again, as it kept "
            "old weights"
        )
    if before is not None and said == before.server:
        moved = largest_difference(policy.tolist(), before.policy)
        if moved > before.distance:
            raise StaleWeightsError(
                f"the server at {client.url} kept its old weights: the log-probabilities of a fixed text are those "
                f"from before, to the last bit, while the policy's moved by {moved:.2g}; start the server again"
            )
    scaled = (logits[-1] / TEMPERATURE).log_softmax(-1)[sampled].item()
    if not abs(max(scaled, LEAST) - last) <= tolerance / TEMPERATURE:
        raise ServerError(
            f"the server at {client.url} gives {last:.4g} as the log-probability of a token sampled at the temperature "
            f"{TEMPERATURE}, and it is {scaled:.4g}; start it with --logprobs-mode processed_logprobs"
        )
    return found
