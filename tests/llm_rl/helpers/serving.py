"""Servers for `ServerEngine`, and policies with adapters that they can be told."""

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from llm_rl import add_lora
from llm_rl.rollout.generation import Completion, SamplingParams
from llm_rl.rollout.scoring import causal_model
from llm_rl.rollout.server.client import CompletionClient, ServerError
from tests.helpers.warm_process import start_script
from tests.llm_rl.helpers.grpo_reference import logps
from tests.llm_rl.helpers.tiny_grpo import move, new_model, tokenizer

EOS = tokenizer().eos_token_id
PARAMS = SamplingParams(max_new_tokens=6, temperature=0.8, eos_token_ids=(EOS, 5, 7), pad_token_id=EOS)
PROMPTS = [[5], [6, 7, 8, 9], [10, 11]] * 4
SERVER = Path(__file__).with_name("completion_server.py")


@contextmanager
def serving(folder: Path, *options: str, processed: bool = True, port: int | None = None) -> Iterator[str]:
    """The address of a small server of the model in a folder, ready; it ends with the block."""
    port = free_port() if port is None else port
    words = [folder, "--port", port, "--enable-lora", *options]
    process = start_script(SERVER, [*words, *(["--logprobs-mode", "processed_logprobs"] if processed else [])])
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for(url, process)
        yield url
    finally:
        process.kill()


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def wait_for(url: str, process: Any) -> None:
    """Wait until a server answers."""
    while True:
        try:
            CompletionClient(url, 60).request("GET", "/health")
            return
        except ServerError:
            assert process.returncode is None, process.communicate()


def policy(base: Any = None, seed: int = 1) -> Any:
    """The tiny model, or another, with adapters that are not 0."""
    model = add_lora(new_model() if base is None else base, r=4, target_modules=["q_proj", "up_proj"])
    move(model, seed, 0.2)
    return model


def assert_sampled_from(model: Any, completions: Sequence[Completion], within: float = 1e-5) -> None:
    """Log-probabilities are the policy's, and a completion ends at its first end token or is the longest."""
    for prompt, (ids, logprobs) in zip(PROMPTS, completions, strict=True):
        ends = [token in PARAMS.eos_token_ids for token in ids]
        assert not any(ends[:-1]) and (ends[-1] or len(ids) == PARAMS.max_new_tokens)
        assert logprobs == pytest.approx(
            logps(causal_model(model), prompt, ids, PARAMS.temperature).tolist(), abs=within
        )
