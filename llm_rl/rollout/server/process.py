"""A completion server of one's own, in another environment on this machine."""

import os
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from llm_rl.rollout.server.client import CompletionClient, ServerError
from llm_rl.rollout.server.protocol import scoring_body

WATCH = Path(__file__).with_name("watch.py")
LORA_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""What `--max-lora-rank` takes."""
SERVED = "policy"
"""The name under which the model is served."""


class ServerProcess:
    """Starts vLLM's server on the loopback interface, and ends it with this process, however that ends.

    Args:
        command: The program and its first words, such as `["path/to/vllm", "serve"]`.
        options: Further options of it, such as `["--gpu-memory-utilization", "0.4"]`.
        start_timeout: Longest time in seconds until it answers.
    """

    def __init__(self, command: Sequence[str], options: Sequence[str] = (), start_timeout: float = 600.0) -> None:
        self.command, self.options, self.start_timeout = [*command], [*options], start_timeout
        self._home = TemporaryDirectory(prefix="completion_server_")
        self._log = Path(self._home.name) / "log.txt"
        self._log.touch()
        self._process: subprocess.Popen[bytes] | None = None
        self._end: weakref.finalize | None = None

    def start(self, folder: Path, dtype: str, lora_rank: int | None, timeout: float) -> CompletionClient:
        """Serve a model, after ending the server before; what the client speaks to is ready.

        Args:
            folder: The model.
            dtype: What it computes in, such as "float32".
            lora_rank: Rank of the adapters that will be loaded. None: there will be none.
            timeout: Longest silence for the client.

        Raises:
            ServerError: The program ends, does not answer in time, or refuses a completion.
            ValueError: No server takes adapters of this rank.
            OSError: There is no such program.
        """
        self.stop()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [*self.command, str(folder), "--host", "127.0.0.1", "--port", str(port), "--dtype", dtype]
        command += ["--served-model-name", SERVED, "--skip-tokenizer-init", "--generation-config", "vllm"]
        command += ["--logprobs-mode", "processed_logprobs"]
        if lora_rank is not None:
            enough = [known for known in LORA_RANKS if known >= lora_rank]
            if not enough:
                raise ValueError(f"the adapters have rank {lora_rank}; a server takes {LORA_RANKS[-1]} at most")
            command += ["--enable-lora", "--max-lora-rank", str(enough[0])]
        environment = {**os.environ, "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1"}
        with self._log.open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, str(WATCH), *command, *self.options],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
            )
        self._process, self._end = process, weakref.finalize(self, _end, process)
        url = f"http://127.0.0.1:{port}"
        patient = CompletionClient(url, self.start_timeout)
        self._wait_for(patient, process)
        patient.request("POST", "/v1/completions", scoring_body(SERVED, [0, 0], 1.0))  # compiles what is needed
        return CompletionClient(url, timeout)

    def _wait_for(self, client: CompletionClient, process: "subprocess.Popen[bytes]") -> None:
        latest = time.monotonic() + self.start_timeout
        while True:
            try:
                client.request("GET", "/health")
                return
            except ServerError as error:
                ended, late = process.poll() is not None, time.monotonic() > latest
                if ended or late:
                    self.stop()
                    what = "ended" if ended else f"does not answer after {self.start_timeout:g} s"
                    raise ServerError(
                        f"the server {' '.join(self.command)} {what}; its last lines:\n{self.last_lines()}"
                    ) from error
            time.sleep(0.1)

    def stop(self) -> None:
        """End the server, if one runs."""
        if self._end is not None:
            self._end()
        self._process = self._end = None

    def last_lines(self) -> str:
        """What the server wrote last; vLLM tells the cause before two tracebacks of what followed from it."""
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-80:])


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Close the watcher's input, upon which it kills the server, and wait for it."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
