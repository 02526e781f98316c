"""`ServerEngine`: an engine that asks a completion server, vLLM's for one. See docs/grpo.md."""

import itertools
import math
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn

from llm_rl.rollout.generation import Completion, SamplingParams
from llm_rl.rollout.scoring import causal_model
from llm_rl.rollout.server.client import CompletionClient, ServerError
from llm_rl.rollout.server.probe import Probed, probe
from llm_rl.rollout.server.process import SERVED, ServerProcess
from llm_rl.rollout.server.protocol import as_completion, completion_body
from llm_rl.rollout.server.streams import complete
from llm_rl.rollout.server.weights import adapter_name, adapter_weights, digest, save_adapter, save_base


class ServerEngine:
    """Samples on a server that speaks vLLM's protocol over HTTP, all completions of a roll-out side by side.

    LoRA adapters reach the server as a folder, under a new name at each change; the server has the model without them.
    All weights of a model reach it by a restart, for which the engine needs a server of its own. After each change the
    log-probabilities of a fixed text have to be the policy's, see `probe.probe`.

    Seeds of the requests come from torch's global generator, so that a server that computes the same twice samples the
    same twice.

    Args:
        server: The address of one that runs on this machine, or a `ServerProcess` that the engine starts.
        timeout: Longest silence in seconds: no answer, or no token of any completion.
        tolerance: How far the server's log-probability of a token may be from the policy's in the probe. In float32
            they are 1e-5 apart; where the server computes in a narrower type, set what that costs.

    Raises:
        ValueError: The address or a number is out of range.
    """

    def __init__(self, server: ServerProcess | str, *, timeout: float = 60.0, tolerance: float = 1e-2) -> None:
        if not 0 < tolerance < math.inf:
            raise ValueError(f"tolerance is {tolerance!r}; it must be greater than 0 and finite")
        self.timeout, self.tolerance = timeout, tolerance
        self._process = None if isinstance(server, str) else server
        self._client = CompletionClient(server, timeout) if isinstance(server, str) else None
        self._numbers, self._run = itertools.count(1), uuid.uuid4().hex[:8]
        self._files: TemporaryDirectory[str] | None = None
        self._served: str | None = None
        self._vocabulary = 0
        self._digest = ""
        self._probed: Probed | None = None

    def load_weights(self, model: nn.Module) -> None:
        """Bring the policy's weights to the server, where they changed.

        Args:
            model: The causal language model, with LoRA adapters in its layers or none, or PEFT's wrapper around it.

        Raises:
            ServerError: The server refuses, dies or stalls; a `StaleWeightsError` where it goes on with other weights.
            ValueError: The weights cannot be brought to it; the message says why.
        """
        policy = causal_model(model)
        adapter = adapter_name(policy)
        weights = digest(policy.state_dict() if adapter is None else adapter_weights(policy, adapter))
        if weights == self._digest:
            return
        with self._starting_over():
            if adapter is None:
                client, served = self._restart(policy, None), SERVED
            else:
                client = self._client or self._restart(policy, policy.peft_config[adapter].r)
                served = self._load_adapter(client, policy, adapter)
            self._probed = probe(client, served, policy, self.tolerance, self._probed)
            self._served, self._digest = served, weights
            self._vocabulary = policy.get_input_embeddings().weight.shape[0]

    def generate(self, prompts: Sequence[Sequence[int]], params: SamplingParams) -> list[Completion]:
        """One completion for each list of ids, as `GenerationEngine.generate` documents it; of greedy ones no logprobs.

        Raises:
            RuntimeError: `load_weights` was not called, or failed.
            ServerError: The server refuses, dies or stalls, or its answer is no completion.
        """
        if self._client is None or self._served is None:
            raise RuntimeError("the engine has no weights; call load_weights(model) before generate")
        # A server refuses end tokens that no model of this size can sample.
        asked = replace(params, eos_token_ids=tuple(end for end in params.eos_token_ids if end < self._vocabulary))
        places: dict[tuple[int, ...], list[int]] = {}
        for place, prompt in enumerate(prompts):
            places.setdefault(tuple(prompt), []).append(place)
        seeds = torch.randint(2**31, (len(places),)).tolist()
        bodies = [
            completion_body(self._served, prompt, 1 if params.greedy else len(same), seed, asked)
            for (prompt, same), seed in zip(places.items(), seeds, strict=True)
        ]
        with self._starting_over():
            answers = complete(self._client, bodies)
            found: dict[int, Completion] = {}
            for same, choices in zip(places.values(), answers, strict=True):
                each = choices * len(same) if params.greedy else choices
                found |= {place: as_completion(choice, params) for place, choice in zip(same, each, strict=True)}
        return [found[place] for place in range(len(prompts))]

    def close(self) -> None:
        """End a server of one's own, or take the adapter off one that goes on; `load_weights` begins anew."""
        if self._process is None and self._client is not None and self._served is not None:
            self._client.request("POST", "/v1/unload_lora_adapter", {"lora_name": self._served})
        self._forget()

    @contextmanager
    def _starting_over(self) -> Iterator[None]:
        """After an error in a block, `load_weights` begins anew, with another server where it is the engine's own."""
        try:
            yield
        except BaseException as error:
            if self._process is not None and (lines := self._process.last_lines()):
                error.add_note(f"The server's last lines:\n{lines}")
            self._forget()
            raise

    def _forget(self) -> None:
        if self._process is not None:
            self._process.stop()
            self._client = None
        self._served, self._digest, self._probed = None, "", None

    def _restart(self, model: Any, lora_rank: int | None) -> CompletionClient:
        """Starts the server on the model without adapters."""
        if self._process is None:
            raise ValueError(
                "the policy has no LoRA adapters, and all its weights reach a server by a restart only, since vLLM's "
                "reload keeps old ones; train adapters (llm_rl.add_lora), or pass a ServerProcess instead of an address"
            )
        with TemporaryDirectory(prefix="policy_") as folder:
            save_base(model, Path(folder))
            dtype = str(model.dtype).removeprefix("torch.")
            self._client = self._process.start(Path(folder), dtype, lora_rank, self.timeout)
        return self._client

    def _load_adapter(self, client: CompletionClient, model: Any, adapter: str) -> str:
        """Gives the server the adapter under a new name, and takes the one before off it."""
        files = TemporaryDirectory(prefix="adapter_")
        save_adapter(model, adapter, Path(files.name))
        served = f"policy-{self._run}-{next(self._numbers)}"
        client.request("POST", "/v1/load_lora_adapter", {"lora_name": served, "lora_path": files.name})
        if self._served is not None:
            client.request("POST", "/v1/unload_lora_adapter", {"lora_name": self._served})
        if self._files is not None:
            self._files.cleanup()
        self._files = files  # read again by a server that has put the adapter aside
        return served


class ServedEngine(ServerEngine):
    """Samples from the first model of a server at an address, with the weights it has: where nothing trains."""

    def load_weights(self, model: nn.Module) -> None:
        """Ask for the server's model, `ServerError` without one; of `model` the vocabulary's size is read alone."""
        assert self._client is not None
        told = self._client.request("GET", "/v1/models")
        try:
            self._served = told["data"][0]["id"]
        except (KeyError, IndexError, TypeError) as error:
            raise ServerError(f"the server at {self._client.url} tells no model but {str(told)[:80]}") from error
        self._vocabulary = causal_model(model).get_input_embeddings().weight.shape[0]

    def close(self) -> None:
        """Leave the server as it is; `load_weights` begins anew."""
        self._forget()
