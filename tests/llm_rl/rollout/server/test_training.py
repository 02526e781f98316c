"""GRPO whose roll-outs come from a server: mismatch in the log, weights at each step, a server that dies."""

from pathlib import Path
from typing import Any

import pytest
from transformers import TrainerCallback

from llm_rl import ImportanceCorrection
from llm_rl.rollout.server.client import CompletionClient, ServerError
from llm_rl.rollout.server.engine import ServerEngine
from tests.helpers.refusals import refused
from tests.llm_rl.helpers import tiny_grpo
from tests.llm_rl.helpers.serving import free_port, policy, serving
from tests.llm_rl.helpers.tiny_grpo import SAVING, new_model, uneven, untimed
from tests.llm_rl.helpers.watch import trained

STEPS = 3
SETTINGS: dict[str, Any] = {"max_steps": STEPS, "learning_rate": 1e-2}


class CountAdapters(TrainerCallback):
    """The names under which the server had the policy's weights, after each step."""

    def __init__(self, engine: ServerEngine) -> None:
        self.engine, self.names = engine, list[str | None]()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.names.append(self.engine._served)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The model without adapters."""
    new_model().save_pretrained(tmp_path / "served")
    return tmp_path / "served"


def test_each_step_samples_from_its_own_weights_and_the_mismatch_is_told(tmp_path: Path, folder: Path) -> None:
    """And an evaluation has the same completions each time."""
    with serving(folder) as url:
        engine = ServerEngine(url)
        counted = CountAdapters(engine)
        given = {"engine": engine, "callbacks": [counted], "extensions": [ImportanceCorrection()]}
        run = trained(tiny_grpo.trainer(tmp_path / "run", policy(), reward_funcs=uneven, given=given, **SETTINGS))
        assert run.evaluate(tiny_grpo.rows()) == run.evaluate(tiny_grpo.rows())
    lines = run.state.log_history[:STEPS]
    assert len(set(counted.names)) == STEPS
    for line in lines:
        assert 0 <= line["engine_logp_diff_mean"] <= line["engine_logp_diff_max"] < 1e-4
        assert line["engine_ess"] == pytest.approx(1, abs=1e-4) and abs(line["engine_kl"]) < 1e-6
        assert line["importance_weight_mean"] == pytest.approx(1, abs=1e-4)


@pytest.mark.slow
def test_a_run_whose_server_died_goes_on_as_if_it_had_not(tmp_path: Path, folder: Path) -> None:
    """At the second roll-out; a new server and the last checkpoint bring the same log as a run without."""

    def trainer(name: str, url: str, *callbacks: Any) -> Any:
        given = {"engine": ServerEngine(url), "callbacks": [*callbacks]}
        return tiny_grpo.trainer(tmp_path / name, policy(), reward_funcs=uneven, given=given, **SETTINGS, **SAVING)

    with serving(folder) as url:
        whole = trained(trainer("whole", url))

    port = free_port()
    with serving(folder, port=port) as url:
        first = trainer("broken", url, EndAfter(1, url))
        refused("resume_from_checkpoint", lambda: first.train(), ServerError)
    with serving(folder, port=port) as url:
        again = trained(trainer("broken", url), resume_from_checkpoint=True)
    assert untimed(again.state.log_history) == untimed(whole.state.log_history)


class EndAfter(TrainerCallback):
    """Ends the server when a number of steps is done."""

    def __init__(self, step: int, url: str) -> None:
        self.step, self.url = step, url

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self.step:
            with pytest.raises(ServerError):
                CompletionClient(self.url, 60).request("POST", "/end", {})
