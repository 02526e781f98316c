"""A server of the engine's own: whole weights by restart, adapters on a base that it writes, and how it ends."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from torch import nn

from llm_rl.rollout.generation import SamplingParams
from llm_rl.rollout.scoring import causal_model
from llm_rl.rollout.server.client import ServerError
from llm_rl.rollout.server.engine import ServerEngine
from llm_rl.rollout.server.process import WATCH, ServerProcess
from tests.helpers.refusals import refused
from tests.helpers.warm_process import with_root_first
from tests.llm_rl.helpers import tiny_grpo
from tests.llm_rl.helpers.grpo_reference import logps
from tests.llm_rl.helpers.serving import SERVER, policy
from tests.llm_rl.helpers.tiny_grpo import new_model, tokenizer, uneven
from tests.llm_rl.helpers.watch import trained

EOS = tokenizer().eos_token_id
PARAMS = SamplingParams(6, 0.8, (EOS,), EOS)
SMALL = [sys.executable, str(SERVER)]


@pytest.fixture(autouse=True)
def module_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", with_root_first())


def assert_policy_samples(engine: ServerEngine, model: nn.Module) -> None:
    for prompt, (ids, logprobs) in zip([[5], [6, 7]], engine.generate([[5], [6, 7]], PARAMS), strict=True):
        assert logprobs == pytest.approx(logps(causal_model(model), prompt, ids, 0.8).tolist(), abs=1e-5)


@pytest.mark.slow
def test_all_weights_reach_it_by_a_restart_at_each_step(tmp_path: Path) -> None:
    engine = ServerEngine(ServerProcess(SMALL))
    run = trained(tiny_grpo.trainer(tmp_path, reward_funcs=uneven, given={"engine": engine}, learning_rate=1e-2))
    assert run.state.log_history[0]["engine_logp_diff_max"] < 1e-4
    engine.load_weights(run.model)
    assert_policy_samples(engine, run.model)
    engine.close()


@pytest.mark.slow
def test_adapters_reach_one_that_serves_the_model_without_them_and_an_error_starts_another() -> None:
    model = policy()
    process = ServerProcess(SMALL)
    engine = ServerEngine(process)
    engine.load_weights(causal_model(model))
    assert_policy_samples(engine, model)
    process.stop()
    with pytest.raises(ServerError) as caught:
        engine.generate([[5]], PARAMS)
    assert "last lines" in "".join(caught.value.__notes__)
    engine.load_weights(causal_model(model))
    assert_policy_samples(engine, model)
    engine.close()


def test_one_that_does_not_start_tells_what_it_said() -> None:
    engine = ServerEngine(ServerProcess([sys.executable, "-c", "raise SystemExit('no room for weights')"]))
    refused(r"ended; its last lines:\nno room for weights", lambda: engine.load_weights(new_model()), ServerError)
    slow = ServerEngine(ServerProcess([sys.executable, "-c", "import time; time.sleep(600)"], start_timeout=0.5))
    refused(r"does not answer after 0\.5 s", lambda: slow.load_weights(new_model()), ServerError)


def test_adapters_of_a_rank_that_no_server_takes() -> None:
    model = policy()
    model.peft_config["default"].r = 1000
    refused("rank 1000", lambda: ServerEngine(ServerProcess(SMALL)).load_weights(causal_model(model)))


def starting_another(told: Path, then: str) -> list[str]:
    """The watcher of a program that starts another, tells both ids in a file and goes on."""
    inner = "import time; time.sleep(600)"
    program = (
        f"import os, subprocess, sys, time; child = subprocess.Popen([sys.executable, '-c', {inner!r}]); "
        f"open({str(told) + '.new'!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}'); "
        f"os.rename({str(told) + '.new'!r}, {str(told)!r}); {then}"
    )
    return [sys.executable, str(WATCH), sys.executable, "-c", program]


def test_a_server_and_what_it_started_end_with_who_asked_for_it(tmp_path: Path) -> None:
    """Whoever holds the watcher's input goes away."""
    told = tmp_path / "ids"
    watcher = subprocess.Popen(starting_another(told, "time.sleep(600)"), stdin=subprocess.PIPE)
    wait_until(told.exists)
    ids = [int(word) for word in told.read_text().split()]
    assert all(map(psutil.pid_exists, ids))
    assert watcher.stdin
    watcher.stdin.close()
    assert watcher.wait(60) != 0
    wait_until(lambda: not any(map(_lives, ids)))


def test_the_watcher_ends_as_its_command_does_and_leaves_nothing_behind(tmp_path: Path) -> None:
    told = tmp_path / "ids"
    with subprocess.Popen(starting_another(told, "raise SystemExit(7)"), stdin=subprocess.PIPE) as watcher:
        assert watcher.wait(60) == 7
    wait_until(lambda: not any(_lives(int(word)) for word in told.read_text().split()))


def _lives(number: int) -> bool:
    try:
        return psutil.Process(number).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_until(condition: Any) -> None:
    latest = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < latest
        time.sleep(0.05)
