"""A small completion server that speaks vLLM's protocol, `completion_server.py FOLDER --port N [--fault FAULT]`.

It is a process of its own and samples from a model of transformers without a cache, a token at a time. FAULT makes it
wrong: "stale" takes new adapters and goes on with the first one, "die" ends and "stall" hangs at the fourth token after
a probe, "early" ends completions after a token, "plain" leaves ids out.
"""

import argparse
import json
import os
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

BASE = "base"


class Served:
    """A model and its adapters by name."""

    def __init__(self, folder: str, options: argparse.Namespace) -> None:
        self.model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, options.dtype)).eval()
        self.options, self.lock, self.sampled = options, threading.Lock(), 0
        self.adapters: dict[str, str] = {}
        """The adapter that is asked under a name."""

    def load(self, name: str, path: str) -> str | None:
        """Why an adapter cannot be loaded, or None."""
        with self.lock:
            if not self.options.enable_lora or name in self.adapters:
                return f"The lora adapter '{name}' has already been loaded."
            if self.options.fault == "stale" and self.adapters:
                self.adapters[name] = next(iter(self.adapters.values()))
                return None
            if isinstance(self.model, PeftModel):
                self.model.load_adapter(path, name)
            else:
                self.model = PeftModel.from_pretrained(self.model, path, adapter_name=name).eval()
            self.adapters[name] = name
            return None

    @torch.no_grad()
    def logits(self, name: str, ids: list[int]) -> torch.Tensor:
        """`(T, V)`."""
        with self.lock:
            if name in self.adapters:
                self.model.set_adapter(self.adapters[name])
                return self.model(torch.tensor([ids])).logits[0].float()
            if isinstance(self.model, PeftModel):
                with self.model.disable_adapter():
                    return self.model(torch.tensor([ids])).logits[0].float()
            return self.model(torch.tensor([ids])).logits[0].float()

    def logprobs(self, logits: torch.Tensor, temperature: float) -> torch.Tensor:
        """Of sampled tokens, as the options say."""
        scaled = self.options.logprobs_mode == "processed_logprobs"
        return (logits / (temperature if scaled and temperature else 1.0)).log_softmax(-1)

    def tokens(self, body: dict[str, Any], number: int) -> Iterator[tuple[int, float, str | None]]:
        """The tokens of one completion with log-probabilities, and the reason to end with the last."""
        ids, temperature = list(body["prompt"]), body["temperature"]
        random = torch.Generator().manual_seed(body.get("seed", 0) + number)
        for place in range(body["max_tokens"]):
            self.fail()
            logits = self.logits(body["model"], ids)[-1]
            if temperature:
                token = int(torch.multinomial((logits / temperature).softmax(-1), 1, generator=random))
            else:
                token = int(logits.argmax())
            ids.append(token)
            ended = token in body.get("stop_token_ids", ()) or self.options.fault == "early"
            reason = "stop" if ended else "length" if place + 1 == body["max_tokens"] else None
            yield token, float(self.logprobs(logits, temperature)[token]), reason
            if ended:
                return

    def fail(self) -> None:
        """Die or hang at the fourth token after a probe."""
        self.sampled += 1
        if self.sampled > 3 and self.options.fault == "die":
            os._exit(3)
        while self.sampled > 3 and self.options.fault == "stall":
            time.sleep(1)


class Handler(BaseHTTPRequestHandler):
    """What the server answers."""

    protocol_version = "HTTP/1.1"
    served: Served

    def log_message(self, *args: Any) -> None:
        """Nothing: the requests are of no interest."""

    def answer(self, what: Any, status: int = 200) -> None:
        data = json.dumps(what).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        told = {"adapters": [*self.served.adapters], "data": [{"id": self.served.options.name}]}
        self.answer(told, 200 if self.path in ("/health", "/adapters", "/v1/models") else 404)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/end":
            os._exit(0)
        if self.path == "/v1/load_lora_adapter":
            refusal = self.served.load(body["lora_name"], body["lora_path"])
            self.answer(refusal or "Success", 400 if refusal else 200)
        elif self.path == "/v1/unload_lora_adapter":
            known = self.served.adapters.pop(body["lora_name"], None)
            self.answer("Success" if known else "cannot be found", 200 if known else 404)
        elif self.path != "/v1/completions" or body["model"] not in (self.served.options.name, *self.served.adapters):
            self.answer(f"there is no {body.get('model', self.path)}", 404)
        elif body.get("echo"):
            self.answer({"choices": [self.scored(body)]})
        else:
            self.stream(body)

    def scored(self, body: dict[str, Any]) -> dict[str, Any]:
        """The prompt's log-probabilities and a token after it."""
        ids = body["prompt"]
        logprobs = self.served.logits(body["model"], ids)[:-1].log_softmax(-1)
        told = [None, *logprobs[range(len(ids) - 1), ids[1:]].tolist()]
        token, logprob, reason = next(self.served.tokens(body, 0))
        self.served.sampled = 0
        return {
            "index": 0,
            "finish_reason": reason,
            "token_ids": [token],
            "logprobs": {"token_logprobs": [*told, logprob]},
        }

    def stream(self, body: dict[str, Any]) -> None:
        """The completions' tokens in turn, an event each."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        going = {number: self.served.tokens(body, number) for number in range(body["n"])}
        while going:
            for number, tokens in [*going.items()]:
                token, logprob, reason = next(tokens)
                if reason:
                    del going[number]
                choice = {"index": number, "token_ids": [token], "logprobs": {"token_logprobs": [logprob]}}
                if self.served.options.fault == "plain":
                    del choice["token_ids"]
                event = {"choices": [{**choice, "finish_reason": reason}]}
                self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True


class Server(ThreadingHTTPServer):
    """Takes as many requests side by side as come."""

    request_queue_size = 128


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--served-model-name", dest="name", default=BASE)
    parser.add_argument("--skip-tokenizer-init", action="store_true")
    parser.add_argument("--generation-config")
    parser.add_argument("--logprobs-mode", default="raw_logprobs")
    parser.add_argument("--enable-lora", action="store_true")
    parser.add_argument("--max-lora-rank", type=int)
    parser.add_argument("--fault")
    options = parser.parse_args()
    torch.set_num_threads(1)
    Handler.served = Served(options.folder, options)
    Server((options.host, options.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
